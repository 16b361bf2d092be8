// Hot keys beside an index that devices alone have (placement `on_device`): the host answers them without a search
// (KVCG 6, docs/decisions/0062-hot-table.md). A cell names the key's item; nothing is copied. Beside it stands what the
// device's cell for the key will say when all that is queued for it is done: the log, one entry a key, whatever was
// written. A cell that says otherwise is dirty. Its change is queued once, when the key turns cold or memory is short.
//
//   cold to hot   promote(), by whom has found the live item: the device's cell names it, or a record that is pending
//   write         put(), erase(): the cell alone. The slot that the device still names is held; others that are
//                 displaced are retired by and by (retire()). An erased key keeps a cell without a location
//   hot to cold   IndexPlacement::clean(): a change from what the device has, if the cell is dirty; then forget()
//
// A bucket is chosen by the signature: keys of one signature share bucket and stripe, and at most one of them is hot.
// While it is, a device gets no cell of another one (Found::clash), since it may have one of this signature alone.
//
// Why a lookup is right: a miss asks this table before the overlay's records (CuckooIndex::find), and a key turns cold
// behind its record. tests/model/hot.py has each rule, and what goes wrong without it.
//
// Departures from KVCG: it keeps values, fills its cache when an answer comes back (an older value may return), and
// stops its clients for another model.
//
// Thread safety: as each call says.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/fingerprint.hpp"
#include "base/memory_budget.hpp"
#include "base/platform.hpp"
#include "base/spin_lock.hpp"
#include "heap/cache.hpp"
#include "heap/heap.hpp"
#include "index/stripes.hpp"

namespace tandem {

struct HotTableStats {
  std::uint64_t keys = 0, keys_max = 0;  // now, and at most
  std::uint64_t held = 0;                // slots that wait for their key's change
  std::uint64_t promoted = 0, cleaned = 0, replayed = 0;
};

class HotTable {
 public:
  static constexpr std::uint32_t bucket_cells = 4;
  struct Cell {
    std::atomic<std::uint64_t> key{0};            // signature << 32 | hash; below 2^32: it is not in use
    std::atomic<Location> location{no_location};  // no_location: the key was erased
    std::atomic<Location> from{no_location};      // what the device's cell will say; under the stripe
    Fingerprint fingerprint() const noexcept { return of(key.load(std::memory_order_relaxed)); }
    bool is_dirty() const noexcept {
      return from.load(std::memory_order_relaxed) != location.load(std::memory_order_relaxed);
    }
    static Fingerprint of(std::uint64_t key) noexcept {
      return {static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key)};
    }
  };

  // So many bytes, drawn from the budget; half of the cells stay empty. threads_max: as Overlay has it. Throws
  // std::bad_alloc, std::invalid_argument for fewer than bytes_min.
  static constexpr std::uint64_t bytes_min = 4096;
  static constexpr std::uint64_t bytes_of_key = 2 * sizeof(Cell);
  HotTable(std::uint64_t bytes, std::uint32_t threads_max, MemoryBudget& budget);
  ~HotTable();
  HotTable(const HotTable&) = delete;
  HotTable& operator=(const HotTable&) = delete;
  std::uint64_t bytes() const noexcept { return std::uint64_t{bucket_count_} * sizeof(Bucket); }  // of the budget
  std::uint64_t keys_max() const noexcept { return keys_max_; }
  std::uint64_t keys() const noexcept { return keys_.load(std::memory_order_relaxed); }

  // --- readers, in their epochs

  struct Seen {
    bool is_hot = false;
    Location location = no_location;  // no_location: the key was erased
  };
  TD_INLINE Seen find(Fingerprint f) const noexcept {
    const std::uint64_t key = key_of(f);
    for (const Cell& cell : bucket_of(f.signature).cell) {
      if (cell.key.load(std::memory_order_acquire) != key) continue;
      const Location l = cell.location.load(std::memory_order_acquire);
      // Otherwise the location may be that of the cell's next key.
      if (TD_LIKELY(cell.key.load(std::memory_order_relaxed) == key)) return {true, l};
    }
    return {};
  }

  // --- under the stripe of `f`

