// The plans that the in-process mode can run: who executes a batch that was parsed.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "query/plan.hpp"
#include "store/engine.hpp"
#include "task/write_response.hpp"

namespace tandem::bench {

// Executes batches of one thread. Several may be under way: a batch that was filled is submitted, and answered later,
// in order. Thread safety: none.
class PlanRunner {
 public:
  PlanRunner() = default;
  PlanRunner(const PlanRunner&) = delete;
  PlanRunner& operator=(const PlanRunner&) = delete;
  virtual ~PlanRunner() = default;

  virtual unsigned count() const noexcept = 0;  // of batches that it has places for
  virtual unsigned in_flight() const noexcept = 0;
  // Number of the place to fill next, and the one that was submitted first.
  virtual unsigned next() const noexcept = 0;
  virtual unsigned oldest() const noexcept = 0;
  virtual Batch& batch() noexcept = 0;  // to fill next. REQUIRES: in_flight() < count()
  virtual void submit() = 0;
  virtual void answer_oldest(ResponseWriter& writer) = 0;
};

using Devices = std::vector<std::shared_ptr<Device>>;

struct EnginePlan {
  std::string_view name, summary;
  Plan plan;  // that the batches carry
  bool values_on_device() const noexcept { return plan.of(Task::read_value) == Processor::device; }
  // What the store needs for it: `count` of them, or none. Throws std::runtime_error: this machine has not so many.
  Devices (*devices)(unsigned count);
  std::unique_ptr<PlanRunner> (*make)(Engine& engine, Context& context, std::uint32_t batch_queries);
  bool index_on_device = false;  // EngineOptions'
};

// A new plan is a line in engine_plan.cpp.
std::span<const EnginePlan> all_engine_plans();
// Throws std::invalid_argument that names the plans there are.
const EnginePlan& engine_plan(std::string_view name);

}  // namespace tandem::bench
