#include "base/yield.hpp"

#include <sched.h>

#include <chrono>
#include <thread>

namespace tandem {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds long_yield = 1ms, sleep = 20us;
constexpr unsigned sleeps_before_yield = 200;

}  // namespace

void yield_processor() noexcept {
  static thread_local unsigned sleeps_left = 0;
  if (sleeps_left != 0) {
    --sleeps_left;
    std::this_thread::sleep_for(sleep);
    return;
  }
  const auto before = std::chrono::steady_clock::now();
  sched_yield();
  if (std::chrono::steady_clock::now() - before >= long_yield) sleeps_left = sleeps_before_yield;
}

}  // namespace tandem
