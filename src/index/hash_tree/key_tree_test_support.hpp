// For the tests of trees: a heap and a tree of either kind of leaf, and one thread's operations on them. Values are
// numbers.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "heap/cache.hpp"
#include "index/hash_tree/key_tree.hpp"
#include "index/worker_batch_of_test.hpp"

namespace tandem {

using TreePairs = std::vector<std::pair<std::string, std::uint64_t>>;

// What a table beside an OrderTree does: a key's location.
class LocationsOfTest {
 public:
  Location find(std::string_view key) const {
    const std::lock_guard lock(mutex_);
    const auto at = locations_.find(std::string(key));
    return at != locations_.end() ? at->second : no_location;
  }
  void set(std::string_view key, Location l) {
    const std::lock_guard lock(mutex_);
    locations_.insert_or_assign(std::string(key), l);
  }
  void erase(std::string_view key) {
    const std::lock_guard lock(mutex_);
    locations_.erase(std::string(key));
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Location> locations_;
};

template <class Tree>
struct BasicTreeStore {
  static constexpr bool has_cells = std::is_same_v<Tree, HashTree>;

  explicit BasicTreeStore(std::uint32_t leaf_cells = 16, std::uint64_t memory_bytes = std::uint64_t{256} << 20,
                          bool collides = false, std::uint32_t node_children = 16)
      : epochs(32),
        budget(memory_bytes),
        heap({}, budget, epochs),
        tree({.shape = {.leaf_cells = leaf_cells, .node_children = node_children}, .huge_pages = false}, budget, epochs,
             heap),
        collides_(collides) {}

  // collides: few different ones, so that buckets fill up long before their leaf does.
  Fingerprint fingerprint(std::string_view key) const {
    const Fingerprint f = fingerprint_of(key, 7);
    return collides_ ? Fingerprint{f.signature % 5 + 1, f.hash % 3} : f;
  }

  EpochDomain epochs;
  MemoryBudget budget;
  Heap heap;
  Tree tree;
  LocationsOfTest table;  // of a tree without cells

 private:
  bool collides_;
};

template <class Tree>
class BasicTreeWorker {
 public:
  using Store = BasicTreeStore<Tree>;
  using Hold = typename Tree::Hold;

  explicit BasicTreeWorker(BasicTreeStore<Tree>& s) : store(s), epoch(s.epochs), cache(s.heap) {}

  using Pairs = TreePairs;

  using Batch = WorkerBatch<BasicTreeWorker>;

  // False: make_room() found no memory.
  bool set(std::string_view key, std::uint64_t value) {
    const Batch batch(*this);
    const Fingerprint f = store.fingerprint(key);
    const Location now = allocate(key, value);
    Item* const item = store.heap.at(now);
    for (;;) {
      {
        Hold hold = store.tree.hold(key);
        const Location old = find(hold, f, key);
        item->state_word.store(live, std::memory_order_release);
        if (old != no_location) {
          kill(old);
          hold.replace(f, key, old, now);
          if (!Store::has_cells) store.table.set(key, now);
          retire(old);
          return true;
        }
        if (hold.add(f, key, now)) {
          if (!Store::has_cells) store.table.set(key, now);
          return true;
        }
        item->state_word.store(word::State::put(0, static_cast<std::uint64_t>(ItemState::filling)));
      }
      if (!store.tree.make_room(f, key)) {
        const Heap::Cache::Lock lock(cache);
        store.heap.release(cache, now);
        return false;
      }
    }
  }

  bool erase(std::string_view key) {
    const Batch batch(*this);
    const Fingerprint f = store.fingerprint(key);
    Location old = no_location;
    {
      Hold hold = store.tree.hold(key);
      old = find(hold, f, key);
      if (old == no_location) return false;
      kill(old);
      hold.remove(f, key, old);
      if (!Store::has_cells) store.table.erase(key);
    }
    retire(old);
    return true;
  }

  std::optional<std::uint64_t> get(std::string_view key)
    requires(!Store::has_cells)
  {
    const std::string end = std::string(key) + '\0';
    bool is_snapshot = false;
    const Pairs found = scan({.begin = key, .end = end}, 1, nullptr, &is_snapshot);
    return !found.empty() ? std::optional(found.front().second) : std::nullopt;
  }
  std::optional<std::uint64_t> get(std::string_view key)
    requires Store::has_cells
  {
    const Batch batch(*this);
    std::optional<std::uint64_t> value;
    store.tree.find(store.fingerprint(key), key, [&](Location l) {
      ItemVersion seen;
      if (!is_live_item_of(store.heap.at(l), key, seen)) return false;
      value = value_of(store.heap.at(l));
      return true;
    });
    return value;
  }

