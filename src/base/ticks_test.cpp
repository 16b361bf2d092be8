#include "base/ticks.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/platform.hpp"

namespace tandem {
namespace {

TEST(Ticks, AgreeWithTheSteadyClock) {
  const double each = ns_per_tick();
  ASSERT_GT(each, 0);
  EXPECT_EQ(ns_per_tick(), each);
  // The scheduler may interrupt a reading of both clocks; of several, one is undisturbed.
  double best = 1;
  for (int i = 0; i < 20 && best > 0.01; ++i) {
    const auto time = std::chrono::steady_clock::now();
    const std::uint64_t ticks = cycles_now();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::uint64_t passed = cycles_now() - ticks;
    const std::chrono::duration<double, std::nano> real = std::chrono::steady_clock::now() - time;
    best = std::min(best, std::abs(static_cast<double>(passed) * each / real.count() - 1));
  }
  EXPECT_LE(best, 0.01);
}

}  // namespace
}  // namespace tandem
