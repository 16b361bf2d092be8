#include "bench/engine_plan.hpp"

#include <array>
#include <stdexcept>

#include "pipeline/executor.hpp"

namespace tandem::bench {
namespace {

class CpuRunner final : public PlanRunner {
 public:
  explicit CpuRunner(Context& context) : executor_(context) {}
  void run(Batch& batch, ResponseWriter& writer) override { executor_.run(batch, writer); }

 private:
  Executor executor_;
};

constexpr std::array plans = {
    EnginePlan{"cpu", "all tasks on the processor", plan_cpu,
               [](Context& context) -> std::unique_ptr<PlanRunner> { return std::make_unique<CpuRunner>(context); }},
};

}  // namespace

std::span<const EnginePlan> all_engine_plans() { return plans; }

const EnginePlan& engine_plan(std::string_view name) {
  std::string names;
  for (const EnginePlan& plan : plans) {
    if (plan.name == name) return plan;
    names.append(names.empty() ? "" : ", ").append(plan.name);
  }
  throw std::invalid_argument("unknown plan \"" + std::string(name) + "\"; there are: " + names);
}

}  // namespace tandem::bench
