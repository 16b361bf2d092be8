#include "base/spin_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem {
namespace {

TEST(SpinLock, IsExclusive) {
  SpinLock lock;
  EXPECT_TRUE(lock.try_lock());
  EXPECT_TRUE(lock.is_locked());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_FALSE(lock.is_locked());
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(SpinLock, LockWaitsForTheHolder) {
  SpinLock lock;
  std::atomic<bool> asks{false}, has_it{false};
  lock.lock();
  std::thread other([&] {
    asks = true;
    const std::lock_guard guard(lock);
    has_it = true;
  });
  while (!asks) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(has_it);
  lock.unlock();
  other.join();
  EXPECT_TRUE(has_it);
}

TEST(SpinLock, ThreadsTakeTurns) {
  constexpr int thread_count = 4;
  constexpr int rounds = 20'000;
  SpinLock lock;
  std::uint64_t count = 0;  // not atomic: the lock orders it
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) {
        const std::lock_guard guard(lock);
        ++count;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(count, std::uint64_t{thread_count} * rounds);
}

}  // namespace
}  // namespace tandem
