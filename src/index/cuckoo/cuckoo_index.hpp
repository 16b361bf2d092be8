// The cuckoo index: fingerprints to locations, a bucketed cuckoo hash table with its write protocol (Mega-KV 4;
// docs/threads.md has every memory order). This header is the contract for the tasks.
//
// Readers: any thread inside an epoch; they take no lock and write nothing. Writers: any thread inside an epoch, one
// key's stripe at a time.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/epoch.hpp"
#include "base/fingerprint.hpp"
#include "base/memory_budget.hpp"
#include "heap/heap.hpp"
#include "heap/item_rewrite.hpp"
#include "index/change_log.hpp"
#include "index/cuckoo/cuckoo.hpp"
#include "index/cuckoo/table.hpp"
#include "index/cuckoo/table_kernels.hpp"
#include "index/elsewhere.hpp"
#include "index/followed_index.hpp"
#include "index/hash_tree/key_tree.hpp"
#include "index/index.hpp"
#include "index/shard.hpp"
#include "index/stripes.hpp"

namespace tandem {

struct DisplacementMove;

class CuckooIndex final : public FollowedIndex {
  struct Phase;

 public:
  static constexpr std::string_view kind = "cuckoo";
  static constexpr bool can_be_ordered = true;

  // Throws std::bad_alloc past the budget, std::invalid_argument for unknown lanes.
  CuckooIndex(const IndexOptions& options, MemoryBudget& budget, EpochDomain& epochs, Heap& heap);
  ~CuckooIndex() override;

  // --- reading, a strip at a time ---

  // Prefetches the buckets that search() will read. It copies the table's address as of some earlier moment: a hint,
  // for one strip, that needs no epoch.
  class Prefetcher {
   public:
    TD_INLINE void operator()(Fingerprint f) const noexcept {
      if (TD_UNLIKELY(both_)) prefetch_read(view_.buckets + view_.second(f));
      prefetch_read(view_.buckets + view_.first(f));
    }

   private:
    friend class CuckooIndex;
    Prefetcher(IndexView view, bool both) noexcept : view_(view), both_(both) {}
    IndexView view_;
    bool both_;
  };
  TD_INLINE Prefetcher prefetcher() const noexcept {
    const std::uint32_t mask = hint_mask_.load(std::memory_order_relaxed);
    return {{hint_buckets_.load(std::memory_order_relaxed), mask, options_.shard_bits}, Table::reads_both(mask)};
  }
  // location[i]: the first cell with f[i]'s signature in its two buckets, or no_location. Only a candidate: the caller
  // compares the key, and on a mismatch or a miss calls find(). Prefetches the items that it names. Runs on the widest
  // lanes of this processor, chosen once.
  void search(const Fingerprint* f, std::uint32_t count, Location* location) const noexcept;
  // The same in two steps, to do other work while the second buckets are loaded. The first returns the queries that
  // remain for the second, bit i for f[i]. REQUIRES: count <= 32; both inside one epoch.
  std::uint32_t search_first(const Fingerprint* f, std::uint32_t count, Location* location) const noexcept;
  void search_second(const Fingerprint* f, std::uint32_t left, Location* location) const noexcept;
  // The live item of the key, or nullptr: every candidate is compared, and a miss is confirmed by re-reading both
  // buckets under the stripe's version. `seen` receives the item's words, of which the state said live. Waits only
  // while a writer holds the key's stripe or rewrites its item. While the table is on devices, `candidate` is the
  // result for the key of a device search that the caller's epoch covers, or no_location: without it only pending
  // writes are found.
  Item* find(Fingerprint f, std::string_view key, ItemVersion& seen,
             Location candidate = no_location) const noexcept override;

  // --- writing ---

  using Put = IndexPut;

