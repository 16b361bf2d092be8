#include "cli/calibrate_plans.hpp"

#include <fmt/format.h>
#include <sysexits.h>
#include <unistd.h>

#include <stdexcept>

#include "bench/engine/plan_costs.hpp"
#include "bench/engine/threads.hpp"
#include "options/options.hpp"
#include "options/plan_costs_file.hpp"
#include "options/value.hpp"
#include "options/version.hpp"
#include "planner/model.hpp"

namespace tandem::cli {
namespace {

bench::EngineSettings settings_of(const CalibratePlansArguments& g) {
  constexpr std::uint64_t requests = 1 << 18;  // drawn for each thread
  constexpr std::uint32_t in_flight = 16;
  bench::EngineSettings s;
  const bool is_simulated = g.gpu == "sim";
  if (!is_simulated && g.gpu != "auto" && g.gpu != "0")
    throw CommandError(EX_USAGE, "calibrate: --plans: --gpu is auto, 0 or sim");
  try {
    s.item_bytes = parse_size(!g.items.empty() ? g.items : is_simulated ? "4MiB" : "1GiB");
  } catch (const ValueError& error) {
    throw CommandError(EX_USAGE, fmt::format("calibrate: --items: {}", error.what()));
  }
  s.plans =
      bench::default_plans(g.threads != 0 ? g.threads : static_cast<unsigned>(bench::allowed_processors().size()));
  s.simulate = is_simulated;
  s.in_flight = in_flight;
  s.rounds = g.rounds;
  s.seconds = g.seconds;
  s.tape.ops = is_simulated ? requests / 16 : requests;
  s.cache_misses = false;
  return s;
}

// Million queries a second of each plan, by size and share of SETs, where keys are uniform.
void print_rates(const Coefficients& c) {
  fmt::print("{}, {}, {} threads; M queries/s, uniform, by the share of SETs\n  {:>24} {:>9}", c.processor, c.gpu,
             c.threads, "plan", "item, B");
  for (const double share : c.set_shares) fmt::print(" {:>7g} %", share * 100);
  fmt::print("\n");
  for (const Coefficients::PlanCosts& plan : c.plans) {
    const Candidate& candidate = plan.candidate;
    for (std::size_t size = 0; size < c.sizes.size(); ++size) {
      fmt::print("  {:>24} {:>9.0f}", fmt::format("{}:{}x{}", candidate.plan, candidate.threads, candidate.batch),
                 c.sizes[size].store_bytes / c.sizes[size].keys);
      for (std::size_t share = 0; share < c.set_shares.size(); ++share) {
        const double queries_per_ns = rate(plan.points[c.point_of(size, share, 0)], machine_of(c, candidate.threads));
        fmt::print(" {:>9.1f}", queries_per_ns * 1e3);
      }
      fmt::print("\n");
    }
  }
}

}  // namespace

int calibrate_plans(const CalibratePlansArguments& g) {
  const bool shows_progress = isatty(STDERR_FILENO) != 0;
  bench::EngineHooks hooks;
  if (shows_progress) hooks.progress = [](std::string_view what) { fmt::print(stderr, "\r\x1b[K{}", what); };
  bench::Json document = bench::make_document("tandem calibrate --plans");
  Coefficients c;
  try {
    c = bench::measure_plan_costs(settings_of(g), g.gpu == "sim", document, hooks);
  } catch (const std::invalid_argument& error) {
    throw CommandError(EX_USAGE, fmt::format("calibrate: {}", error.what()));
  } catch (const std::runtime_error& error) {
    throw CommandError(EX_UNAVAILABLE, fmt::format("calibrate: {}", error.what()));
  }
  if (shows_progress) fmt::print(stderr, "\r\x1b[K");
  if (const std::string errors = bench::errors_of(document); !errors.empty())
    throw CommandError(EX_SOFTWARE, fmt::format("calibrate: {}", errors));
  c.version = version;
  const nlohmann::ordered_json kept = plan_costs_json(c);
  if (g.json) {
    fmt::print("{}\n", calibration_text(kept));
  } else {
    print_rates(c);
  }
  if (!g.file.empty()) keep_calibration(kept, g.file, g.json);
  return EX_OK;
}

}  // namespace tandem::cli
