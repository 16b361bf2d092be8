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
#include <span>
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

// --- optional: an ordered scan (HeteroKV's trees)

// Keys in the byte order of memcmp; a key sorts before those that it is a prefix of.
struct ScanRange {
  std::string_view begin;     // the first key, inclusive
  std::string_view end = {};  // the end, exclusive; empty: unbounded
  bool after_begin = false;   // excludes `begin`, to continue a scan behind its last key
};
struct ScanHit {
  Item* item;
  ItemVersion version;  // the words that said live
};
struct ScanResult {
  std::uint32_t count = 0;  // of hits
  bool done = false;        // the range has no further key
};

// scan(range, hits): the live items of the range in order, at most hits.size() of them; a result of fewer is `done`.
//
// It is not a snapshot of the range. Each returned item was the key's and live at some moment of the call. A key that
// is present during the whole call, whichever its item, is returned (up to the last hit); one that is absent during the
// whole call is not; none is returned twice. Two calls are two scans: the second may see writes made in between. So
// operations on one key are linearizable with scans, and those on several are not.
//
// REQUIRES: the caller is in an epoch, and uses the hits only until it ends; it holds no guard. Waits only as find()
// does, for one key's writer at a time.
template <class I>
concept OrderedScan = IndexKind<I> && requires(const I& index, const ScanRange& range, std::span<ScanHit> hits) {
  { index.scan(range, hits) } noexcept -> std::same_as<ScanResult>;
};

// --- optional: operations of a device. Each is a static member that names the kernel; its arguments are the kind's
// own. They are launched with a copy of the kind's table in device memory.

template <class K>
concept AnyKernel = requires(const K& kernel) { []<class A>(const Kernel<A>&) {}(kernel); };

// device_search: locations of several batches' keys in one launch.
template <class I>
concept DeviceSearches = IndexKind<I> && AnyKernel<decltype(I::device_search)>;
// device_change: adds, replaces and removes cells, where the device's table is the only one.
template <class I>
concept DeviceChanges = DeviceSearches<I> && AnyKernel<decltype(I::device_change)>;
// device_answers: device_search also returns the images of items (index/item_images.hpp).
template <class I>
concept DeviceAnswers = DeviceSearches<I> && requires { requires I::device_answers; };

}  // namespace tandem
