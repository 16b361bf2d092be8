// The crawler: walks the heap in the background and gives back what has expired or was flushed, so that the memory of
// items that nobody asks for again is free before eviction needs it (memcached's lru_crawler; the papers have none).
//
// It looks at some thousand slots at a time, in an epoch of its own, and rests 64 times as long as it has worked: 1.6 %
// of one processor at most, however large the heap. A run that a client asks for sleeps `sleep_us` between two looks.
//
// Thread safety: all members from any thread.
#pragma once
#include <atomic>
#include <bitset>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "task/context.hpp"

namespace tandem {

struct CrawlerOptions {
  bool enabled = true;
  std::uint32_t sleep_us = 100;     // of a run that was asked for, between two looks
  std::uint32_t items_per_run = 0;  // such a run looks at so many items of a class at most; 0: at all
};

struct CrawlerStats {
  bool enabled, running;
  std::uint32_t sleep_us, items_per_run;
  std::uint64_t starts;  // runs that were asked for
  // By class (huge items last): items looked at, and given back.
  std::vector<std::uint64_t> checked, reclaimed;
};

class Crawler {
 public:
  // Bit i: class i; bit Heap::class_count(): huge items.
  using Classes = std::bitset<256>;

  // `context` is the crawler's own and outlives it. Starts the thread if `options` say so.
  Crawler(Context& context, const CrawlerOptions& options);
  ~Crawler();
  Crawler(const Crawler&) = delete;
  Crawler& operator=(const Crawler&) = delete;

  // Starts or ends the thread; ends a run. False: no thread could be started.
  bool set_enabled(bool enabled);
  void set_sleep_us(std::uint32_t sleep_us) noexcept { sleep_us_.store(sleep_us, std::memory_order_relaxed); }
  void set_items_per_run(std::uint32_t items) noexcept { items_per_run_.store(items, std::memory_order_relaxed); }

  enum class Asked : std::uint8_t { started, busy, disabled };
  // One run over these classes, now.
  Asked crawl(const Classes& classes);
  // There may be much to give back (flush_all): the next round in the background begins at once.
  void hurry() noexcept;

  CrawlerStats stats() const;

  // Walks the whole heap now, in the caller's thread, without sleeping (tests, benchmarks). REQUIRES: not enabled.
  void walk();

 private:
  struct Counters {
    std::atomic<std::uint64_t> checked{0}, reclaimed{0};
  };
  using Clock = std::chrono::steady_clock;

  void loop();
  // Looks at the next slots of `page` from `slot` on. Returns the slot to go on with; 0: the page is done.
  std::uint32_t look(PageId page, std::uint32_t slot);
  std::size_t index_of(PageId page) const;  // of the page's class in counters_
  bool wanted(PageId page) const;
  bool is_asked() const;
  bool sleep_until(Clock::time_point when);  // false: the crawler is to stop

  Context& context_;
  std::vector<Counters> counters_;  // by class, huge items last
  std::atomic<std::uint32_t> sleep_us_, items_per_run_;
  std::atomic<std::uint64_t> starts_{0};

  mutable std::mutex mutex_;
  std::condition_variable wakeup_;
  // Guarded by mutex_.
  bool enabled_ = false, stopping_ = false, asked_ = false, hurry_ = false;
  Classes asked_classes_;
  std::mutex thread_mutex_;  // taken before mutex_: who starts and joins the thread
  std::thread thread_;

  // The thread's own.
  bool run_is_asked_ = false;
  Classes run_classes_;
  std::vector<std::uint64_t> run_checked_;  // by class
  std::uint64_t run_reclaimed_ = 0;
};

}  // namespace tandem
