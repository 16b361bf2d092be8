// The store's code for one kind of index, and its row. Included once, where a kind is registered.
#pragma once
#include "base/hash.hpp"
#include "engine/index_kinds.hpp"
#include "index/index_kind.hpp"

namespace tandem {

// Inserts a page's items into the index, a strip at a time, so that the cache misses of a strip overlap.
template <IndexKind I>
class Indexer final : public PageIndexer {
 public:
  Indexer(HeapRecovery& heap, I& index, EpochDomain& epochs, std::uint64_t seed)
      : heap_(heap), index_(index), epochs_(epochs), epoch_(epochs), seed_(seed) {}

  void operator()(PageId page) override {
    epoch_.enter();
    heap_.visit(page, [this](Location l, const Item* item) { add(l, item); });
    flush();
    epoch_.exit();
  }
  void operator()(std::span<const Location> items) override {
    constexpr std::size_t ahead = 16, per_epoch = 4096;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i % per_epoch == 0) epoch_.enter();
      if (i + ahead < items.size()) prefetch_read(heap_.at(items[i + ahead]));
      add(items[i], heap_.at(items[i]));
      if (i % per_epoch != per_epoch - 1 && i + 1 != items.size()) continue;
      flush();
      epoch_.exit();
    }
  }

 private:
  // Items with places in the index that are prefetched together.
  static constexpr std::uint32_t strip_items = 16;
  static constexpr std::uint32_t waits_max = 2;
  struct Entry {
    Location location;
    const Item* item;
    Fingerprint fingerprint;
  };
  void add(Location l, const Item* item) {
    const Fingerprint f = fingerprint_of(item->key(), seed_);
    index_.prefetch_guard(f);
    strip_[count_++] = {l, item, f};
    if (count_ == strip_items) flush();
  }
  void flush() {
    for (std::uint32_t i = 0; i < count_; ++i) put(strip_[i]);
    count_ = 0;
  }
  void put(const Entry& e) {
    for (;;) {
      Location loser = no_location;
      {
        const std::uint64_t state = e.item->state_acquire();
        typename I::Guard guard = index_.lock(e.fingerprint);
        const Item* const other = guard.find(e.item->key());
        // Two items of one key: the process was killed after the new one was made live, before the old one was dead.
        if (other != nullptr && is_older(e.item->cas(state), guard.version().cas())) {
          loser = e.location;
        } else if (guard.put(e.location, state) == IndexPut::done) {
          if (other == nullptr) return;
          loser = heap_.location_of(other);
        }
      }
      if (loser != no_location) return heap_.drop(loser);
      if (index_.make_room(e.fingerprint, e.item->key())) {
        waits_ = waits_max;
        continue;
      }
      if (waits_ != 0) {
        --waits_;
        wait_for_memory();
        continue;
      }
      heap_.count_no_room();
      return heap_.drop(e.location);
    }
  }
  // Memory that the index replaced is there again when the epochs have ended. In a full index only the first item that
  // finds no room waits.
  void wait_for_memory() {
    epoch_.exit();
    epochs_.synchronize();
    epoch_.enter();
  }
  // Ids wrap at 44 bits.
  static bool is_older(std::uint64_t a, std::uint64_t b) { return ((a - b) & cas_limit) > cas_limit / 2; }

  HeapRecovery& heap_;
  I& index_;
  EpochDomain& epochs_;
  EpochDomain::Participant epoch_;
  const std::uint64_t seed_;
  std::uint32_t waits_ = waits_max;  // left
  std::uint32_t count_ = 0;
  Entry strip_[strip_items];
};

template <IndexKind I>
constexpr IndexKindRow kind_row(const KindCode& code) noexcept {
  return {
      .code = &code,
      .fixed_entry_bytes =
          [] {
            if constexpr (HasFixedSize<I>) return I::fixed_entry_bytes;
            return std::uint32_t{0};
          }(),
      .cell_bytes =
          [] {
            if constexpr (requires { I::cell_bytes; }) return I::cell_bytes;
            return std::uint32_t{sizeof(std::uint64_t)};
          }(),
      .can_be_ordered = CanBeOrdered<I>,
      .is_always_ordered = AlwaysOrdered<I>,
      .devices_max =
          [] {
            if constexpr (DeviceSearches<I>) return I::devices_max;
            return std::uint32_t{0};
          }(),
      .make = [](const IndexOptions& options, MemoryBudget& budget, EpochDomain& epochs,
                 Heap& heap) -> std::unique_ptr<Index> { return std::make_unique<I>(options, budget, epochs, heap); },
      .make_indexer = [](HeapRecovery& heap, Index& index, EpochDomain& epochs,
                         std::uint64_t hash_seed) -> std::unique_ptr<PageIndexer> {
        return std::make_unique<Indexer<I>>(heap, static_cast<I&>(index), epochs, hash_seed);
      }};
}

}  // namespace tandem
