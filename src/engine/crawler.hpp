// The crawler: walks the heap in the background and reclaims expired and flushed items, so that memory of items that
// are never read again is free before eviction needs it (memcached's lru_crawler; the papers have none).
//
// It examines some thousand slots at a time, in an epoch of its own, and rests 64 times as long as it has worked: 1.6 %
// of one processor at most, however large the heap. A run that a client requests sleeps `sleep_us` between two steps.
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
  std::uint32_t sleep_us = 100;     // of a requested run, between two steps
  std::uint32_t items_per_run = 0;  // a requested run examines at most this many items of a class; 0: all
};

struct CrawlerStats {
  bool enabled, running;
  std::uint32_t sleep_us, items_per_run;
  std::uint64_t starts;  // requested runs
  // By class (huge items last): items examined, and reclaimed.
  std::vector<std::uint64_t> checked, reclaimed;
};

class Crawler {
 public:
  // Bit i: class i; bit Heap::class_count(): huge items.
  using Classes = std::bitset<256>;

  // `context` is used by the crawler alone and outlives it. Starts the thread if `options` say so.
  Crawler(Context& context, const CrawlerOptions& options);
  ~Crawler();
  Crawler(const Crawler&) = delete;
  Crawler& operator=(const Crawler&) = delete;

  // Starts or stops the thread; stopping ends a run. False: no thread could be started.
  bool set_enabled(bool enabled);
  void set_sleep_us(std::uint32_t sleep_us) noexcept { sleep_us_.store(sleep_us, std::memory_order_relaxed); }
  void set_items_per_run(std::uint32_t items) noexcept { items_per_run_.store(items, std::memory_order_relaxed); }

  enum class Asked : std::uint8_t { started, busy, disabled };
  // Requests one run over these classes, now.
  Asked crawl(const Classes& classes);
  // Starts the next background round at once, since much may be reclaimable (flush_all).
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
  // Examines the next slots of `page` from `slot` on. Returns the slot to continue with; 0: the page is done.
  std::uint32_t look(PageId page, std::uint32_t slot);
  std::size_t index_of(PageId page) const;  // of the page's class in counters_
  bool wanted(PageId page) const;
  bool is_asked() const;
  bool sleep_until(Clock::time_point when);  // false: the crawler must stop

  Context& context_;
  std::vector<Counters> counters_;  // by class, huge items last
  std::atomic<std::uint32_t> sleep_us_, items_per_run_;
  std::atomic<std::uint64_t> starts_{0};

  mutable std::mutex mutex_;
  std::condition_variable wakeup_;
  // Guarded by mutex_.
  bool enabled_ = false, stopping_ = false, asked_ = false, hurry_ = false;
  Classes asked_classes_;
  std::mutex thread_mutex_;  // taken before mutex_: held while the thread is started or joined
  std::thread thread_;

  // Used by the thread only.
  bool run_is_asked_ = false;
  Classes run_classes_;
  std::vector<std::uint64_t> run_checked_;  // by class
  std::uint64_t run_reclaimed_ = 0;
};

}  // namespace tandem
