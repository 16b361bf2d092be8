// The plans that the in-process mode can run: who executes a batch that was parsed.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "query/plan.hpp"
#include "store/engine.hpp"
#include "task/write_response.hpp"

namespace tandem::bench {

// Executes batches of one thread. Thread safety: none.
class PlanRunner {
 public:
  PlanRunner() = default;
  PlanRunner(const PlanRunner&) = delete;
  PlanRunner& operator=(const PlanRunner&) = delete;
  virtual ~PlanRunner() = default;
  virtual void run(Batch& batch, ResponseWriter& writer) = 0;
};

struct EnginePlan {
  std::string_view name, summary;
  Plan plan;  // that the batches carry
  std::unique_ptr<PlanRunner> (*make)(Context& context);
};

// A new plan is a line in engine_plan.cpp.
std::span<const EnginePlan> all_engine_plans();
// Throws std::invalid_argument that names the plans there are.
const EnginePlan& engine_plan(std::string_view name);

}  // namespace tandem::bench
