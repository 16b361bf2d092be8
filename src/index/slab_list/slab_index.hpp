// The index kind `slab_list` (KVCG 5.1, L-Slab): a hash table of buckets, each a chain of slabs of 31 entries. A writer
// holds the bucket's lock along the whole chain; a key in any slab of it is found by its whole fingerprint, eight
// entries at a time. It grows by dividing one bucket after the other, without a second table (linear hashing).
//
// Readers: any thread inside an epoch; they take no lock and write nothing. Writers: any thread inside an epoch, one
// key's stripe at a time. docs/decisions/0047-slab-list.md has what departs from the paper.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/epoch.hpp"
#include "base/fingerprint.hpp"
#include "base/memory_budget.hpp"
#include "base/platform.hpp"
#include "heap/heap.hpp"
#include "heap/item_rewrite.hpp"
#include "index/index.hpp"
#include "index/slab_list/slab.hpp"
#include "index/slab_list/slab_memory.hpp"
#include "index/slab_list/slab_ops.hpp"
#include "index/slab_list/slab_pool.hpp"
#include "index/stripes.hpp"

namespace tandem {

class SlabListIndex final : public Index {
 public:
  static constexpr std::string_view kind = "slab_list";
  static constexpr std::uint32_t cell_bytes = 16;  // of one that is used, further slabs included

  // options.cells_initial: entries, of which a bucket has about 32. Throws std::bad_alloc past the budget,
  // std::invalid_argument for unknown lanes and for options that need a device or an order.
  SlabListIndex(const IndexOptions& options, MemoryBudget& budget, EpochDomain& epochs, Heap& heap);

  // --- reading, a strip at a time

  // Prefetches the line of keys that search_first() reads, and their locations. A hint that needs no epoch.
  class Prefetcher {
   public:
    TD_INLINE void operator()(Fingerprint f) const noexcept {
      const Slab* const slab = view_.of(f);
      prefetch_read(slab->key + preferred_line(f) * slab_line_keys);
      prefetch_read(slab->location + preferred_line(f) * slab_line_keys);
    }

   private:
    friend class SlabListIndex;
    explicit Prefetcher(SlabView view) noexcept : view_(view) {}
    SlabView view_;
  };
  TD_INLINE Prefetcher prefetcher() const noexcept { return Prefetcher(view()); }
  // The preferred lines; then the chains of those that had no candidate there.
  std::uint32_t search_first(const Fingerprint* f, std::uint32_t count, Location* location) const noexcept;
  void search_second(const Fingerprint* f, std::uint32_t left, Location* location) const noexcept;
  Item* find(Fingerprint f, std::string_view key, ItemVersion& seen,
             Location candidate = no_location) const noexcept override;

  // --- writing

  using Put = IndexPut;

  // As CuckooIndex::Guard.
  class Guard {
   public:
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard();
    Item* find(std::string_view key, Location candidate = no_location) noexcept;
    Item* find(Location l) noexcept;
    const ItemVersion& version() const noexcept { return version_; }
    // needs_room: all slabs of the chain are full, and there is no free one.
    [[nodiscard]] Put put(Location now, std::uint64_t live_state) noexcept;
    [[nodiscard]] bool erase() noexcept;
    [[nodiscard]] bool update_state(std::uint64_t mask, std::uint64_t bits) noexcept;

   private:
    friend class SlabListIndex;
    Guard(SlabListIndex& index, Fingerprint f) noexcept;
    template <class IsIt>
    Item* find_entry(IsIt is_it) noexcept;
    void kill() noexcept;

    SlabListIndex& index_;
    const Fingerprint f_;
    StripeLock lock_;
    Slab* const first_;      // of the bucket, which is not divided meanwhile
    Item* item_ = nullptr;   // what was found
    ItemVersion version_{};  // of item_
    Slab* slab_ = nullptr;   // of item_, and where in it
    std::uint32_t entry_ = 0;
    bool changed_ = false;
  };
  [[nodiscard]] Guard lock(Fingerprint f) noexcept { return Guard(*this, f); }
  std::unique_ptr<KeyHold> hold(Fingerprint f) override;
  TD_INLINE void prefetch_stripe(Fingerprint f) const noexcept { prefetch_write(&stripe_of(f)); }
  TD_INLINE void prefetch_guard(Fingerprint f) const noexcept {
    prefetch_stripe(f);
    const Slab* const slab = view().of(f);
    for (std::uint32_t line = 0; line < slab_lines; ++line) prefetch_write(slab->key + line * slab_line_keys);
    prefetch_write(slab->location + preferred_line(f) * slab_line_keys);
  }
  // The current word of the key's stripe.
  StripeWord stripe(Fingerprint f) const noexcept { return {stripe_of(f).load(std::memory_order_acquire)}; }