  // Holds the stripe of a key. While it lives no other thread changes, adds or removes this key, and readers that miss
  // the key wait. Keep it short: no allocation, no eviction, no second Guard. The destructor stamps changed_at and
  // bumps the version if anything changed, then unlocks; only after that may the caller retire what was displaced.
  class Guard {
   public:
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard();
    // The key's live item (expired and flushed ones too: that is the caller's judgement), or nullptr. Remembers its
    // cell for put() and erase(). candidate: as of CuckooIndex::find(). hint: nullptr, or a cell of one of the key's
    // buckets, of searched(), which is looked at first: where the key was found in this epoch.
    Item* find(std::string_view key, Location candidate = no_location, const std::uint64_t* hint = nullptr) noexcept;
    // The same by location, for eviction: nullptr when the key's item at `l` is gone or not live.
    Item* find(Location l) noexcept;
    // Both words, of one version, of the item that find() returned. It may be rewritten in place since; the calls below
    // change it only if it is still at that version.
    const ItemVersion& version() const noexcept { return version_; }
    // Publishes the item at `now`, with `live_state` as its state word; all other bytes are complete. If find()
    // returned an item, that is replaced (new -> live, old -> dead, then the cell: decision 7); else the item is added
    // in a free cell. needs_room: there is none and nothing changed; release the Guard, call make_room() and start
    // over. While the table is on devices, the index retires the slot of a replaced or erased item.
    [[nodiscard]] Put put(Location now, std::uint64_t live_state) noexcept;
    // The key's leaf in order(), as OrderTree::hold() wants it, for put().
    void expect_in(Leaf* leaf) noexcept { leaf_ = leaf; }
    // Removes the item that find() returned (live -> dead, then the cell). False: it has been rewritten since.
    // REQUIRES: find() returned an item.
    [[nodiscard]] bool erase() noexcept;
    // Changes the live state word in place (expiry, stale, win, access), under the item's lock, and keeps the bits
    // outside `mask`. False: the item has been rewritten since. REQUIRES: find() returned an item.
    [[nodiscard]] bool update_state(std::uint64_t mask, std::uint64_t bits) noexcept;
    // Calls change(), which may change the item that find() returned, and says whether it has. The log's readers are
    // told that they have to read the item again. REQUIRES: find() returned an item.
    template <class F>
    bool change_item(F change) noexcept {
      TD_ASSERT(item_ != nullptr);
      const ChangeLog::Ticket ticket = reserve();
      const bool changed = change();
      changed_ |= changed;
      if (index_.options_.log != nullptr) index_.options_.log->commit(ticket);
      return changed;
    }
    // Of a set in place: change(slot) puts the item's new image into the slot, if it has granules, and publishes it
    // before it unlocks the item. REQUIRES: find() returned an item.
    template <class F>
    bool rewrite_item(F change) noexcept {
      const ImageSlot slot = image_slot();
      if (TD_UNLIKELY(slot.granules == nullptr)) return change_item([&]() noexcept { return change(slot); });
      const bool changed = change(slot);
      changed_ |= changed;
      return changed;
    }

   private:
    friend class CuckooIndex;
    Guard(CuckooIndex& index, Fingerprint f) noexcept;
    template <class IsIt>
    Item* find_cell(IsIt is_it) noexcept;
    bool is_at(const std::uint64_t* hint, std::string_view key) noexcept;
    ChangeLog::Ticket reserve() const noexcept;
    ImageSlot image_slot() const noexcept;
    Item* find_elsewhere(std::string_view key, Location candidate) noexcept;
    Put put_elsewhere(Location now, std::uint64_t live_state) noexcept;
    Put put_in_table(Location now, std::uint64_t live_state) noexcept;
    Put put_in_order(Location now, std::uint64_t live_state) noexcept;
    bool erase_in_table() noexcept;
    bool erase_in_order() noexcept;

    CuckooIndex& index_;
    const Fingerprint f_;
    StripeLock lock_;
    const Phase& phase_;
    Item* item_ = nullptr;         // what find() returned
    ItemVersion version_{};        // of item_
    std::uint64_t* cell_[2] = {};  // its cells, in phase_.read and in phase_.other; nullptr: no cell
    Elsewhere* const elsewhere_;   // has the key's pending writes; nullptr: the table is on the host
    Elsewhere::RecordId record_ = Elsewhere::no_record;  // of item_
    Leaf* leaf_ = nullptr;                               // of expect_in()
    bool clash_ = false;  // the table elsewhere may have another key's cell of the same fingerprint
    bool changed_ = false;
  };
  [[nodiscard]] Guard lock(Fingerprint f) noexcept;
  std::unique_ptr<KeyHold> hold(Fingerprint f) override;
  void prefetch_stripe(Fingerprint f) const noexcept;
  TD_INLINE void prefetch_stripe_to_read(Fingerprint f) const noexcept { prefetch_read(&stripes_.of(f.signature)); }
  // Prefetches all that a Guard of `f` reads to find that the key is absent. The same hint as a Prefetcher's.
  TD_INLINE void prefetch_guard(Fingerprint f) const noexcept {
    prefetch_stripe(f);
    if (Elsewhere* const table = elsewhere(); TD_UNLIKELY(table != nullptr)) return table->prefetch(f);
    const IndexView view{hint_buckets_.load(std::memory_order_relaxed), hint_mask_.load(std::memory_order_relaxed),
                         options_.shard_bits};
    prefetch_write(view.buckets + view.first(f));
    prefetch_write(view.buckets + view.second(f));
  }