  // The cell of a key with this signature; nullptr: none is hot.
  Cell* cell_of(std::uint32_t signature) const noexcept;
  // The key's item at `l` is live, and the device's cell names it or will. False: there is no cell for it.
  bool promote(Fingerprint f, Location l) noexcept;
  // Replaces the key's item at `was` (no_location: there was none) by the one at `to`, or erases it. False: the key is
  // not hot, and nothing has changed.
  bool put(Fingerprint f, Location was, Location to) noexcept { return change(f, was, to); }
  bool erase(Fingerprint f, Location was) noexcept { return change(f, was, no_location); }
  // A change to what the cell says is queued.
  void replayed(Cell& cell) noexcept;
  // The key is cold. REQUIRES: it is not dirty.
  void forget(Cell& cell) noexcept;

  // --- a writer, before its change

  // Whether a slot that this thread's next change displaces can be noted.
  TD_INLINE bool has_room() const noexcept {
    return TD_LIKELY(displaced_[my_number()].count.load(std::memory_order_relaxed) + margin_ <= displaced_max);
  }

  // --- any thread that holds neither a stripe nor its cache's lock

  // Retires displaced slots that no device names: this thread's, or those of all.
  void retire(Heap& heap, Heap::Cache& cache, bool all) noexcept;
  // Whether displaced slots are not retired yet.
  bool has_unretired() const noexcept;
  // Calls f(location) for each of them, as of some moment of the call.
  template <class F>
  void for_each_unretired(F f) const {
    for (const Displaced& some : std::span(displaced_.get(), lanes)) {
      std::array<Location, displaced_max> copy;
      some.lock.lock();
      const std::uint32_t count = some.count.load(std::memory_order_relaxed);
      std::copy_n(some.location.begin(), count, copy.begin());
      some.lock.unlock();
      for (std::uint32_t i = 0; i < count; ++i) f(copy[i]);
    }
    for_each([&](const Cell& cell) {
      const Location from = cell.from.load(std::memory_order_relaxed);
      if (from != no_location && cell.is_dirty()) f(from);
    });
  }
  // Calls f(cell) for all cells in use, as of some moment of the call; one may be another key's, or nobody's, by then.
  template <class F>
  void for_each(F f) const {
    for (std::uint32_t b = 0; b < bucket_count_; ++b) for_each_of(b, f);
  }
  template <class F>
  void for_each_of(std::uint32_t bucket, F& f) const {
    for (Cell& cell : buckets_[bucket].cell) {
      if (cell.key.load(std::memory_order_acquire) > reserved) f(cell);
    }
  }
  std::uint32_t buckets() const noexcept { return bucket_count_; }

  // The index is on the host again: retires all, and forgets all keys. REQUIRES: nothing else uses the table.
  void clear(Heap& heap, Heap::Cache& cache) noexcept;

  HotTableStats stats() const noexcept;

 private:
  static constexpr std::uint64_t reserved = UINT32_MAX;  // of a cell that is being made
  static constexpr std::uint32_t displaced_max = 256, lanes = 64;
  struct alignas(cache_line_bytes) Bucket {
    Cell cell[bucket_cells];
  };
  static_assert(sizeof(Bucket) == cache_line_bytes);
  struct alignas(cache_line_bytes) Displaced {
    mutable SpinLock lock;
    std::atomic<std::uint32_t> count{0}, unretired{0};
    std::array<Location, displaced_max> location{};
  };

  static constexpr std::uint64_t key_of(Fingerprint f) noexcept { return std::uint64_t{f.signature} << 32 | f.hash; }
  TD_INLINE Bucket& bucket_of(std::uint32_t signature) const noexcept {
    return buckets_[std::uint64_t{Stripes::mix(signature)} * bucket_count_ >> 32];
  }
  static std::uint32_t my_number() noexcept;
  bool change(Fingerprint f, Location was, Location to) noexcept;
  void displace(Location l) noexcept;
  void retire(Displaced& some, Heap& heap, Heap::Cache& cache) noexcept;

  MemoryBudget& budget_;
  const std::uint32_t bucket_count_, margin_;
  const std::uint64_t keys_max_;
  std::unique_ptr<Bucket[]> buckets_;
  std::unique_ptr<Displaced[]> displaced_;
  alignas(cache_line_bytes) std::atomic<std::uint64_t> keys_{0};
  std::atomic<std::uint64_t> held_{0}, promoted_{0}, cleaned_{0}, replayed_{0};
};

}  // namespace tandem
