#include "bench/engine/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "device/cuda/cuda_device.hpp"
#include "device/sim/sim_device.hpp"
#include "placement/prove_kernels.hpp"

namespace tandem::bench {
namespace {

constexpr std::array placements = {tandem::Placement::host, tandem::Placement::mirrored,
                                   tandem::Placement::mirrored_values, tandem::Placement::on_device};

EnginePlan plan_of_text(std::string_view text, bool simulated) {
  const Plan plan = Plan::parse(text);
  std::string reasons;
  for (const tandem::Placement placement : placements) {
    const std::string why = why_not(placement, plan);
    if (why.empty()) return {plan.text(), "as given", plan, placement, simulated, false, false};
    reasons += "\n  " + std::string(placement_names[static_cast<std::size_t>(placement)]) + ": " + why;
  }
  throw std::invalid_argument("plan " + plan.text() + " is feasible with no placement:" + reasons);
}

// Nothing: it is no number from 1 on.
std::uint32_t parse_count(std::string_view text) noexcept {
  std::uint32_t number = 0;
  const char *const begin = text.data(), *const end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  return error == std::errc{} && stop == end ? number : 0;
}

// Throws std::invalid_argument.
double parse_share(std::string_view text) {
  double share = 0;
  const char *const begin = text.data(), *const end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, share);
  if (error == std::errc{} && stop == end && share > 0 && share <= 1) return share;
  throw std::invalid_argument(fmt::format("hot keys: expected a share above 0, at most 1, got \"{}\"", text));
}

}  // namespace

Devices EnginePlan::devices(unsigned count) const {
  Devices devices;
  if (!uses_devices()) return devices;
  if (is_simulated) {
    for (unsigned i = 0; i < count; ++i) devices.push_back(make_sim_device({.number = i}));
    return devices;
  }
  const DeviceCount found = cuda_device_count();
  if (found.count == 0) throw std::runtime_error("no GPU: " + found.reason);
  if (count > found.count)
    throw std::runtime_error("of " + std::to_string(count) + " GPUs there are " + std::to_string(found.count));
  for (unsigned i = 0; i < count; ++i) {
    devices.push_back(make_cuda_device(i));
    prove_kernels(*devices.back());
  }
  return devices;
}

std::span<const EnginePlan> all_engine_plans() {
  static const std::array plans = {
      EnginePlan{"cpu", "all tasks on the processor", plan_cpu, tandem::Placement::host, false},
      EnginePlan{"dispatched", "the same, each leaf's requests by one thread", plan_cpu, tandem::Placement::host, false,
                 true},
      EnginePlan{"mirrored", "searches by GPUs in a replica of the index", plan_search, tandem::Placement::mirrored,
                 false},
      EnginePlan{"frames", "plain reads by GPUs, from the bytes of requests to those of replies", plan_frames,
                 tandem::Placement::mirrored_values, false},
      EnginePlan{"located", "plain reads parsed and searched for by GPUs, and answered by the processor", plan_located,
                 tandem::Placement::mirrored, false},
      EnginePlan{"located-sim", "located with a device in software", plan_located, tandem::Placement::mirrored, true},
      EnginePlan{"frames-sim", "frames with a device in software", plan_frames, tandem::Placement::mirrored_values,
                 true},
      EnginePlan{"mirrored-sim", "mirrored with a device in software, to see that it works", plan_search,
                 tandem::Placement::mirrored, true},
      EnginePlan{"mega-kv", "plain requests parsed and searched for by a GPU that alone has the index",
                 plan_located_index, tandem::Placement::on_device, false},
      EnginePlan{"mega-kv-sim", "mega-kv with a device in software", plan_located_index, tandem::Placement::on_device,
                 true},
      EnginePlan{
          "kvcg",
          "mega-kv, but for hot keys, which the host answers; kvcg@0.005: those with this share of all requests; "
          "kvcg=0.001: this share of the keys",
          plan_located_index, tandem::Placement::on_device, false, false, false, true},
      EnginePlan{"kvcg-sim", "kvcg with a device in software", plan_located_index, tandem::Placement::on_device, true,
                 false, false, true},
  };
  return plans;
}

EnginePlan engine_plan(std::string_view name_or_text, bool simulated) {
  if (name_or_text.find('[') != std::string_view::npos) return plan_of_text(name_or_text, simulated);
  const std::size_t rule = std::min(name_or_text.find_first_of("@="), name_or_text.size());
  std::string names;
  for (const EnginePlan& plan : all_engine_plans()) {
    if (plan.name == name_or_text.substr(0, rule) && (rule == name_or_text.size() || plan.answers_hot)) {
      EnginePlan found = plan;
      found.name = name_or_text;
      found.is_simulated |= simulated;
      if (rule != name_or_text.size())
        (name_or_text[rule] == '@' ? found.hot_threshold : found.hot_share) =
            parse_share(name_or_text.substr(rule + 1));
      return found;
    }
    names.append(names.empty() ? "" : ", ").append(plan.name);
  }
  throw std::invalid_argument("unknown plan \"" + std::string(name_or_text) + "\"; there are: " + names +
                              "; or a plan's text, such as " + plan_search.text());
}

std::string PlanChoice::text() const {
  return batch != 0 ? fmt::format("{}:{}x{}", plan, threads, batch) : fmt::format("{}:{}", plan, threads);
}

// A plan's own text may have colons, so the last one counts.
PlanChoice parse_plan_choice(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  PlanChoice choice{std::string(text.substr(0, colon))};
  if (colon != std::string_view::npos) {
    const std::string_view numbers = text.substr(colon + 1);
    const std::size_t times = numbers.find('x');
    choice.threads = parse_count(numbers.substr(0, times));
    if (times != std::string_view::npos) choice.batch = parse_count(numbers.substr(times + 1));
    const bool has_batch = times == std::string_view::npos ? choice.is_automatic() : choice.batch != 0;
    if (!choice.plan.empty() && choice.threads != 0 && has_batch) return choice;
  }
  throw std::invalid_argument(fmt::format(
      "expected PLAN:THREADSxBATCH such as frames:15x16384, or {0}:THREADS, got \"{1}\"", PlanChoice::automatic, text));
}

EnginePlan automatic_plan(std::span<const PlanChoice> beside, bool simulated) {
  EnginePlan plan{std::string(PlanChoice::automatic), "as preset auto chooses for each batch", plan_cpu,
                  tandem::Placement::mirrored, simulated};
  plan.is_chosen = true;
  for (const PlanChoice& choice : beside) {
    if (choice.is_automatic()) continue;
    const EnginePlan other = engine_plan(choice.plan, simulated);
    plan.is_simulated |= other.is_simulated;
    if (other.placement == tandem::Placement::mirrored_values) plan.placement = other.placement;
  }
  return plan;
}

}  // namespace tandem::bench
