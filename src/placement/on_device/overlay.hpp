// The writes that an index in device memory has not taken yet (placement `device`). The device has the table; the
// overlay holds the differences. It has a record for each change, chained under its key's stripe until every batch in
// flight was searched after the device had the change.
//
//   writer, under the stripe     put(), erase(): a record, linked (put) and queued behind this thread's earlier ones
//   scheduler                    a group: all records that are queued at one moment go to the device, in one launch or
//                                several; complete() when the device has them all
//   reclaim()                    complete: the slots that the records displaced are retired. safe, which is when the
//                                batches have ended that were in flight at completion: the records are freed
//
// Why a lookup is correct that asks the device first and then find(). Let a batch's search be launched inside its
// epoch. A key is a hit if the launch had its cell and its item is live when it is checked: at most one item of a
// key is live. If the cell was not there, or its item is dead, the key is absent or its present item was put by a
// change that the launch did not have. That record's group completes after the batch entered its epoch, so it is not
// safe before the batch ends, and find() sees it. Tombstones are not needed: a dead item serves as one, and its slot is
// not reused before the device has removed its cell and the batches that may have seen it have ended.
//
// Changes of one key reach the device in order. A group is cut while all lanes are locked. A later change is made after
// the earlier one was queued, so a group that has the later one has the earlier one. One group has at most one change
// that adds a cell of a key: a writer that replaces an item detaches its record before it queues its own, and a
// detached record adds nothing.
//
// The table has at most one cell of a signature in a pair of buckets. A key that would be the second is resident: its
// record stays here as long as the key (Mega-KV 4.2 drops the older key instead; two in 2^57 collide).
//
// Thread safety: as each call says.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>

#include "base/fingerprint.hpp"
#include "base/memory_budget.hpp"
#include "base/spin_lock.hpp"
#include "base/wakeup.hpp"
#include "heap/cache.hpp"
#include "heap/heap.hpp"
#include "heap/item_rewrite.hpp"
#include "index/cuckoo/cell.hpp"
#include "index/elsewhere.hpp"
#include "index/stripes.hpp"

namespace tandem {

struct OverlayStats {
  std::uint64_t records = 0;   // current number
  std::uint64_t changes = 0;   // made
  std::uint64_t taken = 0;     // of them, by groups
  std::uint64_t groups = 0;    // completed
  std::uint64_t resident = 0;  // now
};

class Overlay {
 public:
  using RecordId = Elsewhere::RecordId;
  struct Taken {
    std::uint32_t lane;
    std::uint64_t place;
  };
  static constexpr RecordId none = Elsewhere::no_record;
  static constexpr std::uint32_t lane_count = 64;
  // Records of a lane that are processed before its lock is released.
  static constexpr std::uint32_t settle_records = 64;

  // `records` of 24 bytes, drawn from the budget. threads_max: threads that may be between has_room() and their write.
  // Throws std::bad_alloc.
  Overlay(std::uint32_t records, std::uint32_t threads_max, MemoryBudget& budget);
  ~Overlay();
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;
  std::uint64_t bytes() const noexcept { return std::uint64_t{record_count_} * sizeof(Record); }  // of the budget

  // --- writers

  // Whether this thread can make a change now. Asked once before each change, outside the stripe.
  TD_INLINE bool has_room() noexcept {
    const Lane& lane = my_lane();
    return TD_LIKELY(has_room(lane)) || make_room();
  }
  // Prefetches what find_locked() and put() read first.
  TD_INLINE void prefetch(Fingerprint f) const noexcept { prefetch_write(&chain(f.signature)); }

