// Counters of one worker: written by its thread alone, read by any thread at any time (relaxed). No counter has two
// writers.
#pragma once
#include <atomic>
#include <cstdint>

namespace tandem {

// A single-writer counter: an increment is a plain add, not a locked one.
class Counter {
 public:
  void add(std::uint64_t n = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  void reset() noexcept { set(0); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// The tasks' counters, with the names of memcached's `stats`. X(name)
// clang-format off
#define TD_STORE_COUNTERS(X) \
  X(cmd_get) X(cmd_set) X(cmd_touch) X(get_hits) X(get_misses) X(get_expired) X(get_flushed) X(delete_misses) \
  X(delete_hits) X(incr_misses) X(incr_hits) X(decr_misses) X(decr_hits) X(cas_misses) X(cas_hits) \
  X(cas_badval) X(touch_hits) X(touch_misses) X(store_too_large) X(store_no_memory) X(total_items) X(evictions) \
  X(reclaimed) X(expired_unfetched) X(evicted_unfetched) X(evicted_active) X(direct_reclaims) \
  X(slab_reassign_rescues) X(slab_reassign_evictions_nomem) X(index_retries) X(index_displacements) X(set_overwritten) \
  X(items_arranged) X(device_rechecks) X(device_images) X(device_stolen) X(hot_queries) \
  X(device_requests) X(device_left_other) X(device_left_item) X(device_left_length) X(device_left_room) \
  X(device_left_headers) X(device_left_checksum)
// clang-format on

struct StoreCounters {
#define TD_X(name) Counter name;
  TD_STORE_COUNTERS(TD_X)
#undef TD_X
};

// The same as plain numbers: a sum over workers.
struct StoreTotals {
#define TD_X(name) std::uint64_t name = 0;
  TD_STORE_COUNTERS(TD_X)
#undef TD_X
  void add(const StoreCounters& c) noexcept {
#define TD_X(name) name += c.name.get();
    TD_STORE_COUNTERS(TD_X)
#undef TD_X
  }
  void subtract(const StoreTotals& t) noexcept {
#define TD_X(name) name -= t.name;
    TD_STORE_COUNTERS(TD_X)
#undef TD_X
  }
};

// One size class's commands, with the names of memcached's `stats slabs`. X(name)
// clang-format off
#define TD_CLASS_COUNTERS(X) \
  X(cmd_set) X(delete_hits) X(incr_hits) X(decr_hits) X(cas_hits) X(cas_badval) X(touch_hits)
// clang-format on

struct ClassCounters {
#define TD_X(name) Counter name;
  TD_CLASS_COUNTERS(TD_X)
#undef TD_X
};

struct ClassTotals {
#define TD_X(name) std::uint64_t name = 0;
  TD_CLASS_COUNTERS(TD_X)
#undef TD_X
  void add(const ClassCounters& c) noexcept {
#define TD_X(name) name += c.name.get();
    TD_CLASS_COUNTERS(TD_X)
#undef TD_X
  }
  void subtract(const ClassTotals& t) noexcept {
#define TD_X(name) name -= t.name;
    TD_CLASS_COUNTERS(TD_X)
#undef TD_X
  }
};

}  // namespace tandem
