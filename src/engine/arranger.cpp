#include "engine/arranger.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>

namespace tandem {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::uint64_t work_ns = 4000;  // at a time
constexpr int rest_of_work = 64;
constexpr auto rest_max = std::chrono::milliseconds(100);   // a page that holds slots for what moves cannot itself move
constexpr auto rest_slice = std::chrono::milliseconds(10);  // between two looks whether to stop
constexpr auto idle_period = std::chrono::milliseconds(1000);
constexpr auto rest_without_rows = std::chrono::seconds(1);

}  // namespace

Arranger::Arranger(Context& context, ScatteredRanges& scattered)
    : context_(context), scattered_(scattered), arranger_(context), thread_([this] {
        pthread_setname_np(pthread_self(), "tandem-arrange");  // by itself: naming another thread writes a file
        loop();
      }) {}

Arranger::~Arranger() {
  stopping_.store(true, std::memory_order_relaxed);
  scattered_.added.notify();
  thread_.join();
}

bool Arranger::rest(std::chrono::nanoseconds time) const {
  const auto end = Steady::now() + time;
  for (auto now = Steady::now(); now < end && !stopping_.load(std::memory_order_relaxed); now = Steady::now())
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(end - now, rest_slice));
  return !stopping_.load(std::memory_order_relaxed);
}

void Arranger::loop() {
  RecentKeys::Noted noted;
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (!scattered_.ranges.take(noted)) {
      {
        const Heap::Cache::Lock lock(context_.cache);
        context_.shared.heap.reclaim_all(context_.cache);
      }
      scattered_.added.wait_for(idle_period);
      continue;
    }
    auto begin = Steady::now();
    arranger_.begin({.begin = noted.key()}, noted.count);
    const auto rest_for_work = [&] {
      return rest(std::min<std::chrono::nanoseconds>(rest_of_work * (Steady::now() - begin), rest_max));
    };
    while (arranger_.go_on(work_ns)) {
      if (!rest_for_work()) return;
      begin = Steady::now();
    }
    if (!(arranger_.is_out_of_rows() ? rest(rest_without_rows) : rest_for_work())) return;
  }
}

}  // namespace tandem
