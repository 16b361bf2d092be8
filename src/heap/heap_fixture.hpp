// Shared by the heap's tests: a heap with its budget and epochs, and items that can verify their bytes.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heap/heap.hpp"

namespace tandem {

inline constexpr std::uint64_t mib = std::uint64_t{1} << 20;

// splitmix64 (Steele, Lea, Flood 2014).
class TestRandom {
 public:
  explicit TestRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  // Between low and high, distributed log-uniformly.
  std::uint64_t size_between(std::uint64_t low, std::uint64_t high) {
    const std::uint64_t top = low << below(64);
    return std::clamp(low + below((top > low && top <= high ? top : high) - low + 1), low, high);
  }

 private:
  std::uint64_t state_;
};

struct TestHeap {
  explicit TestHeap(std::uint64_t budget_bytes, HeapOptions options = {}, std::uint32_t participants = 64)
      : budget(budget_bytes), epochs(participants), heap(options, budget, epochs) {}

  MemoryBudget budget;
  EpochDomain epochs;
  Heap heap;
};

// One worker: a cache and a place among the epochs.
struct TestWorker {
  explicit TestWorker(TestHeap& t) : heap(t.heap), cache(t.heap), epoch(t.epochs) {}

  Location allocate(std::uint64_t item_bytes) {
    const Heap::Cache::Lock lock(cache);
    return heap.allocate(cache, heap.size_class(item_bytes), item_bytes);
  }
  // A live item of `item_bytes` in total, its value filled from `seed`.
  Location make(std::uint64_t item_bytes, std::uint64_t seed = 0) {
    const Location l = allocate(item_bytes);
    if (l != no_location) fill(l, item_bytes, seed);
    return l;
  }
  void fill(Location l, std::uint64_t item_bytes, std::uint64_t seed) const {
    Item* item = heap.format(l, "", 0, item_bytes - sizeof(Item), 0, 0, false);
    for_sample(item_bytes - sizeof(Item), [&](std::uint64_t i) { item->value()[i] = byte_of(seed, i); });
    set_live(heap, l);
  }
  bool is_intact(Location l, std::uint64_t item_bytes, std::uint64_t seed) const {
    const Item* item = heap.at(l);
    if (heap.value_bytes(item) != item_bytes - sizeof(Item)) return false;
    bool intact = true;
    for_sample(item_bytes - sizeof(Item),
               [&](std::uint64_t i) { intact = intact && item->value()[i] == byte_of(seed, i); });
    return intact;
  }
  void retire(Location l) {
    const Heap::Cache::Lock lock(cache);
    set_state(heap, l, ItemState::dead);
    heap.retire(cache, l);
  }
  void release(Location l) {
    const Heap::Cache::Lock lock(cache);
    set_state(heap, l, ItemState::filling);
    heap.release(cache, l);
  }
  std::size_t reclaim() {
    const Heap::Cache::Lock lock(cache);
    return heap.reclaim(cache);
  }
  // Stamps what is retired and reclaims it, unless an epoch prevents that.
  std::size_t flush() {
    const Heap::Cache::Lock lock(cache);
    return heap.reclaim_all(cache);
  }

  static void set_state(const Heap& heap, Location l, ItemState state) {
    std::atomic<std::uint64_t>& word = heap.at(l)->state_word;
    word.store(word::State::put(word.load(std::memory_order_relaxed), static_cast<std::uint64_t>(state)),
               std::memory_order_release);
  }
  static void set_live(const Heap& heap, Location l) { set_state(heap, l, ItemState::live); }
  static void set_accessed(const Heap& heap, Location l) {
    heap.at(l)->state_word.fetch_or(word::Accessed::mask, std::memory_order_relaxed);
  }
  static bool is_accessed(const Heap& heap, Location l) {
    return word::Accessed::get(heap.at(l)->state_word.load(std::memory_order_relaxed)) != 0;
  }

  Heap& heap;
  Heap::Cache cache;
  EpochDomain::Participant epoch;

 private:
  static char byte_of(std::uint64_t seed, std::uint64_t i) {
    return static_cast<char>((seed + 1) * 0x9e3779b97f4a7c15U >> (i % 7 * 8));
  }
  // Both ends and a few bytes of every 4 KiB.
  template <class F>
  static void for_sample(std::uint64_t bytes, F f) {
    constexpr std::uint64_t dense = 64;
    for (std::uint64_t i = 0; i < std::min(bytes, dense); ++i) f(i);
    for (std::uint64_t i = dense; i + dense < bytes; i += 1021) f(i);
    for (std::uint64_t i = bytes > 2 * dense ? bytes - dense : std::min(bytes, dense); i < bytes; ++i) f(i);
  }
};

inline std::uint64_t slots_retired(const ClassStats& s) { return s.slots_total - s.slots_used - s.slots_free; }

}  // namespace tandem