  // What the overlay has under the stripe of `f`. REQUIRES of all up to erase(): the caller holds it.
  using Found = Elsewhere::Found;
  Found find_locked(Fingerprint f, std::string_view key, const Heap& heap) const noexcept;
  RecordId find_locked(Fingerprint f, Location l) const noexcept;
  bool is_resident(RecordId r) const noexcept {
    return (at(r).flags.load(std::memory_order_relaxed) & Flag::resident) != 0;
  }
  // Replaces the key's item at `from` (no_location: there was none), with the record `old`, if any, by the one at
  // `to`. resident: the device is not to have it. REQUIRES: has_room() said so; the item at `from` is dead. Returns the
  // record.
  RecordId put(Fingerprint f, Location from, Location to, RecordId old, bool resident) noexcept;
  void erase(Fingerprint f, Location from, RecordId old) noexcept;

  // --- readers, in their epochs

  // The record's live item of the key, if there is one. The caller makes sure that nothing changes meanwhile
  // (OffloadIndex::find).
  Item* find(Fingerprint f, std::string_view key, const Heap& heap, ItemVersion& seen) const noexcept;

  // --- the scheduler

  // Cuts a group, unless one is being taken; take() then copies its changes.
  void begin_group() noexcept;
  // Up to `count` more changes of the group for the device; taken[i] names the record of changes[i]. Fewer: that was
  // all.
  std::uint32_t take(CellChange* changes, Taken* taken, std::uint32_t count) noexcept;
  // Whether the group has changes that were not taken.
  bool is_taking() const noexcept { return cut_lane_ != lane_count; }
  // The device had no room for it: the record becomes resident.
  void failed(Taken taken) noexcept;
  // The device has made all changes of the group.
  void complete();
  // The batches have ended that were in flight when the oldest complete group that is not safe yet was completed.
  void oldest_is_safe() noexcept;
  // Whether a queued change is in no group yet.
  bool has_pending() const noexcept;

  // --- any thread that holds neither a stripe nor its cache's lock

  // mine: the calling thread's lane. all: lanes not reclaimed by their threads since the last `all`; for a thread that
  // waits for slots. idle: lanes not reclaimed by their threads during 10 such calls; for the scheduler. Reclaiming the
  // lane of an active writer would move the records' cache lines away from its processor.
  enum class Reclaim : std::uint8_t { mine, all, idle };
  // Retires displaced slots and frees records. `all` also wakes the scheduler, which may sleep while every worker waits
  // and none submits a batch.
  void reclaim(Heap& heap, Heap::Cache& cache, Stripes& stripes, Reclaim whose) noexcept;
  // Whether slots are held back until the device takes their change. A thread that is out of slots should then wait.
  bool has_unretired() const noexcept;
  // Calls f(location) for each displaced slot that is not retired yet, as of some moment of the call.
  template <class F>
  void for_each_displaced(F&& f) const {
    for (std::uint32_t i = 0; i < lane_count; ++i) {
      const Lane& lane = lanes_[i];
      for (std::uint64_t place = 0, end = lane.tail.load(std::memory_order_relaxed); place < end;) {
        std::array<Location, settle_records> some;
        std::uint32_t count = 0;
        lane.lock.lock();
        for (place = std::max(place, lane.unretired); place < end && count != settle_records; ++place) {
          const Location from = lane.changes[place & queue_mask_].from;
          if (from != no_location) some[count++] = from;
        }
        lane.lock.unlock();
        for (std::uint32_t k = 0; k < count; ++k) f(some[k]);
      }
    }
  }
  // The device is lost: retires everything displaced. REQUIRES: no writer is active.
  void retire_all(Heap& heap, Heap::Cache& cache) noexcept;

  // What the scheduler sleeps on.
  std::shared_ptr<WakeUp> wakeup() const noexcept { return wakeup_; }

  OverlayStats stats() const noexcept;

 private:
  enum Flag : std::uint8_t { detached = 1, resident = 2, refused = 4 };
  struct Record {
    std::atomic<std::uint32_t> signature{0};
    std::atomic<Location> to{no_location};  // no_location: a removal
    std::atomic<RecordId> next{none};       // under the stripe
    RecordId next_free = none;
    std::atomic<std::uint8_t> flags{0};  // of Flag
    std::uint8_t lane = 0;
    std::uint32_t place = 0;  // in its queue, modulo its length
  };
  static_assert(sizeof(Record) == 24);
  // What is sent to the device. The scheduler reads changes sequentially, and no other part of a record.
  struct Change {
    Fingerprint f;
    Location from;
    std::atomic<Location> to;  // no_location once the record is detached
  };
  static_assert(sizeof(Change) == 16);

