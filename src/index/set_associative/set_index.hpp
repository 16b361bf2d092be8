// The set-associative index (MemcachedGPU 4.2): fingerprints to locations, in a fixed number of sets of `Ways` entries.
// A full set evicts its least recently used entry for a new key, so the number of sets bounds the number of items. Why
// it does not grow: docs/decisions/0034-set-associative.md.
//
// Readers: any thread inside an epoch. Writers: any thread inside an epoch, one set at a time, under its lock. A key
// lies in one set only, so the set's lock is the key's stripe, and a victim is killed under it, too.
//
// The product has sets of 16 ways and validated reads. Other numbers of ways, and reads under the set's lock, are for
// measurements and tests (set_index-inl.hpp).
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/epoch.hpp"
#include "base/fingerprint.hpp"
#include "base/memory_budget.hpp"
#include "base/platform.hpp"
#include "heap/heap.hpp"
#include "heap/item_rewrite.hpp"
#include "index/change_log.hpp"
#include "index/cuckoo/table_kernels.hpp"
#include "index/followed_index.hpp"
#include "index/set_associative/set.hpp"
#include "index/set_associative/set_ops.hpp"
#include "index/table_memory.hpp"

namespace tandem {

// The clock of the entries' stamps. Ages within a set are compared, so any clock does that advances several times while
// a set's entries are accessed; each distinct value costs a hit entry one store.
class SetStamps {
 public:
  // Ticks of the processor, coarse enough that a hot entry is stamped about two thousand times a second, and that 32
  // bits last for weeks.
  TD_INLINE std::uint32_t now() const noexcept {
    if (TD_UNLIKELY(given_ != nullptr)) return given_->load(std::memory_order_relaxed);
    return static_cast<std::uint32_t>(cycles_now() >> ticks_shift);
  }
  // A clock in the caller's hand, which outlives the index: of a test, or the number of a device's launch. REQUIRES:
  // nothing else uses the index yet.
  void give(const std::atomic<std::uint32_t>& clock) noexcept { given_ = &clock; }

 private:
#if defined(__x86_64__)
  static constexpr unsigned ticks_shift = 20;  // of 2 to 4 GHz
#else
  static constexpr unsigned ticks_shift = 14;  // of 25 to 1000 MHz
#endif
  const std::atomic<std::uint32_t>* given_ = nullptr;
};

// The entry was accessed at `now`. It may get another key just now: then that one is taken for a little younger than it
// is.
TD_INLINE void stamp_entry(const SetEntry& entry, std::uint32_t now) noexcept {
  const std::atomic_ref<std::uint32_t> stamp(const_cast<std::uint32_t&>(entry.stamp));
  if (stamp.load(std::memory_order_relaxed) != now) stamp.store(now, std::memory_order_relaxed);
}

template <unsigned Ways, SetReading Reading = SetReading::validated>
class BasicSetIndex final : public FollowedIndex {
  using Set = EntrySet<Ways>;

 public:
  static constexpr std::string_view kind = "set_associative";
  static constexpr std::uint32_t fixed_entry_bytes = sizeof(Set) / Ways;
  static_assert(Ways <= candidates_max);

  // options.cells_initial: entries, rounded up to whole sets. Throws std::bad_alloc past the budget,
  // std::invalid_argument for unknown lanes.
  BasicSetIndex(const IndexOptions& options, MemoryBudget& budget, EpochDomain& epochs, Heap& heap);

  // --- reading, a strip at a time

  class Prefetcher {
   public:
    TD_INLINE void operator()(Fingerprint f) const noexcept { prefetch_read(view_.of(f)); }

   private:
    friend class BasicSetIndex;
    explicit Prefetcher(SetView<Ways> view) noexcept : view_(view) {}
    SetView<Ways> view_;
  };
  TD_INLINE Prefetcher prefetcher() const noexcept { return Prefetcher(view_); }
  // Two passes as IndexKind has them: tags, then entries.
  std::uint32_t search_first(const Fingerprint* f, std::uint32_t count, Location* location) const noexcept;
  void search_second(const Fingerprint* f, std::uint32_t left, Location* location) const noexcept;
  Item* find(Fingerprint f, std::string_view key, ItemVersion& seen,
             Location candidate = no_location) const noexcept override;

  // For note_access(): read once a strip.
  TD_INLINE std::uint32_t stamp_now() const noexcept { return stamps_.now(); }
  // A key of this fingerprint was accessed: the entry of its item at `l`, if it is still there, is the set's youngest.
  void note_access(Fingerprint f, Location l, std::uint32_t now) const noexcept;
  SetStamps& stamps() noexcept { return stamps_; }

  // --- writing

  using Put = IndexPut;

  // Holds a key's set. As CuckooIndex::Guard, and:
  //   has_room()      whether the set has a free way; else put() of a new key returns needs_room
  //   find_victim()   in place of find(): the set's least recently used item, which erase() then evicts; nullptr: none
  class Guard {
   public:
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard();
    Item* find(std::string_view key, Location candidate = no_location) noexcept;
    Item* find(Location l) noexcept;
    const ItemVersion& version() const noexcept { return version_; }
    [[nodiscard]] Put put(Location now, std::uint64_t live_state) noexcept;
    [[nodiscard]] bool erase() noexcept;
    [[nodiscard]] bool update_state(std::uint64_t mask, std::uint64_t bits) noexcept;
    bool has_room() const noexcept;
    Item* find_victim() noexcept;
    template <class F>
    bool change_item(F change) noexcept {
      TD_ASSERT(item_ != nullptr);
      const Logged logged = announce();
      const bool changed = change();
      changed_ |= changed;
      return changed;
    }
    template <class F>
    bool rewrite_item(F change) noexcept {
      const ImageSlot slot = image_slot();
      if (slot.granules == nullptr) return change_item([&]() noexcept { return change(slot); });
      const bool changed = change(slot);
      changed_ |= changed;
      return changed;
    }