  // One scan. is_snapshot: the stamp's word; nullptr: a stamp that changes is an error.
  Pairs scan(const ScanRange& range, std::uint32_t limit, bool* is_done = nullptr, bool* is_snapshot = nullptr) {
    const Batch batch(*this);
    ScanCopies copies(limit);
    const ScanResult result = store.tree.scan(range, limit, copies, stamp);
    Pairs pairs;
    for (std::uint32_t i = 0; i < result.count; ++i)
      pairs.emplace_back(copies.item(i)->key(), value_of(copies.item(i)));
    if (is_done != nullptr) *is_done = result.done;
    if (is_snapshot != nullptr) {
      *is_snapshot = stamp.is_unchanged();
    } else {
      TD_ASSERT(stamp.is_unchanged());
    }
    return pairs;
  }

  // For scans of all kinds from and to these keys.
  void prefetch_scans(std::string_view begin, std::string_view end) {
    const Batch batch(*this);
    const ScanRange ranges[] = {
        {.begin = begin, .end = end}, {.begin = begin, .end = end, .reverse = true}, {.reverse = true}, {}};
    std::vector<ScanStart> starts;
    for (const std::uint32_t limit : {1u, 40u, 1024u}) {
      for (const ScanRange& range : ranges) starts.push_back({.range = range, .limit = limit});
    }
    ScansAhead ahead;
    store.tree.prefetch_scans(starts, ahead);
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (ahead.scans[i].count > std::min(starts[i].limit, ScansAhead::items_max)) std::abort();
    }
  }

  // Scans until the range has no further key.
  Pairs scan_all(ScanRange range, std::uint32_t limit, bool* is_snapshot = nullptr) {
    const Batch batch(*this);
    Pairs all;
    std::string last;
    bool is_done = false, is_whole = true;
    while (!is_done) {
      bool page_is_snapshot = false;
      Pairs page = scan(range, limit, &is_done, is_snapshot != nullptr ? &page_is_snapshot : nullptr);
      if (all.size() + page.size() > all.size() && !is_done) is_whole = false;
      if (is_snapshot != nullptr) *is_snapshot = page_is_snapshot && is_whole;
      TD_ASSERT(is_done || !page.empty());
      for (auto& pair : page) all.push_back(std::move(pair));
      if (is_done) break;
      last = all.back().first;
      if (range.reverse) {
        range.end = last;
      } else {
        range.begin = last;
        range.after_begin = true;
      }
    }
    return all;
  }

  // Takes the heap's memory for so many items with keys of this length.
  void reserve_items(std::uint32_t count, std::string_view key) {
    std::vector<Location> all;
    for (std::uint32_t i = 0; i < count; ++i) all.push_back(allocate(key, 0));
    const Heap::Cache::Lock lock(cache);
    for (const Location l : all) store.heap.release(cache, l);
  }

  bool is_correct() {
    const Batch batch(*this);
    return store.tree.is_correct();
  }

  static constexpr std::uint64_t live = word::State::put(0, static_cast<std::uint64_t>(ItemState::live));

  Store& store;
  EpochDomain::Participant epoch;
  Heap::Cache cache;
  ScanStamp stamp;

 private:
  friend Batch;
  static std::uint64_t value_of(const Item* item) {
    std::uint64_t value = 0;
    std::memcpy(&value, item->value(), sizeof value);
    return value;
  }
  Location find(const Hold& hold, Fingerprint f, std::string_view key) {
    if constexpr (Store::has_cells) {
      return hold.find(f, [&](Location l) { return store.heap.at(l)->has_key(key); });
    } else {
      return store.table.find(key);
    }
  }
  void kill(Location l) {
    store.heap.at(l)->state_word.store(word::State::put(live, static_cast<std::uint64_t>(ItemState::dead)),
                                       std::memory_order_release);
  }
  Location allocate(std::string_view key, std::uint64_t value) {
    const std::uint64_t bytes = Item::total_bytes(0, key.size(), sizeof value);
    const Heap::Cache::Lock lock(cache);
    const Location l = store.heap.allocate(cache, store.heap.size_class(bytes), bytes);
    TD_ASSERT(l != no_location);
    Item* const item = store.heap.format(l, key, 0, sizeof value, 0, 0, false);
    std::memcpy(item->value(), &value, sizeof value);
    return l;
  }
  void retire(Location l) {
    const Heap::Cache::Lock lock(cache);
    store.heap.retire(cache, l);
  }

  int depth_ = 0;
};

}  // namespace tandem