  // The current word of the key's stripe. It tells whether a miss on a replica is final (write protocol 6).
  StripeWord stripe(Fingerprint f) const noexcept override {
    return {stripes_.of(f.signature).load(std::memory_order_acquire)};
  }

  // Displaces cells along a bounded path, one at a time under each victim's own stripe, copy then clear, until one of
  // f's buckets has a free cell (another thread may take it: start over). False: there is no path within the bound, or
  // a running growth needs the remaining cells for the keys that it has still to copy. Then evict one of candidates(),
  // or leave the epoch so that the growth can continue, and try again (during the copy, each call copies a part).
  // REQUIRES: the caller is in an epoch and holds no Guard.
  bool make_room(Fingerprint f, std::string_view key) noexcept override;
  // The locations in f's two buckets (at most 16), for an eviction that frees a cell.
  std::uint32_t candidates(Fingerprint f, std::string_view key, Location out[candidates_max]) const noexcept override;

  // --- order : an OrderTree beside the table, changed under the key's Guard (decision 37)

  bool is_ordered() const noexcept override { return order_ != nullptr; }
  ScanResult scan(const ScanRange& range, std::uint32_t most, ScanCopies& copies, ScanStamp& stamp) noexcept override;
  void prefetch_scans(std::span<const ScanStart> starts, ScansAhead& ahead) const noexcept override;
  // nullptr: not ordered.
  const OrderTree* order() const noexcept { return order_.get(); }

  // --- growth ---

  // True when the load passed load_grow, make_room() failed since the last growth, or the order wants memory.
  bool wants_growth() const noexcept override;
  // Doubles the table from the calling thread while readers and writers continue (writers apply to both tables
  // meanwhile). Only writers that add keys faster than the old table is copied have to wait: once the new one has cells
  // only for the old one's keys, put() returns needs_room. Returns false when the budget has no room (the caller frees
  // pages first and tries again). One caller at a time. REQUIRES: the caller is in no epoch. Also false when more keys
  // than two buckets hold share both buckets of the doubled table, which is nearly impossible with a seeded hash: the
  // growth stays open, the index stays usable, and the next call finishes it if some of these keys are gone.
  bool grow(EpochDomain::Participant& self) override;
  void cut_order(std::string_view key) noexcept override {
    if (order_ != nullptr) order_->cut(key);
  }
  LeafSupply leaf_supply() noexcept override { return order_ != nullptr ? order_->leaf_supply() : LeafSupply{}; }
  std::uint32_t take_unpaid_leaves() noexcept override { return order_ != nullptr ? order_->take_unpaid_leaves() : 0; }
  std::uint32_t merge_fallen() noexcept override { return order_ != nullptr ? order_->merge_fallen() : 0; }
  void tidy() override {
    if (order_ != nullptr) order_->merge_sparse();
  }
  std::uint64_t growth_bytes() const noexcept override;
  bool is_memory_refused() const noexcept override { return memory_refused_; }
  // Whether a growth has begun and not ended.
  bool growing() const noexcept override { return phase().other != nullptr; }

  // --- a table elsewhere: in the memory of devices, one shard each (placement/index_placement.hpp)

