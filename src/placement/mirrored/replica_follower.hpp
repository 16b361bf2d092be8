// For tests: a replica in plain memory that follows an index by its log, and a log that stops in the middle of a write.
#pragma once
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "index/cuckoo/index_test_support.hpp"
#include "index/cuckoo/lanes_scalar.hpp"
#include "placement/mirrored/replica_log-inl.hpp"

namespace tandem {

// The rules, with a hook of the test at every DrainPoint of this thread's drains.
struct HookedRules : ReplicaLogRules {
  static inline thread_local std::function<void(DrainPoint)> hook;
  static void reached(DrainPoint p) noexcept {
    if (hook) hook(p);
  }
};

// The rules, with drains that sometimes yield at each DrainPoint.
struct StallingRules : ReplicaLogRules {
  static void reached(DrainPoint p) noexcept {
    thread_local std::uint64_t random = 1;
    random = mix_bits(random + 1);
    if (p == DrainPoint::cell) {
      if (random % 16 == 0) {
        for (int i = 0; i < 50; ++i) cpu_relax();
      }
      if (random % 1024 == 1) std::this_thread::yield();
    } else if (random % 8 == 0) {
      std::this_thread::yield();
    }
  }
};

// Runs `f` at the nth arrival at `at`, within this object's life.
class AtDrainPoint {
 public:
  AtDrainPoint(DrainPoint at, std::function<void()> f, int nth = 1) {
    HookedRules::hook = [at, f = std::move(f), nth](DrainPoint p) mutable {
      if (p == at && --nth == 0) f();
    };
  }
  ~AtDrainPoint() { HookedRules::hook = nullptr; }
  AtDrainPoint(const AtDrainPoint&) = delete;
  AtDrainPoint& operator=(const AtDrainPoint&) = delete;
};

// Forwards every call; runs `reserved` once, between the next reservation and the change.
class SteppingLog final : public ChangeLog {
 public:
  explicit SteppingLog(ChangeLog& log) : log_(log) {}
  Ticket reserve(std::span<const Change> changes) noexcept override {
    const Ticket ticket = log_.reserve(changes);
    if (const auto f = std::exchange(reserved, nullptr)) f();
    return ticket;
  }
  void commit(Ticket ticket) noexcept override { log_.commit(ticket); }
  std::uint32_t launch() const noexcept override { return log_.launch(); }
  ImageSlot image_slot(std::uint64_t cell_index, Location item, std::uint32_t granules) noexcept override {
    return log_.image_slot(cell_index, item, granules);
  }

  std::function<void()> reserved;

 private:
  ChangeLog& log_;
};

// Thread safety: one thread.
template <class Log>
class ReplicaFollower {
 public:
  struct Launch {
    std::uint32_t number = 0;
    bool whole = false;   // its misses may be final
    bool usable = false;  // its drain delivered everything
  };

  ReplicaFollower(Log& log, TestStore& store, std::uint64_t queue_cells = 1 << 16, std::uint32_t shard = 0)
      : shard_{shard, store.index.shard_bits()},
        log_(log),
        store_(store),
        epoch_(store.epochs),
        memory_(queue_cells),
        queue_(memory_) {}

  // Follows the table that is searched now. REQUIRES: every batch that began before the log was started has ended.
  void upload() {
    queue_.drop_unsent();
    ++uploads;
    const bool entered = enter();
    const CuckooIndex::Searched table = store_.index.searched();
    mask_ = shard_.local_mask(table.view.mask);
    extent_ = {table.serial, (std::uint64_t{mask_} + 1) * bucket_cells, shard_};
    cells_.resize(extent_.cells);
    for (std::uint64_t i = 0; i < extent_.cells; ++i) cells_[i] = host_cell(table.view, i);
    if (entered) epoch_.exit();
  }

  // After an overflow: restarts the log, then uploads all cells. REQUIRES: epoch() is not active.
  void restart() {
    log_.start(shard_.number);
    const std::uint64_t stamp = store_.epochs.retire_stamp();
    while (!store_.epochs.is_safe(stamp)) std::this_thread::yield();
    upload();
  }

  // Drains like a scheduler before a launch; uploads again when growth has replaced the table.
  Launch launch() {
    const bool entered = enter();
    const Drained d = log_.drain(store_.index, extent_, queue_);
    drained = d;
    const bool moved = d.table.serial != extent_.table;
    if (entered) epoch_.exit();
    apply();
    if (moved) upload();
    return {d.launch, d.table.whole, d.recording && d.complete && !moved};
  }

  bool has(Fingerprint f) const { return Shard::number_of(f, shard_.bits) == shard_.number; }
  // REQUIRES: has(f).
  Location search(Fingerprint f) const {
    const IndexView view{nullptr, mask_};
    for (const std::uint32_t b : {view.first(shard_.local(f)), view.second(shard_.local(f))}) {
      for (std::uint32_t i = 0; i < bucket_cells; ++i) {
        const Cell c{cells_[std::uint64_t{b} * bucket_cells + i]};
        if (!c.empty() && c.signature() == f.signature) return c.location();
      }
    }
    return no_location;
  }
  bool misses_for_good(Fingerprint f, const Launch& launch) const {
    return launch.usable && search(f) == no_location && final_miss(store_.index, f, launch.number, launch.whole);
  }

  // Cells that differ from the host's. REQUIRES: no writer is active.
  std::uint64_t differences() {
    const bool entered = enter();
    const CuckooIndex::Searched table = store_.index.searched();
    std::uint64_t n = table.serial == extent_.table ? 0 : 1;
    for (std::uint64_t i = 0; n == 0 && i < extent_.cells; ++i) n += cells_[i] != host_cell(table.view, i);
    if (entered) epoch_.exit();
    return n;
  }

  std::uint64_t cell(std::uint64_t i) const { return cells_[i]; }
  EpochDomain::Participant& epoch() { return epoch_; }

  Drained drained{};
  std::uint64_t uploads = 0;

 private:
  // True if this call entered the epoch.
  bool enter() {
    if (epoch_.active()) return false;
    epoch_.enter();
    return true;
  }
  std::uint64_t host_cell(IndexView view, std::uint64_t i) const {
    return ScalarLanes::at(view.buckets->cell + shard_.cell(i)).load(std::memory_order_acquire);
  }
  void apply() {
    while (queue_.waiting() != 0) {
      const auto cells = queue_.unsent();
      for (const DirtyCell& c : cells) {
        if (c.index < cells_.size()) cells_[c.index] = c.bits;
      }
      queue_.send(cells.size());
    }
    queue_.release(queue_.sent());
  }

  const Shard shard_;
  Log& log_;
  TestStore& store_;
  EpochDomain::Participant epoch_;
  std::vector<DirtyCell> memory_;
  DirtyQueue<> queue_;
  ReplicaExtent extent_;
  std::uint32_t mask_ = 0;
  std::vector<std::uint64_t> cells_;
};

}  // namespace tandem