  // --- size

  // Whether the chain has a free entry or a slab can be added to it, for which memory is taken from the budget.
  bool make_room(Fingerprint f, std::string_view key) noexcept override;
  // Neighbours of the whole chain, from an entry that the hash chooses.
  std::uint32_t candidates(Fingerprint f, std::string_view key, Location out[candidates_max]) const noexcept override;
  bool wants_growth() const noexcept override;
  // Adds an eighth more buckets, each of which is divided from another one; or free slabs, if a chain lacked one.
  bool grow(EpochDomain::Participant& self) override;
  std::uint64_t growth_bytes() const noexcept override;
  bool is_memory_refused() const noexcept override { return memory_refused_; }
  bool growing() const noexcept override { return false; }  // no search needs to know

  std::uint64_t cell_count() const noexcept override { return std::uint64_t{bucket_count()} * slab_entries; }
  std::uint64_t item_count() const noexcept override;
  std::uint64_t table_bytes() const noexcept override { return first_.bytes() + pool_.bytes(); }
  CellsIn cells_in() const noexcept override { return CellsIn::slab; }
  std::string_view lanes() const noexcept override { return ops_.name; }
  std::uint32_t bucket_count() const noexcept { return count_.load(std::memory_order_acquire); }
  // Of a key's bucket. REQUIRES: an epoch, and no writer is active in it.
  std::uint32_t chain_length(Fingerprint f) const noexcept;
  // What a search needs, as of now. In an epoch, or for hints.
  TD_INLINE SlabView view() const noexcept { return {first_.start(), pool_.start(), SlabBuckets(bucket_count())}; }

  template <class F>
  void for_each_location(F f) const {
    for_each_location(&call<F>, &f);
  }

 private:
  struct alignas(cache_line_bytes) Counter {
    std::atomic<std::int64_t> items{0};
  };
  static constexpr std::uint32_t counter_count = 64;
  struct Entry {
    std::uint64_t key;
    Location location;
  };

  template <class F>
  static void call(void* f, Location l) {
    (*static_cast<F*>(f))(l);
  }
  void for_each_location(void (*f)(void*, Location), void* context) const;
  TD_INLINE Stripe& stripe_of(Fingerprint f) const noexcept { return stripes_[slab_hash(f) & stripe_mask_]; }
  Slab* next_of(const Slab* slab) const noexcept;
  bool add(Slab* first, Entry entry) noexcept;
  bool add_to(Slab* slab, Entry entry) noexcept;
  void drop_empty(Slab* first) noexcept;
  void compact(Slab* first) noexcept;
  void count(std::int64_t items) noexcept;
  bool divide_next() noexcept;
  template <class F>
  void for_each_moving(Slab* first, SlabBuckets after, F f) const noexcept;
  bool extend_empty(Slab* first, std::size_t entries) noexcept;
  std::uint64_t step_slabs() const noexcept;

  IndexOptions options_;  // constant once made
  const SlabOps& ops_;
  Heap& heap_;
  SlabMemory first_;  // first slabs, by bucket
  SlabPool pool_;
  const std::uint32_t stripe_mask_;
  const std::unique_ptr<Stripe[]> stripes_;
  // Of buckets. Only grow() changes it, under the stripe of the bucket that is divided.
  alignas(cache_line_bytes) std::atomic<std::uint32_t> count_;
  alignas(cache_line_bytes) std::atomic<bool> slab_missing_{false};  // a make_room() failed
  const std::unique_ptr<Counter[]> counters_;
  bool memory_refused_ = false;  // only grow()'s caller uses it
};

}  // namespace tandem
