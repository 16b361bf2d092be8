// The concept of an index, as the tasks use it. A kind is a final class that satisfies it and, for all that is not hot,
// derives from Index. The tasks are compiled for each kind, so that a strip's search is a direct call (CacheLib's
// traits are the model). Its keys are the items' own; it holds locations.
//
// Readers: any thread inside an epoch; items that they find stay valid until the epoch ends. Writers: any thread inside
// an epoch, one key at a time, under a Guard, which is the only thing that other threads wait for.
//
// Optional parts are separate concepts; code that uses one checks for it with `requires`.
#pragma once
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "base/epoch.hpp"
#include "base/fingerprint.hpp"
#include "base/memory_budget.hpp"
#include "device/kernel.hpp"
#include "heap/cache.hpp"
#include "heap/heap.hpp"
#include "heap/item.hpp"
#include "heap/item_rewrite.hpp"
#include "index/change_log.hpp"
#include "index/index.hpp"

namespace tandem {

// One writer's hold on one key, by RAII. CuckooIndex::Guard documents each call.
//
//   find(key, candidate)   the key's live item, or nullptr
//   find(l)                the item at `l` if it is the key's and live, or nullptr
//   version()              the words that find() read: a set in place takes no guard (item_rewrite.hpp)
//   put(l, live_state)     makes the item at `l` the key's, in place of the one that find() returned
//   erase()                removes the item that find() returned; false: it was rewritten since, and nothing was done
//   update_state(m, bits)  sets its state word's bits `m`; false likewise
//
// What put() or erase() displaced is dead when they return. The caller retires it after the guard has ended.
template <class G>
concept IndexGuard = requires(G& guard, std::string_view key, Location l, std::uint64_t word) {
  { guard.find(key, l) } noexcept -> std::same_as<Item*>;
  { guard.find(l) } noexcept -> std::same_as<Item*>;
  { guard.put(l, word) } noexcept -> std::same_as<IndexPut>;
  { guard.version() } noexcept -> std::convertible_to<ItemVersion>;
  { guard.erase() } noexcept -> std::same_as<bool>;
  { guard.update_state(word, word) } noexcept -> std::same_as<bool>;
};

// Optional: change_item(change) announces in the index's log that the item which find() returned changes, and calls
// change(), which says whether it has changed it. rewrite_item(change) gives change(slot) an ImageSlot for the item's
// new image first; where there is none it is change_item().
template <class G>
concept AnnouncingGuard =
    IndexGuard<G> && requires(G& guard, bool (*change)() noexcept, bool (*rewrite)(const ImageSlot&) noexcept) {
      { guard.change_item(change) } noexcept -> std::same_as<bool>;
      { guard.rewrite_item(rewrite) } noexcept -> std::same_as<bool>;
    };

//   prefetcher()(f)         hints for a strip, outside an epoch
//   search_first(f, n, l)   l[i]: a candidate for f[i], or no_location. The caller compares the key, and calls find()
//                           upon a miss. Returns the queries that remain (bit i is f[i]); n <= 32
//   search_second(f, left, l)  searches those
//   prefetch_guard(f)       hint: what a guard of an absent key reads
//   prefetch_stripe(f)      hint: what each guard reads first
//   for_each_location(f)    every item of the index, for recovery, tests and tools. REQUIRES: an epoch, or no growth
template <class I>
concept IndexKind =
    std::derived_from<I, Index> && IndexGuard<typename I::Guard> &&
    requires(I& index, const I& seen, Fingerprint f, const Fingerprint* strip, std::uint32_t n, Location* found,
             std::string_view key, ItemVersion& version, Location l, void (*each)(Location)) {
      { I::kind } -> std::convertible_to<std::string_view>;
      { seen.prefetcher()(f) } noexcept;
      { seen.search_first(strip, n, found) } noexcept -> std::same_as<std::uint32_t>;
      { seen.search_second(strip, n, found) } noexcept;
      { seen.find(f, key, version, l) } noexcept -> std::same_as<Item*>;
      { seen.prefetch_stripe(f) } noexcept;
      { seen.prefetch_guard(f) } noexcept;
      { index.lock(f) } noexcept -> std::same_as<typename I::Guard>;
      seen.for_each_location(each);
    } &&
    std::is_constructible_v<I, const IndexOptions&, MemoryBudget&, EpochDomain&, Heap&>;

// Index::hold() for a kind.
template <class I>
class GuardHold final : public KeyHold {
 public:
  GuardHold(I& index, Fingerprint f) noexcept : guard_(index.lock(f)) {}

 private:
  typename I::Guard guard_;
};

// --- optional: a search needs the keys (HeteroKV)

//   locate(f, key)              where the key's cells lie, which are prefetched: a hint for the same epoch
//   candidate_at(place, f)      as search_first() for one, and prefetches the item
template <class I>
concept SearchesByKey =
    IndexKind<I> && requires(const I& seen, Fingerprint f, std::string_view key, const void* place) {
      { seen.locate(f, key) } noexcept -> std::same_as<const void*>;
      { seen.candidate_at(place, f) } noexcept -> std::same_as<Location>;
    };

// --- optional: a set of entries evicts one of its own for a new key (MemcachedGPU)

//   guard.has_room()     whether put() of a new key finds a free entry
//   guard.find_victim()  after find() returned nullptr, in its place: the item that has to go for the guard's key,
//   which
//                        erase() then evicts; nullptr: there is none
template <class I>
concept EvictsFromSet = IndexKind<I> && requires(typename I::Guard& guard) {
  { guard.has_room() } noexcept -> std::same_as<bool>;
  { guard.find_victim() } noexcept -> std::same_as<Item*>;
};

//   stamp_now()             of the entries' clock, read once a strip
//   note_access(f, l, now)  a hit on the item at `l`
template <class I>
concept StampsAccesses = IndexKind<I> && requires(const I& index, Fingerprint f, Location l, std::uint32_t now) {
  { index.stamp_now() } noexcept -> std::same_as<std::uint32_t>;
  { index.note_access(f, l, now) } noexcept;
};

// A kind with a table that keeps its initial size: as many entries of so many bytes as the memory limit has use for.
template <class I>
concept HasFixedSize = IndexKind<I> && requires { requires I::fixed_entry_bytes != 0; };

// A kind that keeps its keys in order, too, if IndexOptions::ordered says so; or in any case.
template <class I>
concept CanBeOrdered = IndexKind<I> && requires { requires I::can_be_ordered; };
template <class I>
concept AlwaysOrdered = CanBeOrdered<I> && requires { requires I::is_always_ordered; };

// --- optional: operations of a device. Each is a static member that names the kernel; its arguments are the kind's
// own. They are launched with a copy of the kind's table in device memory.

template <class K>
concept AnyKernel = requires(const K& kernel) { []<class A>(const Kernel<A>&) {}(kernel); };

// device_search: locations of several batches' keys in one launch, on as many devices, each of which has a shard.
template <class I>
concept DeviceSearches =
    IndexKind<I> && AnyKernel<decltype(I::device_search)> && requires { requires I::devices_max >= 1; };
// device_change: adds, replaces and removes cells, where the device's table is the only one.
template <class I>
concept DeviceChanges = DeviceSearches<I> && AnyKernel<decltype(I::device_change)>;

}  // namespace tandem
