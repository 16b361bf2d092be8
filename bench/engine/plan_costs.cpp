#include "bench/engine/plan_costs.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <stdexcept>

#include "base/platform.hpp"
#include "bench/common/machine.hpp"

namespace tandem::bench {
namespace {

constexpr double index_lines = 1.1;  // of a search
constexpr double located_bytes = 8;  // of a key that a device has located
constexpr double cache_bytes_default = 32 << 20;

double cache_bytes_of(const Json& machine) {
  double bytes = 0;
  if (const auto caches = machine.find("caches"); caches != machine.end()) {
    for (const auto& [name, size] : caches->items()) bytes = std::max(bytes, size.get<double>());
  }
  return bytes > 0 ? bytes : cache_bytes_default;
}

struct Load {
  std::size_t size, share, skew;
};

// The loads in the order of their cells: those of one size share a store.
std::vector<Load> loads_of(std::size_t sizes, std::size_t shares) {
  std::vector<Load> loads;
  for (std::size_t size = 0; size < sizes; ++size) {
    for (std::size_t share = 0; share < shares; ++share) {
      for (std::size_t skew = 0; skew < Coefficients::skews; ++skew) loads.push_back({size, share, skew});
    }
  }
  return loads;
}

// The most of each resource that was used: no mix is said to do more.
void add_capacity(Coefficients& c) {
  c.capacity.fill(0);
  for (const Coefficients::PlanCosts& plan : c.plans) {
    for (const Demand& d : plan.points) {
      const double queries_per_ns = plan.candidate.threads / d[index_of(Resource::worker)];
      for (std::size_t r = 0; r < resource_count; ++r) c.capacity[r] = std::max(c.capacity[r], d[r] * queries_per_ns);
    }
  }
  c.capacity[index_of(Resource::worker)] = 1;
  c.capacity[index_of(Resource::gpu)] = 1;
}

}  // namespace

Demand demand_of(const Measured& m, unsigned threads, double item_bytes) {
  const double ops = static_cast<double>(std::max<std::uint64_t>(m.turn.ops, 1));
  const double item_lines = 1 + std::floor(item_bytes / cache_line_bytes);
  Demand d{};
  d[index_of(Resource::worker)] = threads * 1e9 / m.turn.ops_per_s;
  double host_items = ops, host_searches = ops;
  if (m.device && m.device->searched != 0) {
    const Measured::OnDevice& device = *m.device;
    const auto searched = static_cast<double>(device.searched), answered = static_cast<double>(device.answered);
    d[index_of(Resource::gpu)] = static_cast<double>(device.device_ns) / ops;
    d[index_of(Resource::up)] = static_cast<double>(m.request_bytes + device.sent_bytes) / ops;
    const double reply_bytes = static_cast<double>(m.reply_bytes) / ops;
    d[index_of(Resource::down)] =
        (answered * reply_bytes + (searched - std::min(answered, searched)) * located_bytes) / ops;
    host_items = std::max(ops - answered, 0.0);
    host_searches = std::max(ops - searched, 0.0);
  }
  if (m.device) d[index_of(Resource::scheduler)] = static_cast<double>(m.device->changes) / ops;
  d[index_of(Resource::memory)] = (host_items * item_lines + host_searches * index_lines) * cache_line_bytes / ops +
                                  d[index_of(Resource::up)] + d[index_of(Resource::down)];
  return d;
}

Candidate candidate_of(const PlanChoice& choice, const EnginePlan& plan) {
  const UpkeepLevel level = plan.placement == tandem::Placement::mirrored_values ? UpkeepLevel::items
                            : plan.placement == tandem::Placement::mirrored      ? UpkeepLevel::index
                                                                                 : UpkeepLevel::none;
  return {choice.plan, choice.threads, choice.batch, level};
}

std::vector<PlanChoice> default_plans(unsigned processors) {
  const unsigned beside = std::max(processors, 2u) - 1;
  return {{"cpu", processors, 1024}, {"located", beside, 4096}, {"frames", beside, 16384}};
}

Coefficients measure_plan_costs(const EngineSettings& settings, bool few, Json& document, const EngineHooks& hooks) {
  using Names = std::vector<std::string>;
  const Names sizes = few ? Names{"K8", "K32"} : Names{"K8", "K32", "K128"};
  const std::vector<int> sets = few ? std::vector{0, 100} : std::vector{0, 2, 10, 30, 100};  // percent
  EngineSettings one = settings;
  std::erase_if(one.plans, [](const PlanChoice& choice) { return choice.is_automatic(); });
  one.workloads.clear();
  const std::vector<Load> loads = loads_of(sizes.size(), sets.size());
  for (const Load& load : loads)
    one.workloads.push_back(
        fmt::format("{}-G{}-{}", sizes[load.size], 100 - sets[load.share], load.skew == 0 ? "U" : "S"));
  Coefficients c;
  const Json machine = describe_machine();
  c.processor = machine.value("cpu", "unknown");
  c.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  c.cache_bytes = cache_bytes_of(machine);
  for (const int percent : sets) c.set_shares.push_back(percent / 100.0);
  c.sizes.resize(sizes.size());
  for (Coefficients::Size& size : c.sizes) size.query_bytes.resize(sets.size());
  for (const PlanChoice& choice : one.plans) {
    c.threads = std::max(c.threads, choice.threads);
    c.plans.push_back({candidate_of(choice, engine_plan(choice.plan, one.simulate)), {}});
    c.plans.back().points.resize(c.point_count());
  }
  std::size_t cell = 0;
  EngineHooks with = hooks;
  with.measured = [&](const Json&, const PlanMeasurement& m) {
    const Load& load = loads[cell++];
    Coefficients::Size& size = c.sizes[load.size];
    size.keys = m.profile.keys;
    size.store_bytes = m.profile.store_bytes;
    size.query_bytes[load.share] = m.profile.query_bytes;
    if (!m.gpu.empty()) c.gpu = m.gpu;
    for (std::size_t p = 0; p < c.plans.size(); ++p)
      c.plans[p].points[c.point_of(load.size, load.share, load.skew)] = m.demands[p];
  };
  run_engine(one, document, with);
  add_capacity(c);
  if (const std::string why = why_impossible(c); !why.empty())
    throw std::runtime_error("the coefficients are of no use: " + why);
  return c;
}

}  // namespace tandem::bench