  // From now on the table is `to`'s, which outlives the index, and the host's is freed. REQUIRES: nothing else uses the
  // index yet, and no replica follows it. Throws std::bad_alloc, and nothing has changed.
  void move_out(Elsewhere& to);
  // Calls f(Fingerprint, Location) for every item that a table elsewhere is to have, and clash(Fingerprint, Location)
  // for those with another item's fingerprint. REQUIRES: nothing uses the index yet.
  template <class F, class Clash>
  void for_each_to_move(F f, Clash clash) const;
  // Waits until all batches have ended that are in their epochs now. REQUIRES: the caller is in no epoch.
  void wait_for_batches() noexcept;
  // Rebuilds the host's table from the heap's live items; items for which the system has no memory are dropped. The
  // budget may be overdrawn afterwards. REQUIRES: the table is elsewhere; nothing uses the index; the caller is in no
  // epoch; one caller.
  void rebuild(Heap::Cache& cache, unsigned threads) noexcept;
  Stripes& stripes() noexcept { return stripes_; }

  // --- what a replica follows ---

  // The table that strips search now. whole: no key can be in another table alone; false while a growth copies, when
  // only a search of both tables tells that a key is absent.
  struct Searched {
    IndexView view;
    std::uint32_t serial;
    bool whole;
  };
  // REQUIRES: the caller is in an epoch; the view is valid until it ends.
  Searched searched() const noexcept {
    const Phase& p = phase();
    return {p.read->view(), p.read->serial(), p.read == p.target};
  }

  FollowedTable followed() const noexcept override {
    const Searched s = searched();
    static_assert(sizeof(Bucket) == bucket_cells * sizeof(std::uint64_t), "cells lie one behind the other");
    return {
        .cells = {.first = s.view.buckets->cell}, .shape = {.mask = s.view.mask}, .serial = s.serial, .whole = s.whole};
  }
  void search_column(std::span<const Fingerprint> f, Location* location) const noexcept override {
    search_column_of(*this, f, location);
  }

  std::uint64_t hash_seed() const noexcept { return options_.hash_seed; }
  std::uint32_t shard_bits() const noexcept override { return options_.shard_bits; }
  // Of the table that takes new keys. This, item_count() and wants_growth() may be called outside an epoch, too.
  std::uint64_t cell_count() const noexcept override {
    const Elsewhere* const table = elsewhere();
    return TD_UNLIKELY(table != nullptr) ? table->cells() : cells_.load(std::memory_order_relaxed);
  }
  std::uint64_t item_count() const noexcept override;   // exact when no writer is active; sums 64 counters
  std::uint64_t table_bytes() const noexcept override;  // of all tables now allocated
  CellsIn cells_in() const noexcept override { return CellsIn::table; }
  std::string_view lanes() const noexcept override { return ops_.name; }

  // Calls f(const Table&, cell index, Cell) for every used cell of all tables in use. For tests and tools. REQUIRES:
  // the caller is in an epoch, or no growth is running.
  template <class F>
  void for_each_cell(F f) const;
  // Calls f(Location) for every item; twice for one that is in both tables of a growth. REQUIRES: as for_each_cell().
  template <class F>
  void for_each_location(F f) const {
    for_each_cell([&f](const Table&, std::uint64_t, Cell c) { f(c.location()); });
  }

  // The table's kernels for devices (IndexKind's optional parts).
  static constexpr const Kernel<SearchArguments>& device_search = search_table;
  static constexpr const Kernel<ChangeArguments>& device_change = change_table;
  static constexpr std::uint32_t devices_max = shards_max;

 private:
  // The tables that readers and writers use. Changes only in grow(), which waits after each change for the batches that
  // know the previous phase. So only batches of two neighbouring phases run together, and each pair of neighbours is
  // safe together (grow.cpp).
  struct Phase {
    Table* read;    // strips search it
    Table* other;   // nullptr, or: searched when a key is not found, and changed where it has a cell of the key
    Table* target;  // one of the two: makes room for new keys by displacement; the other gets them only while cells are
                    // free
  };
  struct alignas(cache_line_bytes) Counter {
    std::atomic<std::int64_t> items{0};
  };
  static constexpr std::uint32_t counter_count = 64;
  // The copy of a growth: chunks of buckets, claimed by the grower and by writers that wait for it.
  struct alignas(cache_line_bytes) Copying {
    static constexpr std::uint64_t closed = std::uint64_t{1} << 40;  // past every chunk
    std::atomic<std::uint64_t> next_chunk{closed};
    std::atomic<std::uint64_t> chunks_done{0};
    std::atomic<bool> missed{false};  // a cell found no room
  };

