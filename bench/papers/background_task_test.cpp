#include "bench/papers/background_task.hpp"

#include <gtest/gtest.h>

#include "device/device_contract.hpp"

namespace tandem::bench {
namespace {

class BackgroundTasks : public testing::TestWithParam<DeviceKind> {};
INSTANTIATE_TEST_SUITE_P(Devices, BackgroundTasks, testing::ValuesIn(device_kinds()),
                         [](const testing::TestParamInfo<DeviceKind>& kind) { return kind.param.name; });

TEST_P(BackgroundTasks, EveryNumberOfKernelsDoesAllOfIt) {
  const std::unique_ptr<Device> device = GetParam().make();
  BackgroundTask task(*device, {.elements = 1 << 16, .blocks = 37, .passes = 2});
  const std::unique_ptr<Stream> low = device->make_background_stream(), same = device->make_stream();
  EXPECT_FALSE(task.is_right());  // not done yet
  for (const std::uint32_t kernels : {1U, 2U, 5U, 36U, 37U}) {
    for (Stream* const stream : {low.get(), same.get()}) {
      task.clear();
      EXPECT_FALSE(task.is_right());
      EXPECT_GT(task.run(*stream, kernels), 0);
      EXPECT_TRUE(task.is_right()) << kernels;
    }
  }
  task.clear();
  task.run(*low, 3, 5);
  EXPECT_TRUE(task.is_right());
  const BackgroundTask::Size size = BackgroundTask::size_for(*device);
  EXPECT_GE(size.blocks, 64U);
  EXPECT_GE(size.elements, size.blocks);
}

TEST_P(BackgroundTasks, ALostDeviceIsReported) {
  const std::unique_ptr<Device> device = GetParam().make();
  {
    BackgroundTask task(*device, {.elements = 1 << 12, .blocks = 4, .passes = 1});
    const std::unique_ptr<Stream> stream = device->make_background_stream();
    device->abandon();
    EXPECT_THROW(task.run(*stream, 2), DeviceError);
  }
}

}  // namespace
}  // namespace tandem::bench
