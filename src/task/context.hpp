// State of the tasks: the store's shared parts, and the parts that one worker owns.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/clock.hpp"
#include "base/epoch.hpp"
#include "base/wakeup.hpp"
#include "heap/cache.hpp"
#include "heap/heap.hpp"
#include "heap/item_rewrite.hpp"
#include "heap/memory_file.hpp"
#include "heap/redo.hpp"
#include "index/index.hpp"
#include "observe/counters.hpp"
#include "observe/hot_latency.hpp"
#include "observe/task_counters.hpp"
#include "placement/index_placement.hpp"
#include "placement/mirrored/dirty_map.hpp"
#include "placement/mirrored/rewrites.hpp"
#include "query/batch.hpp"
#include "router/samples.hpp"
#include "task/item_moves.hpp"
#include "task/kind_code.hpp"
#include "task/observer.hpp"
#include "task/scattered_ranges.hpp"

namespace tandem {

class Router;

struct StorePolicy {
  bool evict = true;  // memcached -M turns it off: a full store answers out_of_memory
  bool cas = true;    // memcached -C turns it off: CAS ids read as 0
  std::uint64_t item_bytes_max = std::uint64_t{1} << 20;  // memcached -I
};

// The store's shared parts. Thread safety: that of its members.
struct Shared {
  Heap& heap;
  Index& index;
  const KindCode& code;  // of the index
  IndexPlacement& placement;
  EpochDomain& epochs;
  Clock& clock;
  StorePolicy policy;
  std::uint64_t hash_seed = 0;
  DirtyMap* dirty = nullptr;  // of Rewrites::marked; nullptr: that never is
  // The first CAS id that is not assigned to a worker.
  alignas(cache_line_bytes) std::atomic<std::uint64_t> cas_next{1};
  // Items with a smaller CAS id are flushed (flush_all); 0: no flush yet. Monotonic; stored with release by
  // the flush, loaded with acquire by readers of items.
  alignas(cache_line_bytes) std::atomic<std::uint64_t> flush_cas{0};
  // True from before a flush takes its mark until it has stored flush_cas.
  std::atomic<bool> flush_begins{false};
  // Set by the maintenance thread when the index cannot grow within the memory limit. An insertion without room then
  // evicts.
  std::atomic<bool> growth_refused{false};
  WakeUp maintenance{};
  ItemMoves moves{};
  ScatteredRanges* scattered = nullptr;  // nullptr: nothing arranges them; constant once the store is open
  SavedState* saved = nullptr;           // in the memory file, if there is one
  // What a set that rewrites an item in place does besides. Read inside an epoch. Stored by the scheduler
  // (Scheduler::let_rest()).
  std::atomic<Rewrites> rewrites{Rewrites::unseen};

  // The index as its own type. REQUIRES: it is of this kind.
  template <class I>
  TD_INLINE I& index_as() const noexcept {
    return static_cast<I&>(index);
  }
  // Reserves `count` CAS ids and returns the first. With a memory file, later processes do not reuse them either.
  std::uint64_t take_cas_ids(std::uint64_t count) noexcept {
    const std::uint64_t first = cas_next.fetch_add(count, std::memory_order_seq_cst);
    if (saved != nullptr) saved->reserve_cas(first + count);
    return first;
  }
};

// CAS ids are handed to workers in chunks, so that a write does not touch a shared counter. Ids grow along the writes
// of one key (a worker that meets a larger id in the item it replaces takes a new chunk), and every id after a flush is
// larger than the flush's. A thread that holds id n has observed every flush mark below n. So if the flush mark is
// unchanged since a write judged the old item, once it holds its id, the write is wholly before or after each flush.
class CasIds {
 public:
  // 0: a flush is taking its mark; the caller retries after it.
  TD_INLINE std::uint64_t next(Shared& shared, std::uint64_t above) noexcept {
    if (TD_UNLIKELY(next_ == end_ || next_ <= above || next_ < shared.flush_cas.load(std::memory_order_acquire)) &&
        TD_UNLIKELY(!refill(shared))) {
      return 0;
    }
    return next_++;
  }