  TD_INLINE const Phase& phase() const noexcept { return *phase_.load(std::memory_order_seq_cst); }
  void publish(Phase next) noexcept;
  std::int64_t count(std::int64_t items) noexcept;
  std::uint32_t launch() const noexcept { return options_.log != nullptr ? options_.log->launch() : 0; }
  std::uint64_t* add_cell(const Table& table, Fingerprint f, Cell now, ChangeLog* log) noexcept;
  bool target_is_full(const Phase& p) const noexcept;
  bool make_room_in(const Table& table, Fingerprint f) noexcept;
  bool move_cell(const Table& table, const DisplacementMove& move) noexcept;
  bool holds(IndexView view, Fingerprint f, Cell wanted) const noexcept;
  bool wants_larger_table() const noexcept;
  bool grow_table(EpochDomain::Participant& self);
  bool copy_all(EpochDomain::Participant& self) noexcept;
  bool copy_some() noexcept;
  bool copy_buckets(const Table& from, const Table& to, std::uint64_t begin, std::uint64_t end) noexcept;
  bool copy_cell(const Table& to, Fingerprint f, const std::uint64_t* cell, Cell seen) noexcept;
  // The owner of a table elsewhere; nullptr: the host's table is in use.
  TD_INLINE Elsewhere* elsewhere() const noexcept { return elsewhere_.load(std::memory_order_relaxed); }
  Item* find_elsewhere(const Elsewhere& table, Fingerprint f, std::string_view key, ItemVersion& seen,
                       Location candidate) const noexcept;

  IndexOptions options_;  // constant once made
  const CuckooOps& ops_;
  MemoryBudget& budget_;
  EpochDomain& epochs_;
  Heap& heap_;
  Stripes stripes_;
  std::unique_ptr<Table> table_, next_;  // next_: while growing. Only grow() uses them
  bool memory_refused_ = false;          // only grow()'s caller uses it
  std::array<Phase, 4> phases_{};        // a ring: only the last two can be in use
  std::uint32_t phase_number_ = 0;
  alignas(cache_line_bytes) std::atomic<const Phase*> phase_{nullptr};
  // Of the table that strips search. Read separately and without an epoch, so only a hint.
  std::atomic<Bucket*> hint_buckets_{nullptr};
  std::atomic<std::uint32_t> hint_mask_{0};
  std::atomic<bool> room_failed_{false};
  std::atomic<bool> target_full_{false};  // phase 3: the target's free cells are reserved for keys not copied yet
  Copying copying_;
  std::atomic<std::uint64_t> table_bytes_{0}, cells_{0};  // cells_: of the phase's target
  std::unique_ptr<Counter[]> counters_;
  std::atomic<Elsewhere*> elsewhere_{nullptr};
  std::unique_ptr<OrderTree> order_;  // constant once made; nullptr: no order is kept
};

TD_INLINE CuckooIndex::Guard::Guard(CuckooIndex& index, Fingerprint f) noexcept
    : index_(index),
      f_(f),
      lock_(index.stripes_.of(f.signature)),
      phase_(index.phase()),
      elsewhere_(index.elsewhere()) {}
TD_INLINE CuckooIndex::Guard CuckooIndex::lock(Fingerprint f) noexcept { return Guard(*this, f); }

template <class F, class Clash>
void CuckooIndex::for_each_to_move(F f, Clash clash) const {
  const IndexView view = phase().read->view();
  for_each_cell([&](const Table&, std::uint64_t, Cell c) {
    const Fingerprint mine = options_.fingerprint(heap_.at(c.location())->key(), options_.hash_seed);
    bool is_first = true;
    for (const std::uint32_t b : {view.first(mine), view.second(mine)}) {
      for (const std::uint64_t bits : view.buckets[b].cell) {
        const Cell other{bits};
        if (other.signature() == c.signature() && other.location() < c.location()) is_first = false;
      }
    }
    if (is_first) {
      f(mine, c.location());
    } else {
      clash(mine, c.location());
    }
  });
}

template <class F>
void CuckooIndex::for_each_cell(F f) const {
  const Phase& p = phase();
  for (const Table* table : {p.read, p.other}) {
    if (table == nullptr) continue;
    const std::uint64_t* cells = table->view().buckets->cell;
    for (std::uint64_t i = 0; i < table->cells(); ++i) {
      const Cell c{
          std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(cells[i])).load(std::memory_order_acquire)};
      if (!c.empty()) f(*table, i, c);
    }
  }
}

}  // namespace tandem
