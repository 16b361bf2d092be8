#include "selftest.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <mutex>
#include <thread>
#include <vector>

#include "simulation.hpp"

namespace tandem::schedules {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int wrong_exit = 3;

// Each returns whether all is as it should be.

template <bool is_right>
bool counts() {
  std::atomic<int> count{0};
  const auto add = [&] {
    for (int i = 0; i < 10; ++i) {
      if (is_right) {
        count.fetch_add(1);
      } else {
        count.store(count.load() + 1);
      }
    }
  };
  std::thread other(add);
  add();
  other.join();
  return count.load() == 20;
}

template <bool is_right>
bool locks_two() {
  std::mutex a, b;
  int held = 0;
  const auto hold = [&held](std::mutex& first, std::mutex& second) {
    const std::lock_guard outer(first);
    const std::lock_guard inner(second);
    ++held;
  };
  std::thread other([&] { hold(a, b); });
  if (is_right) {
    hold(a, b);
  } else {
    hold(b, a);
  }
  other.join();
  return held == 2;
}

template <bool is_right>
bool wakes() {
  std::mutex mutex;
  std::condition_variable condition;
  std::atomic<bool> told{false};
  std::thread sleeper([&] {
    std::unique_lock lock(mutex);
    while (!told.load()) condition.wait(lock);
  });
  if (is_right) {
    const std::lock_guard lock(mutex);
    told.store(true);
  } else {
    told.store(true);  // the sleeper may have looked, and sleep only then
  }
  condition.notify_one();
  sleeper.join();
  return true;
}

template <bool is_right>
bool waits_for_a_flag() {
  std::atomic<bool> told{false};
  std::thread other([&] { told.store(is_right); });
  while (!told.load()) std::this_thread::yield();
  other.join();
  return true;
}

// Several times in each turn, and for hours, which take none.
bool time_passes() {
  using namespace std::chrono_literals;
  const Clock::time_point began = Clock::now();
  std::atomic<int> order{0};
  int late = 0, soon = 0;
  std::thread other([&] {
    std::this_thread::sleep_for(2h);
    late = order.fetch_add(1);
  });
  std::mutex mutex;
  std::condition_variable condition;
  {
    std::unique_lock lock(mutex);
    while (condition.wait_until(lock, began + 1h) == std::cv_status::no_timeout) {
    }
  }
  const auto slept = Clock::now() - began;
  soon = order.fetch_add(1);
  other.join();
  return soon == 0 && late == 1 && slept >= 1h && slept < 1h + 1s && Clock::now() - began >= 2h;
}

bool atomics_wait() {
  std::atomic<int> word{0};
  std::thread other([&] {
    word.wait(0);
    word.store(2);
    word.notify_all();
  });
  word.store(1);
  word.notify_all();
  word.wait(1);
  other.join();
  return word.load() == 2;
}

int exit_code(bool (*program)(), std::uint64_t seed) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);  // which thread waits for which is no news here
    alarm(60);
    begin(seed, 30'000, nullptr);
    const bool good = program();
    end();
    _exit(good ? 0 : wrong_exit);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct Case {
  const char* name;
  bool (*program)();
  int expected;  // the exit code in some seeds, or 0
  bool in_each;  // in all of them
  std::uint64_t seeds = 100;
};

constexpr Case cases[] = {
    {"a counter that is read and written", counts<false>, wrong_exit, false},
    {"a counter that is added to", counts<true>, 0, true},
    {"two locks, in two orders", locks_two<false>, deadlock_exit, false, 300},
    {"two locks, in one order", locks_two<true>, 0, true},
    {"a wake-up that nobody hears", wakes<false>, deadlock_exit, false, 1000},
    {"a wake-up under the lock", wakes<true>, 0, true},
    {"a flag that nobody sets", waits_for_a_flag<false>, endless_exit, true},
    {"a flag that somebody sets", waits_for_a_flag<true>, 0, true},
    {"hours", time_passes, 0, true},
    {"std::atomic::wait", atomics_wait, 0, true},
};

}  // namespace

bool self_test() {
  bool all_good = true;
  for (const Case& c : cases) {
    std::uint64_t as_expected = 0, otherwise = 0;
    for (std::uint64_t seed = 1; seed <= c.seeds; ++seed) {
      const int code = exit_code(c.program, seed);
      if (code == c.expected) ++as_expected;
      if (code != c.expected && code != 0) ++otherwise;
    }
    const bool good =
        otherwise == 0 && (c.in_each ? as_expected == c.seeds : as_expected != 0 && as_expected != c.seeds);
    all_good = all_good && good;
    std::printf("%s %s: %llu of %llu seeds end with %d, %llu with another failure\n", good ? "ok  " : "FAIL", c.name,
                static_cast<unsigned long long>(as_expected), static_cast<unsigned long long>(c.seeds), c.expected,
                static_cast<unsigned long long>(otherwise));
  }
  return all_good;
}

}  // namespace tandem::schedules
