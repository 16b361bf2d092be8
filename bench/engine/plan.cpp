#include "bench/engine/plan.hpp"

#include <array>
#include <stdexcept>

#include "device/cuda/cuda_device.hpp"
#include "device/sim/sim_device.hpp"
#include "pipeline/device_batches.hpp"
#include "pipeline/executor.hpp"
#include "placement/prove_kernels.hpp"

namespace tandem::bench {
namespace {

class CpuRunner final : public PlanRunner {
 public:
  CpuRunner(Context& context, std::uint32_t batch_queries) : executor_(context), batch_(batch_queries) {}
  unsigned count() const noexcept override { return 1; }
  unsigned in_flight() const noexcept override { return filled_ ? 1 : 0; }
  unsigned next() const noexcept override { return 0; }
  unsigned oldest() const noexcept override { return 0; }
  Batch& batch() noexcept override { return batch_; }
  void submit() override { filled_ = true; }
  void answer_oldest(ResponseWriter& writer) override {
    executor_.run(batch_, writer);
    batch_.clear();
    filled_ = false;
  }

 private:
  Executor executor_;
  Batch batch_;
  bool filled_ = false;
};

class DeviceRunner final : public PlanRunner {
 public:
  DeviceRunner(Engine& engine, Context& context, std::uint32_t batch_queries)
      : executor_(context), batches_(context, *engine.schedulers(), batch_queries) {}
  unsigned count() const noexcept override { return batches_.count(); }
  unsigned in_flight() const noexcept override { return batches_.in_flight(); }
  unsigned next() const noexcept override { return batches_.next(); }
  unsigned oldest() const noexcept override { return batches_.oldest(); }
  Batch& batch() noexcept override { return batches_.filling(); }
  void submit() override { batches_.submit(); }
  void answer_oldest(ResponseWriter& writer) override { batches_.answer_oldest(executor_, writer); }

 private:
  Executor executor_;
  DeviceBatches batches_;
};

std::unique_ptr<PlanRunner> make_cpu_runner(Engine& /*engine*/, Context& context, std::uint32_t batch_queries) {
  return std::make_unique<CpuRunner>(context, batch_queries);
}
std::unique_ptr<PlanRunner> make_device_runner(Engine& engine, Context& context, std::uint32_t batch_queries) {
  if (engine.schedulers() == nullptr) throw std::runtime_error("the device cannot be used");
  return std::make_unique<DeviceRunner>(engine, context, batch_queries);
}
Devices gpus(unsigned count) {
  const DeviceCount found = cuda_device_count();
  if (found.count == 0) throw std::runtime_error("no GPU: " + found.reason);
  if (count > found.count)
    throw std::runtime_error("of " + std::to_string(count) + " GPUs there are " + std::to_string(found.count));
  Devices devices;
  for (unsigned i = 0; i < count; ++i) {
    devices.push_back(make_cuda_device(i));
    prove_kernels(*devices.back());
  }
  return devices;
}

Devices simulated(unsigned count) {
  Devices devices;
  for (unsigned i = 0; i < count; ++i) devices.push_back(make_sim_device({.number = i}));
  return devices;
}

constexpr std::array plans = {
    EnginePlan{"cpu", "all tasks on the processor", plan_cpu, [](unsigned) { return Devices(); }, make_cpu_runner},
    EnginePlan{"mirrored", "searches by GPUs in a replica of the index", plan_mirrored, gpus, make_device_runner},
    EnginePlan{"mirrored-values", "the same, with copies of the items in its memory", plan_mirrored_values, gpus,
               make_device_runner},
    EnginePlan{"mirrored-sim", "mirrored with a device in software, to see that it works", plan_mirrored, simulated,
               make_device_runner},
    EnginePlan{"mirrored-values-sim", "mirrored-values with a device in software", plan_mirrored_values, simulated,
               make_device_runner},
    EnginePlan{"mega-kv", "searches and changes by GPUs that alone have the index", plan_mirrored, gpus,
               make_device_runner, true},
    EnginePlan{"mega-kv-sim", "mega-kv with a device in software", plan_mirrored, simulated, make_device_runner, true},
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
