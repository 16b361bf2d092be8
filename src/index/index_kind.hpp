// What an index is to the tasks. A kind is a final class that does this and derives from Index, for what is not hot:
// the tasks are compiled for each kind, so that a strip's search is a direct call (CacheLib's traits are the model).
// Its keys are the items' own; it holds locations.
//
// Readers: any thread inside an epoch; what they find stays until the epoch ends. Writers: any thread inside an epoch,
// one key at a time, under a Guard, which is the only thing that others wait for.
//
// Optional parts are concepts of their own, and who uses one asks with `requires`.
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

// One writer's hold on one key, in C++'s manner: it ends with the object. CuckooIndex::Guard has the words of each
// call.
//
//   find(key, candidate)   the key's live item, or nullptr
//   find(l)                the item at `l` if it is the key's and live, or nullptr
//   version()              what find() saw of it: items are also rewritten in place, under no guard (item_rewrite.hpp)
//   put(l, live_state)     the item at `l` is the key's from now on, in place of what find() returned
//   erase()                what find() returned is gone; false: it has been rewritten since, and nothing was done
//   update_state(m, bits)  its state word's bits `m`; false likewise
//
// What put() or erase() displaced is dead when they return, and retired by the caller after the guard has ended.
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
//   search_first(f, n, l)   l[i]: a candidate for f[i], or no_location. The caller compares the key, and asks find()
//                           upon a miss. Returns the queries that are left (bit i is f[i]); n <= 32
//   search_second(f, left, l)  those
//   prefetch_guard(f)       hint: what a guard of a key that the index does not have looks at
//   prefetch_stripe(f)      hint: what each guard looks at first
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

// Index::hold() of a kind.
template <class I>
class GuardHold final : public KeyHold {
 public:
  GuardHold(I& index, Fingerprint f) noexcept : guard_(index.lock(f)) {}

 private:
  typename I::Guard guard_;
};

// --- optional: an ordered scan (HeteroKV's trees)

// Keys in the order of their bytes as memcmp has it, a key before those that it begins.
struct ScanRange {
  std::string_view begin;     // the first key, itself included
  std::string_view end = {};  // the first that is not wanted; empty: there is no such
  bool after_begin = false;   // `begin` itself is not wanted: how a scan goes on behind the last key that it returned
};
struct ScanHit {
  Item* item;
  ItemVersion version;  // the words that said live
};
struct ScanResult {
  std::uint32_t count = 0;  // of hits
  bool done = false;        // there was no further key in the range
};

// scan(range, hits): the live items of the range in order, at most hits.size() of them; a result of fewer is `done`.
//
// It is not a snapshot of the range. Each item was the key's and live at some moment of the call; a key that is there,
// with one item or another, from before the call until it returns is returned (up to the last hit), one that is not
// there at any moment of it is not, and none is returned twice. Two calls are two scans: what is written in between may
// be seen by the second alone. So operations on one key are linearizable with scans, and those on several are not.
//
// REQUIRES: the caller is in an epoch, and follows the hits no longer than until it ends; it holds no guard. Waits only
// as find() does, for one key's writer at a time.
template <class I>
concept OrderedScan = IndexKind<I> && requires(const I& index, const ScanRange& range, std::span<ScanHit> hits) {
  { index.scan(range, hits) } noexcept -> std::same_as<ScanResult>;
};

// --- optional: parts that a device does. Each is a static member that names the kernel; its arguments are the kind's
// own. They are launched with a copy of the kind's table in the device's memory.

template <class K>
concept AnyKernel = requires(const K& kernel) { []<class A>(const Kernel<A>&) {}(kernel); };

// device_search: locations of several batches' keys in one launch.
template <class I>
concept DeviceSearches = IndexKind<I> && AnyKernel<decltype(I::device_search)>;
// device_change: adds, replaces and removes cells, where the device's table is the only one.
template <class I>
concept DeviceChanges = DeviceSearches<I> && AnyKernel<decltype(I::device_change)>;
// device_answers: device_search also brings the images of items (index/item_images.hpp).
template <class I>
concept DeviceAnswers = DeviceSearches<I> && requires { requires I::device_answers; };

}  // namespace tandem