 private:
  static constexpr std::uint64_t chunk = 64;
  TD_NOINLINE bool refill(Shared& shared) noexcept {
    next_ = end_ = 0;
    if (shared.flush_begins.load(std::memory_order_relaxed)) return false;
    const std::uint64_t first = shared.take_cas_ids(chunk);
    // If it is still unset, the ids are below the next mark, or that mark is visible.
    if (shared.flush_begins.load(std::memory_order_seq_cst)) return false;
    next_ = first;
    end_ = first + chunk;
    return true;
  }
  std::uint64_t next_ = 0, end_ = 0;
};

// A worker's batches in flight on a device.
class InFlight {
 public:
  InFlight() = default;
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  virtual ~InFlight() = default;
  // Ends the epochs that these batches hold, before the worker waits for epochs to end. The device's results for them
  // are discarded, and the host searches again.
  virtual void let_go() noexcept = 0;
};

// Searches a batch on a device and waits for it: for batches that were not searched, or with results that were
// discarded, while only a device has the index.
class RemoteSearch {
 public:
  RemoteSearch() = default;
  RemoteSearch(const RemoteSearch&) = delete;
  RemoteSearch& operator=(const RemoteSearch&) = delete;
  virtual ~RemoteSearch() = default;
  // Searches the batch from `begin` on, all of it or a part. Returns when that is done, or when the index moves back to
  // the host. The results are valid until end() or let_go(). REQUIRES: the context is in no epoch.
  virtual void search(Batch& batch, std::uint32_t begin) noexcept = 0;
  // The results are no longer used.
  virtual void end() noexcept = 0;
  // As InFlight::let_go().
  virtual void let_go() noexcept = 0;
};

// A copy of a small item, for a reply: a set may rewrite the item itself before the reply is written.
struct alignas(granule_bytes) ItemCopy {
  static constexpr std::uint64_t value_bytes_max = rewritten_value_bytes_max;
  char bytes[Item::total_bytes(1, key_bytes_max, value_bytes_max)];
};

// The most items that one scan looks at.
inline constexpr std::uint32_t scan_items_max = 1024;

// State of one worker: a server worker thread, or a thread that uses the embedded store. One thread at a time.
struct Context {
  explicit Context(Shared& s)
      : shared(s),
        epoch(s.epochs),
        cache(s.heap),
        scan_copies(s.index.is_ordered() ? std::make_unique<ScanCopies>(scan_items_max) : nullptr) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Shared& shared;
  EpochDomain::Participant epoch;
  Heap::Cache cache;
  CasIds cas;
  StoreCounters counters;
  std::array<ClassCounters, huge_class + 1> classes;  // by SizeClass
  TaskCounters tasks;
  InFlight* in_flight = nullptr;         // nullptr: no device; outlives every use of the context
  std::unique_ptr<RemoteSearch> remote;  // nullptr: the host has the index
  // Of a store with hot keys; else nullptr. The context's queries are sampled for the router.
  std::shared_ptr<Samples> samples;
  const Router* router = nullptr;
  std::unique_ptr<HotLatency> hot_latency;
  Observer* observer = nullptr;  // nullptr: no client watches; set by the context's thread
  RedoRecord* redo = nullptr;    // in the memory file; nullptr: no file, or no free record
  // The item as it was when a query changed it, for the reply.
  ItemCopy copy;
  // Of the scan that runs, or ran last; nullptr: the index is not ordered, or a visitor has them.
  std::unique_ptr<ScanCopies> scan_copies;
  // Items that writes have displaced: retired together, when a slot is taken for a set or a strip ends.
  std::array<Location, strip_queries_max> displaced;
  std::uint32_t displaced_count = 0;
  std::uint64_t retired_bytes = 0;     // of displaced items, in this epoch
  std::uint64_t waited_ticks = 0;      // for devices' searches
  std::uint64_t evicted_bytes = 0;     // since the maintenance thread was last notified
  std::uint32_t scans_until_look = 1;  // at whether their items are scattered
  std::uint32_t spares_passed = 0;     // calls in which pages without items are not looked for
  std::uint32_t relief_turn = 0;       // of classes that give items for the order of the keys
  // The item that the current query builds on. Eviction for that query spares it, as in memcached.
  Location spared = no_location;

  // Notes an item that a write of this context has replaced, erased or evicted. While a device has the index, that
  // retires it. REQUIRES: the cache is not locked.
  TD_INLINE void displace(const Item* old) noexcept {
    if (shared.placement.retires_displaced()) return;
    if (TD_UNLIKELY(displaced_count == displaced.size())) retire_displaced();
    displaced[displaced_count++] = shared.heap.location_of(old);
  }
  // Retires them; the second with the cache locked.
  void retire_displaced() noexcept {
    const Heap::Cache::Lock lock(cache);
    retire_displaced_now();
  }
  TD_INLINE void retire_displaced_now() noexcept {
    while (displaced_count != 0) retired_bytes += shared.heap.retire(cache, displaced[--displaced_count]);
  }
  // Ends the epochs of batches on devices. Called before this thread waits for epochs to end.
  void let_go() const noexcept {
    if (TD_UNLIKELY(in_flight != nullptr)) in_flight->let_go();
    if (TD_UNLIKELY(remote != nullptr)) remote->let_go();
  }
  // Throws std::bad_alloc.
  ScanCopies& for_scan() {
    if (TD_UNLIKELY(scan_copies == nullptr)) scan_copies = std::make_unique<ScanCopies>(scan_items_max);
    return *scan_copies;
  }
  // Begins an epoch, waiting until the index may be used.
  TD_INLINE void enter() noexcept {
    epoch.enter();
    if (TD_UNLIKELY(shared.placement.is_closed())) wait_for_index();
  }
  // Leaves the epoch, waits until the index is open, and enters an epoch again.
  TD_NOINLINE void wait_for_index() noexcept;
};

// Whether a live item has expired, or was flushed by flush_all.
TD_INLINE bool is_expired(std::uint64_t state, std::uint32_t now_s) noexcept {
  const std::uint32_t expiry_s = Item::expiry_of(state);
  return expiry_s != Clock::never && expiry_s <= now_s;
}
TD_INLINE bool is_flushed(const ItemVersion& seen, std::uint64_t flush_cas) noexcept {
  return TD_UNLIKELY(flush_cas != 0) && seen.cas() < flush_cas;
}
// Expired or flushed; an item that is neither is good.
TD_INLINE bool is_over(const ItemVersion& seen, std::uint32_t now_s, std::uint64_t flush_cas) noexcept {
  return is_expired(seen.state, now_s) || is_flushed(seen, flush_cas);
}

}  // namespace tandem
