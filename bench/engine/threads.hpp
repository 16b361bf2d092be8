// Threads, each on its own processor, that repeat an action between two signals.
#pragma once
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/platform.hpp"

namespace tandem::bench {

// The processors that this process may run on.
inline std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (std::size_t i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) processors.push_back(static_cast<int>(i));
    }
  }
  if (processors.empty()) processors.push_back(0);
  return processors;
}

inline constexpr unsigned pinned_threads_max = 128;
// As many threads as have a processor each.
inline unsigned pinned_threads() {
  return static_cast<unsigned>(std::min<std::size_t>(allowed_processors().size(), pinned_threads_max));
}

inline void pin_to(int processor) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(processor), &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

inline double thread_cpu_s() noexcept {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

struct Turn {
  std::uint64_t ops = 0;
  double seconds = 0;    // the mean of the threads' times
  double ops_per_s = 0;  // the sum of the threads' rates
  double cpu_share = 1;  // processor time / wall time of the threads; below 1: processors were shared
};

// Calls step(thread) until `seconds` have passed or it returns 0, at least once; it returns the number of its
// operations. Rethrows a step's exception when all threads have ended.
template <class Step>
Turn take_turn(unsigned threads, double seconds, Step step) {
  using Clock = std::chrono::steady_clock;
  const std::vector<int> processors = allowed_processors();
  std::atomic<unsigned> ready{0}, running{threads};
  std::atomic<bool> go{false}, stop{false};
  struct alignas(cache_line_bytes) Part {
    std::uint64_t ops = 0;
    double seconds = 0, cpu_s = 0;
    std::exception_ptr error;
  };
  std::vector<Part> parts(threads);
  std::vector<std::thread> pool;
  for (unsigned t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      pin_to(processors[t % processors.size()]);
      ready.fetch_add(1);
      while (!go.load()) std::this_thread::yield();
      const double cpu_before_s = thread_cpu_s();
      const auto start = Clock::now();
      std::uint64_t done = 0;
      try {
        std::uint64_t ops = 0;
        do {
          ops = step(t);
          done += ops;
        } while (ops != 0 && !stop.load(std::memory_order_relaxed));
      } catch (...) {
        parts[t].error = std::current_exception();
      }
      parts[t].seconds = std::chrono::duration<double>(Clock::now() - start).count();
      parts[t].cpu_s = thread_cpu_s() - cpu_before_s;
      parts[t].ops = done;
      running.fetch_sub(1);
    });
  }
  while (ready.load() != threads) std::this_thread::yield();
  const auto start = Clock::now();
  go.store(true);
  // Sleeps for the turn, or until all threads are done.
  constexpr auto look_every = std::chrono::milliseconds(5);
  for (;;) {
    const double left = seconds - std::chrono::duration<double>(Clock::now() - start).count();
    if (left <= 0 || running.load() == 0) break;
    std::this_thread::sleep_for(
        std::min<std::chrono::duration<double>>(std::chrono::duration<double>(left), look_every));
  }
  stop.store(true);
  for (std::thread& thread : pool) thread.join();
  Turn turn;
  double cpu_s = 0;
  for (const Part& part : parts) {
    if (part.error) std::rethrow_exception(part.error);
    turn.ops += part.ops;
    cpu_s += part.cpu_s;
    turn.seconds += part.seconds / threads;
    if (part.seconds > 0) turn.ops_per_s += static_cast<double>(part.ops) / part.seconds;
  }
  if (turn.seconds > 0) turn.cpu_share = std::min(1.0, cpu_s / threads / turn.seconds);
  return turn;
}

// Calls work(thread) once on each of `threads` threads.
template <class Work>
void on_each_thread(unsigned threads, Work work) {
  take_turn(threads, 1e9, [&](unsigned t) {
    work(t);
    return std::uint64_t{0};
  });
}

}  // namespace tandem::bench