   private:
    friend class BasicSetIndex;
    Guard(BasicSetIndex& index, Fingerprint f) noexcept;
    template <class IsIt>
    Item* find_way(std::uint32_t ways, IsIt is_it) noexcept;
    void kill() noexcept;
    // In the log, if there is one, until the scope ends: the way changes, or its item does.
    Logged announce() const noexcept { return {index_.options_.log, {{serial, index_.cell_of(f_, way_)}}}; }
    ImageSlot image_slot() const noexcept;

    BasicSetIndex& index_;
    const Fingerprint f_;
    Set& set_;
    Item* item_ = nullptr;    // what was found
    ItemVersion version_{};   // of item_
    std::uint32_t way_ = 0;   // of item_
    bool is_victim_ = false;  // item_ is another key's
    bool changed_ = false;
  };
  [[nodiscard]] Guard lock(Fingerprint f) noexcept { return Guard(*this, f); }
  std::unique_ptr<KeyHold> hold(Fingerprint f) override;
  TD_INLINE void prefetch_stripe(Fingerprint f) const noexcept { prefetch_write(view_.of(f)); }
  TD_INLINE void prefetch_stripe_to_read(Fingerprint f) const noexcept { prefetch_read(view_.of(f)); }
  TD_INLINE void prefetch_guard(Fingerprint f) const noexcept { prefetch_write(view_.of(f)); }

  // --- size

  bool make_room(Fingerprint f, std::string_view key) noexcept override;
  // The set's locations, the least recently used first.
  std::uint32_t candidates(Fingerprint f, std::string_view key, Location out[candidates_max]) const noexcept override;
  bool grows() const noexcept override { return false; }
  bool wants_growth() const noexcept override { return false; }
  bool grow(EpochDomain::Participant&) override { return true; }
  bool growing() const noexcept override { return false; }

  std::uint64_t item_count() const noexcept override;
  std::uint64_t cell_count() const noexcept override { return std::uint64_t{view_.count} * Ways; }
  std::uint64_t table_bytes() const noexcept override { return memory_.bytes(); }
  CellsIn cells_in() const noexcept override {
    return Ways == set_ways && Reading == SetReading::validated ? CellsIn::set : CellsIn::other;
  }
  std::string_view lanes() const noexcept override { return ops_.name; }
  // Items that made room for another key's. Reads the whole table.
  std::uint64_t evictions() const noexcept;
  SetView<Ways> view() const noexcept { return view_; }

  // --- what a replica follows: cell Ways * set + way. REQUIRES: sets of 16 ways

  FollowedTable followed() const noexcept override;
  // The set's word and the launch in which it was last changed.
  StripeWord stripe(Fingerprint f) const noexcept override;
  // Their entries are stamped as by the host's hits.
  void note_reads(std::span<const Location> items) const noexcept override;
  void search_column(std::span<const Fingerprint> f, Location* location) const noexcept override;

  static constexpr const Kernel<SearchArguments>& device_search = search_table;
  static constexpr std::uint32_t devices_max = 1;  // a set's number is no bits of the hash

  template <class F>
  void for_each_location(F f) const;

 private:
  struct alignas(cache_line_bytes) Counter {
    std::atomic<std::int64_t> items{0};
  };
  static constexpr std::uint32_t counter_count = 64;

  static constexpr std::uint32_t serial = 1;  // of its only table
  std::uint64_t cell_of(Fingerprint f, std::uint32_t way) const noexcept {
    return std::uint64_t{view_.index_of(f)} * Ways + way;
  }

  // Holds a set's shared lock, where readers take it.
  class Shared;
  void count(std::int64_t items) noexcept;

  IndexOptions options_;  // constant once made
  const SetOps<Ways>& ops_;
  Heap& heap_;
  TableMemory memory_;
  const SetView<Ways> view_;
  SetStamps stamps_;
  std::unique_ptr<Counter[]> counters_;
};

template <unsigned Ways, SetReading Reading>
template <class F>
void BasicSetIndex<Ways, Reading>::for_each_location(F f) const {
  const auto load = [](std::uint64_t& word) {
    return std::atomic_ref<std::uint64_t>(word).load(std::memory_order_acquire);
  };
  for (std::uint32_t i = 0; i < view_.count; ++i) {
    Set& set = view_.sets[i];
    for (std::uint32_t way = 0; way < Ways; ++way) {
      if ((load(set.tags[way / 8]) >> way % 8 * 8 & 0xff) == 0) continue;
      if (const Cell c{load(set.entry[way].cell)}; !c.empty()) f(c.location());
    }
  }
}

using SetAssociativeIndex = BasicSetIndex<set_ways>;
extern template class BasicSetIndex<set_ways>;

}  // namespace tandem
