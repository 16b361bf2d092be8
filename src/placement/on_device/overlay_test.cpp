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
  overlay.reclaim(store.heap, worker.cache, stripes, Overlay::Reclaim::all);
  EXPECT_TRUE(overlay.wakeup()->wait_for(500s));
  overlay.reclaim(store.heap, worker.cache, stripes, Overlay::Reclaim::mine);
  overlay.reclaim(store.heap, worker.cache, stripes, Overlay::Reclaim::idle);
  EXPECT_FALSE(overlay.wakeup()->wait_for(5ms));
}

}  // namespace
}  // namespace tandem
