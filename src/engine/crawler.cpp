#include "engine/crawler.hpp"

#include <pthread.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <system_error>

#include "task/memory.hpp"

namespace tandem {
namespace {

// Examined in one epoch: about 20 us of walking memory, longer if much is reclaimed.
constexpr std::uint32_t slots_per_look = 4096;
// In the background it works this long, then rests `rest` times as long.
constexpr auto work_at_a_time = std::chrono::microseconds(250);
constexpr int rest = 64;
// Minimum interval between the beginnings of its rounds; it grows with fruitless rounds.
constexpr auto round_period_min = std::chrono::seconds(5), round_period_max = std::chrono::seconds(80);
// A round that reclaims less than one in this many items is fruitless.
constexpr std::uint64_t items_per_garbage_max = 1000;

}  // namespace

Crawler::Crawler(Context& context, const CrawlerOptions& options)
    : context_(context),
      counters_(context.shared.heap.class_count() + 1),
      sleep_us_(options.sleep_us),
      items_per_run_(options.items_per_run),
      run_checked_(counters_.size()) {
  if (options.enabled && !set_enabled(true))
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "crawler thread");
}

Crawler::~Crawler() { set_enabled(false); }

bool Crawler::set_enabled(bool enabled) {
  const std::lock_guard starting(thread_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (enabled_ == enabled) return true;
    enabled_ = enabled;
    stopping_ = !enabled;
    asked_ = hurry_ = false;
  }
  wakeup_.notify_one();
  if (!enabled) {
    thread_.join();
    return true;
  }
  try {
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "tandem-crawl");  // by itself: naming another thread writes a file
      loop();
    });
    return true;
  } catch (const std::exception&) {  // no thread, or no memory
    const std::lock_guard lock(mutex_);
    enabled_ = false;
    return false;
  }
}

Crawler::Asked Crawler::crawl(const Classes& classes) {
  {
    const std::lock_guard lock(mutex_);
    if (!enabled_) return Asked::disabled;
    if (asked_) return Asked::busy;
    asked_ = true;
    asked_classes_ = classes;
  }
  starts_.fetch_add(1, std::memory_order_relaxed);
  wakeup_.notify_one();
  return Asked::started;
}

void Crawler::hurry() noexcept {
  {
    const std::lock_guard lock(mutex_);
    hurry_ = true;
  }
  wakeup_.notify_one();
}

CrawlerStats Crawler::stats() const {
  CrawlerStats s{};
  {
    const std::lock_guard lock(mutex_);
    s.enabled = enabled_;
    s.running = asked_;
  }
  s.sleep_us = sleep_us_.load(std::memory_order_relaxed);
  s.items_per_run = items_per_run_.load(std::memory_order_relaxed);
  s.starts = starts_.load(std::memory_order_relaxed);
  for (const Counters& c : counters_) {
    s.checked.push_back(c.checked.load(std::memory_order_relaxed));
    s.reclaimed.push_back(c.reclaimed.load(std::memory_order_relaxed));
  }
  return s;
}

void Crawler::walk() {
  run_is_asked_ = false;
  for (PageId page = 1; page < context_.shared.heap.page_end(); ++page) {
    for (std::uint32_t slot = 0; (slot = look(page, slot)) != 0;) {
    }
  }
}

bool Crawler::sleep_until(Clock::time_point when) {
  std::unique_lock lock(mutex_);
  // A requested run ends a rest of the background, not one of its own. hurry() starts the next round.
  const auto is_woken = [this] { return stopping_ || (!run_is_asked_ && asked_); };
  wakeup_.wait_until(lock, when, is_woken);
  return !stopping_;
}

bool Crawler::is_asked() const {
  const std::lock_guard lock(mutex_);
  return asked_;
}

std::size_t Crawler::index_of(PageId page) const {
  const SizeClass c = context_.shared.heap.class_of(page_location(page));
  return c == huge_class ? context_.shared.heap.class_count() : c;
}

bool Crawler::wanted(PageId page) const {
  if (!run_is_asked_) return true;
  const std::size_t i = index_of(page);
  const std::uint32_t most = items_per_run_.load(std::memory_order_relaxed);
  return run_classes_[i] && (most == 0 || run_checked_[i] < most);
}

std::uint32_t Crawler::look(PageId page, std::uint32_t slot) {
  const std::size_t i = index_of(page);  // before reclaiming: the page of a huge item leaves its class
  const task::Reclaimed found = task::reclaim_garbage(context_, page, slot, slots_per_look);
  run_checked_[i] += found.checked;
  run_reclaimed_ += found.reclaimed;
  counters_[i].checked.fetch_add(found.checked, std::memory_order_relaxed);
  counters_[i].reclaimed.fetch_add(found.reclaimed, std::memory_order_relaxed);
  return found.next_slot;
}

void Crawler::loop() {
  const Heap& heap = context_.shared.heap;
  std::chrono::seconds period = round_period_min;
  auto next_round = Clock::now() + period;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wakeup_.wait_until(lock, next_round, [this] { return stopping_ || asked_ || hurry_; });
      if (stopping_) return;
      run_is_asked_ = asked_;
      run_classes_ = asked_classes_;
      if (!run_is_asked_) hurry_ = false;
    }
    std::fill(run_checked_.begin(), run_checked_.end(), 0);
    run_reclaimed_ = 0;
    const auto round_begin = Clock::now();
    auto work_begin = round_begin;
    bool given_up = false;  // a requested run takes precedence
    for (PageId page = 1; page < heap.page_end() && !given_up; ++page) {
      for (std::uint32_t slot = 0; wanted(page);) {
        slot = look(page, slot);
        const auto now = Clock::now();
        if (run_is_asked_) {
          if (!sleep_until(now + std::chrono::microseconds(sleep_us_.load(std::memory_order_relaxed)))) return;
        } else if (now - work_begin >= work_at_a_time) {
          if (!sleep_until(now + rest * (now - work_begin))) return;
          work_begin = Clock::now();
          given_up = is_asked();
        }
        if (slot == 0 || given_up) break;
      }
    }
    if (run_is_asked_) {
      const std::lock_guard lock(mutex_);
      asked_ = false;
    } else {
      const std::uint64_t checked = std::accumulate(run_checked_.begin(), run_checked_.end(), std::uint64_t{0});
      const bool pays = run_reclaimed_ * items_per_garbage_max > checked;
      period = pays ? round_period_min : std::min(2 * period, round_period_max);
      next_round = std::max(Clock::now(), round_begin + period);
    }
    const Heap::Cache::Lock lock(context_.cache);
    context_.shared.heap.reclaim_all(context_.cache);
  }
}

}  // namespace tandem
