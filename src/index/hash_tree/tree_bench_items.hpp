// For the tree's benchmarks: a million items, and a tree of them.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "base/hash.hpp"
#include "base/ticks.hpp"
#include "heap/cache.hpp"
#include "index/hash_tree/key_tree.hpp"

namespace tandem::tree_bench {

inline constexpr std::uint32_t keys = 1'000'000;
inline constexpr std::uint64_t live = word::State::put(0, static_cast<std::uint64_t>(ItemState::live));

// A million items with random keys; `placed`: side by side in key order in the heap, as after a rewrite by order.
struct Items {
  explicit Items(bool placed)
      : epochs(8),
        budget(std::uint64_t{1} << 30),
        heap({}, budget, epochs),
        cache(heap),
        epoch(epochs),
        location(keys) {
    std::mt19937_64 random(1);
    std::vector<std::uint64_t> number(keys);
    for (std::uint64_t& n : number) n = random();
    if (placed) std::sort(number.begin(), number.end());
    const Heap::Cache::Lock lock(cache);
    for (std::uint32_t i = 0; i < keys; ++i) {
      const std::uint64_t bytes = __builtin_bswap64(number[i]);
      location[i] = heap.allocate(cache, heap.size_class(32), 32);
      Item* const item = heap.format(location[i], {reinterpret_cast<const char*>(&bytes), 8}, 0, 8, 0, 0, false);
      std::memcpy(item->value(), &number[i], 8);
      item->state_word.store(live);
    }
    in_order = location;
    std::sort(in_order.begin(), in_order.end(),
              [this](Location a, Location b) { return heap.at(a)->key() < heap.at(b)->key(); });
    std::shuffle(location.begin(), location.end(), random);
  }

  EpochDomain epochs;
  MemoryBudget budget;
  Heap heap;
  Heap::Cache cache;
  EpochDomain::Participant epoch;
  std::vector<Location> location, in_order;  // in the order of insertion; in key order
};

inline Items& items(bool placed) {
  static std::unique_ptr<Items> both[2];
  if (both[placed] == nullptr) both[placed] = std::make_unique<Items>(placed);
  return *both[placed];
}

template <class Tree>
std::unique_ptr<Tree> make_tree(Items& all, std::uint32_t leaf_cells) {
  return std::make_unique<Tree>(TreeOptions{.shape = {.leaf_cells = leaf_cells}}, all.budget, all.epochs, all.heap);
}

// Returns the longest split's ticks.
template <class Tree>
std::uint64_t add(Items& all, Tree& tree, Location l) {
  const std::string_view key = all.heap.at(l)->key();
  const Fingerprint f = fingerprint_of(key, 1);
  std::uint64_t longest = 0;
  while (!tree.hold(key).add(f, key, l)) {
    const std::uint64_t begin = cycles_now();
    if (!tree.make_room(f, key)) std::abort();
    longest = std::max(longest, cycles_now() - begin);
  }
  return longest;
}

// Returns the ticks of each split, sorted.
template <class Tree>
std::vector<std::uint64_t> add_all(Items& all, Tree& tree) {
  std::vector<std::uint64_t> splits;
  for (std::uint32_t i = 0; i < keys; ++i) {
    if (i % 256 == 0) {
      if (i != 0) all.epoch.exit();
      all.epoch.enter();
    }
    if (const std::uint64_t ticks = add(all, tree, all.location[i]); ticks != 0) splits.push_back(ticks);
  }
  all.epoch.exit();
  std::sort(splits.begin(), splits.end());
  return splits;
}

}  // namespace tandem::tree_bench
