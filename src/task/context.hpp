// What the tasks work on: the store's shared parts, and what one worker owns.
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
#include "observe/task_counters.hpp"
#include "placement/index_placement.hpp"
#include "query/batch.hpp"
#include "task/kind_code.hpp"
#include "task/observer.hpp"

namespace tandem {

struct StorePolicy {
  bool evict = true;  // memcached -M turns it off: a full store answers out_of_memory
  bool cas = true;    // memcached -C turns it off: CAS ids read as 0
  std::uint64_t item_bytes_max = std::uint64_t{1} << 20;  // memcached -I
};

// The store's shared parts, as the tasks see them. Thread safety: that of its members.
struct Shared {
  Heap& heap;
  Index& index;
  const KindCode& code;  // of the index
  IndexPlacement& placement;
  EpochDomain& epochs;
  Clock& clock;
  StorePolicy policy;
  std::uint64_t hash_seed = 0;
  // The next CAS id that no worker has taken.
  alignas(cache_line_bytes) std::atomic<std::uint64_t> cas_next{1};
  // Items with a smaller CAS id are flushed (flush_all); 0: none ever was. Monotonic; released by the flusher, acquired
  // by readers of items.
  alignas(cache_line_bytes) std::atomic<std::uint64_t> flush_cas{0};
  // While a flush has taken its mark and not released it yet, or is about to take it.
  std::atomic<bool> flush_begins{false};
  // Set by the maintenance thread when the index cannot grow within the memory limit: then an insertion without room
  // evicts.
  std::atomic<bool> growth_refused{false};
  WakeUp maintenance{};
  SavedState* saved = nullptr;  // in the memory file, if there is one
  // Whether sets may rewrite items in place: not where a replica has their values, too. Constant once the store is
  // open.
  bool rewrites_items = true;

  // The index as its kind's code has it. REQUIRES: it is of this kind.
  template <class I>
  TD_INLINE I& index_as() const noexcept {
    return static_cast<I&>(index);
  }
  // The first of `count` CAS ids that nobody else has. With a memory file no later process gives them again either.
  std::uint64_t take_cas_ids(std::uint64_t count) noexcept {
    const std::uint64_t first = cas_next.fetch_add(count, std::memory_order_seq_cst);
    if (saved != nullptr) saved->reserve_cas(first + count);
    return first;
  }
};

// CAS ids are handed to workers in chunks, so that a write does not touch a shared counter. Ids grow along the writes
// of one key (a worker that meets a larger id in the item it replaces takes a new chunk), and every id after a flush is
// larger than the flush's. Whoever has an id sees every flush whose mark is smaller: so a write that judged the old
// item by the mark that it sees when it has its id is wholly before a later flush, or wholly after an earlier one.
class CasIds {
 public:
  // 0: a flush takes its mark just now; once it has, ask again.
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
    // Not set after the ids were taken: they are smaller than the next mark, or that mark can be seen.
    if (shared.flush_begins.load(std::memory_order_seq_cst)) return false;
    next_ = first;
    end_ = first + chunk;
    return true;
  }
  std::uint64_t next_ = 0, end_ = 0;
};

// The batches that a worker has handed to a device, as long as they are not answered.
class InFlight {
 public:
  InFlight() = default;
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  virtual ~InFlight() = default;
  // Ends the epochs that these batches hold: what the device finds for them is not to be followed any more, and the
  // host searches again. For the worker that is going to wait for epochs to end.
  virtual void let_go() noexcept = 0;
};

// A worker's way to search on a device, at once, what was not searched or is not to be followed any more. For the index
// that only a device has.
class RemoteSearch {
 public:
  RemoteSearch() = default;
  RemoteSearch(const RemoteSearch&) = delete;
  RemoteSearch& operator=(const RemoteSearch&) = delete;
  virtual ~RemoteSearch() = default;
  // Makes the batch a searched one from `begin` on, or some way from there. Returns when it is, or when the index is on
  // its way back to the host. What it found can be followed until end() or let_go(). REQUIRES: no epoch of the
  // context's.
  virtual void search(Batch& batch, std::uint32_t begin) noexcept = 0;
  // Nobody follows what was found.
  virtual void end() noexcept = 0;
  // As InFlight's.
  virtual void let_go() noexcept = 0;
};

// One worker's own: a server worker thread, or a thread that uses the embedded store. One thread at a time.
// A small item's bytes. A set may rewrite the item itself before the reply is written.
struct alignas(granule_bytes) ItemCopy {
  static constexpr std::uint64_t value_bytes_max = rewritten_value_bytes_max;
  char bytes[Item::total_bytes(1, key_bytes_max, value_bytes_max)];
};

struct Context {
  explicit Context(Shared& s) : shared(s), epoch(s.epochs), cache(s.heap) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Shared& shared;
  EpochDomain::Participant epoch;
  Heap::Cache cache;
  CasIds cas;
  StoreCounters counters;
  TaskCounters tasks;
  InFlight* in_flight = nullptr;         // no device; outlives every use of the context
  std::unique_ptr<RemoteSearch> remote;  // nullptr: the host has the index
  Observer* observer = nullptr;          // no watch; set by the context's thread
  RedoRecord* redo = nullptr;            // in the memory file; nullptr: there is no file, or no record was left
  // Of a strip's queries, by their place in it: items as they were when the query changed them, for its reply.
  std::array<ItemCopy, strip_queries_max> copies;
  std::uint64_t waited_ticks = 0;   // for searches of devices
  std::uint64_t evicted_bytes = 0;  // since the maintenance thread was last asked to look at the classes
  // The item that the query in hand builds on: what it asks for is not had by evicting it, as in memcached.
  Location spared = no_location;

  // Before this thread waits for epochs to end.
  void let_go() const noexcept {
    if (TD_UNLIKELY(in_flight != nullptr)) in_flight->let_go();
    if (TD_UNLIKELY(remote != nullptr)) remote->let_go();
  }
  // Begins an epoch in which the index may be used.
  TD_INLINE void enter() noexcept {
    epoch.enter();
    if (TD_UNLIKELY(shared.placement.is_closed())) wait_for_index();
  }
  // An epoch again, when the index is there again.
  TD_NOINLINE void wait_for_index() noexcept;
};

// Whether a live item is out of date: expired, or older than the last flush_all.
TD_INLINE bool is_expired(std::uint64_t state, std::uint32_t now_s) noexcept {
  const std::uint32_t expiry_s = Item::expiry_of(state);
  return expiry_s != Clock::never && expiry_s <= now_s;
}
TD_INLINE bool is_flushed(const ItemVersion& seen, std::uint64_t flush_cas) noexcept {
  return TD_UNLIKELY(flush_cas != 0) && seen.cas() < flush_cas;
}
// Good: neither.
TD_INLINE bool is_over(const ItemVersion& seen, std::uint32_t now_s, std::uint64_t flush_cas) noexcept {
  return is_expired(seen.state, now_s) || is_flushed(seen, flush_cas);
}

}  // namespace tandem