  // A queue of one thread's changes, as long as there are no more threads than lanes. Positions count from the start:
  // head <= unretired <= tail.
  struct alignas(cache_line_bytes) Lane {
    mutable SpinLock lock;
    bool is_reclaimed = false;  // by its thread, since the last `all`
    bool is_being_reclaimed = false;
    std::uint8_t idle_looks = 0;  // of the scheduler, since its thread last reclaimed it
    RecordId free = none;
    std::unique_ptr<Change[]> changes;  // allocated with the first one
    std::unique_ptr<RecordId[]> records;
    // Written under the lock, as is everything here. has_room() reads it without: margin_ covers what the threads take
    // between their question and their change.
    std::atomic<std::uint32_t> free_count{0};
    std::atomic<std::uint64_t> head{0};  // all before it are freed
    std::uint64_t unretired = 0;         // slots of all before it have been retired
    std::atomic<std::uint64_t> tail{0}, retired{0};
    alignas(cache_line_bytes) std::atomic<std::uint64_t> complete{0}, safe{0};  // all changes before them are
  };
  struct Cut {  // of one lane
    std::uint64_t next = 0, end = 0;
  };
  using Ends = std::array<std::uint64_t, lane_count>;

  Record& at(RecordId r) const noexcept { return records_[r]; }
  // Several chains per stripe, none shared by two stripes, so that there are more chains than records.
  std::atomic<RecordId>& chain(std::uint32_t signature) const noexcept {
    return chains_[Stripes::mix(signature) >> (32 - chain_bits_)];
  }
  static TD_INLINE std::uint32_t my_number() noexcept {
    thread_local const std::uint32_t mine = next_number();
    return mine;
  }
  static std::uint32_t next_number() noexcept;
  Lane& my_lane() const noexcept { return lanes_[my_number()]; }
  // Records and queue places; records are available only once `changes` is allocated.
  TD_INLINE bool has_room(const Lane& lane) const noexcept {
    return lane.free_count.load(std::memory_order_relaxed) >= margin_ &&
           lane.tail.load(std::memory_order_relaxed) - lane.head.load(std::memory_order_relaxed) + margin_ <=
               queue_mask_;
  }
  TD_NOINLINE bool make_room() noexcept;
  static void add(std::atomic<std::uint32_t>& count, std::uint32_t n) noexcept {
    count.store(count.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  RecordId pop(Lane& lane) noexcept;
  void push_free(Lane& lane, RecordId r) noexcept;
  void refill(Lane& lane, std::uint32_t count) noexcept;
  void append(Lane& lane, RecordId r, Fingerprint f, Location from, Location to) noexcept;
  void unlink(RecordId r) noexcept;
  void detach(RecordId r) noexcept;
  void reclaim(Lane& lane, Heap& heap, Heap::Cache& cache, Stripes& stripes) noexcept;
  bool release(RecordId r, Stripes& stripes) noexcept;

  MemoryBudget& budget_;
  const std::shared_ptr<WakeUp> wakeup_ = std::make_shared<WakeUp>();
  const std::uint32_t record_count_, margin_, queue_mask_, chain_bits_;
  std::unique_ptr<Record[]> records_;
  std::unique_ptr<std::atomic<RecordId>[]> chains_;
  std::unique_ptr<Lane[]> lanes_;
  SpinLock free_lock_;
  RecordId free_ = none;

  std::array<Cut, lane_count> cut_{};  // the group that is being taken
  std::uint32_t cut_lane_ = lane_count;
  std::deque<Ends> complete_;  // groups that are not safe yet
  std::atomic<std::uint64_t> taken_{0}, groups_{0}, resident_{0};
};

}  // namespace tandem
