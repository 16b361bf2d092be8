// What the scheduler and waiting threads ask of an overlay. Correctness of a store over one:
// store/index_on_device_test.cpp.
#include "placement/on_device/overlay.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "base/memory_budget.hpp"
#include "index/cuckoo/index_test_support.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

// A scheduler sleeps while no worker submits a batch, also when all workers wait for what only it can do.
TEST(Overlay, WhoWaitsWakesTheScheduler) {
  TestStore store;
  TestWorker worker(store);
  MemoryBudget budget(std::uint64_t{1} << 20);
  Stripes stripes;
  Overlay overlay(64, 1, budget);
  overlay.settle(store.heap, worker.cache, stripes, Overlay::Settle::all);
  const auto began = std::chrono::steady_clock::now();
  overlay.wakeup()->wait_for(600s);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 300s);
  overlay.settle(store.heap, worker.cache, stripes, Overlay::Settle::mine);
  overlay.settle(store.heap, worker.cache, stripes, Overlay::Settle::idle);
  const auto slept = std::chrono::steady_clock::now();
  overlay.wakeup()->wait_for(5ms);
  EXPECT_GE(std::chrono::steady_clock::now() - slept, 5ms);
}

}  // namespace
}  // namespace tandem
