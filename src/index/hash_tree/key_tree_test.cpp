// Trees of either kind of leaf against a sorted map: one thread, random binary keys, all borders of a scan.
#include "index/hash_tree/key_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>

#include "index/hash_tree/key_tree_test_support.hpp"

namespace tandem {
namespace {

using Model = std::map<std::string, std::uint64_t>;

constexpr int steps = is_sanitized ? 8'000 : 40'000;

// Any bytes, 0 and 0xff often; many share long beginnings or are other keys' beginnings.
std::string random_key(std::mt19937_64& random) {
  static constexpr char often[] = {'\0', '\xff', 'a', '\x7f', '\x80'};
  std::string key(1 + (random() % 4 == 0 ? random() % 250 : random() % 6), '\0');
  const char filler = often[random() % 5];
  const bool is_even = random() % 2 == 0;
  for (char& c : key) c = is_even ? filler : often[random() % 5];
  if (random() % 2 == 0) key.back() = static_cast<char>(random());
  return key;
}

TreePairs model_scan(const Model& model, const ScanRange& range, std::size_t limit) {
  TreePairs pairs;
  const auto add = [&](const auto& pair) {
    if (!range.is_below(pair.first) && !range.is_above(pair.first) && pairs.size() < limit) pairs.push_back(pair);
  };
  if (range.reverse) {
    std::for_each(model.rbegin(), model.rend(), add);
  } else {
    std::for_each(model.begin(), model.end(), add);
  }
  return pairs;
}

template <class W>
void expect_scan(W& worker, const Model& model, const ScanRange& range, std::uint32_t limit) {
  bool is_done = false;
  const auto found = worker.scan(range, limit, &is_done);
  const auto wanted = model_scan(model, range, limit);
  if (is_done || found.size() == limit) {
    ASSERT_EQ(found, wanted);
  } else {
    ASSERT_EQ(found, TreePairs(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(found.size())));
    ASSERT_FALSE(found.empty());
  }
  if (is_done) {
    ASSERT_EQ(found.size(), model_scan(model, range, model.size() + 1).size());
  }
}

struct Shape {
  std::uint32_t leaf_cells;
  bool collides;
  std::uint32_t node_children;
};
class HashTreeModel : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Leaves, HashTreeModel,
                         testing::Values(Shape{16, false, 8}, Shape{32, false, 32}, Shape{16, true, 256},
                                         Shape{16, false, 256}, Shape{512, false, 256}));
class OrderTreeModel : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Leaves, OrderTreeModel,
                         testing::Values(Shape{16, false, 8}, Shape{32, false, 32}, Shape{64, false, 256},
                                         Shape{512, false, 256}));

template <class Tree>
void expect_sorted_map(const Shape& shape) {
  BasicTreeStore<Tree> store(shape.leaf_cells, std::uint64_t{256} << 20, shape.collides, shape.node_children);
  BasicTreeWorker worker(store);
  Model model;
  std::mt19937_64 random(shape.leaf_cells + shape.collides + shape.node_children);
  std::vector<std::string> known;
  const auto any_key = [&] {
    return known.empty() || random() % 3 == 0 ? random_key(random) : known[random() % known.size()];
  };
  for (int step = 0; step < steps; ++step) {
    // Phases of growth and of decline.
    const bool shrinks = step / (steps / 6) % 2 == 1;
    const std::string key = any_key();
    const std::uint64_t action = random() % 16;
    if (action < (shrinks ? 8u : 2u)) {
      ASSERT_EQ(worker.erase(key), model.erase(key) == 1);
    } else if (action < 12) {
      const std::uint64_t value = random();
      ASSERT_TRUE(worker.set(key, value));
      if (model.insert_or_assign(key, value).second) known.push_back(key);
    } else if (action < 15) {
      const auto found = worker.get(key);
      ASSERT_EQ(found.has_value(), model.contains(key));
      if (found) {
        ASSERT_EQ(*found, model[key]);
      }
    } else {
      const std::string begin = any_key(), end = any_key();
      const std::uint64_t form = random();
      ASSERT_NO_FATAL_FAILURE(expect_scan(worker, model,
                                          {.begin = form % 4 == 0 ? std::string_view() : begin,
                                           .end = form / 4 % 4 == 0 ? std::string_view() : end,
                                           .after_begin = form / 16 % 2 == 0,
                                           .reverse = form / 32 % 2 == 0},
                                          static_cast<std::uint32_t>(1 + random() % 300)));
    }
    if (step % 1000 == 0) {
      ASSERT_TRUE(worker.is_correct()) << step;
    }
  }
  EXPECT_TRUE(worker.is_correct());
  EXPECT_EQ(store.tree.item_count(), model.size());
  const TreePairs all(model.begin(), model.end());
  EXPECT_EQ(worker.scan_all({}, 1000), all);
  EXPECT_EQ(worker.scan_all({}, 3), all);
  EXPECT_EQ(worker.scan_all({.reverse = true}, 7), TreePairs(all.rbegin(), all.rend()));
  EXPECT_GT(store.tree.splits(), 0u);
  if constexpr (BasicTreeStore<Tree>::has_cells) {
    std::set<Location> seen;
    const typename BasicTreeWorker<Tree>::Batch batch(worker);
    store.tree.for_each_location([&](Location l) { EXPECT_TRUE(seen.insert(l).second); });
    EXPECT_EQ(seen.size(), model.size());
  }
}
TEST_P(HashTreeModel, IsASortedMap) { expect_sorted_map<HashTree>(GetParam()); }
TEST_P(OrderTreeModel, IsASortedMap) { expect_sorted_map<OrderTree>(GetParam()); }

template <class Tree>
class TreeOfKind : public testing::Test {};
using TreeKinds = testing::Types<HashTree, OrderTree>;
TYPED_TEST_SUITE(TreeOfKind, TreeKinds, );

// A scan that begins, ends and is cut at every key, and beside it.
TYPED_TEST(TreeOfKind, ScansFromEveryKeyToEveryKey) {
  BasicTreeStore<TypeParam> store(16);
  BasicTreeWorker worker(store);
  Model model;
  for (int i = 0; i < 60; ++i) {
    const std::string key = "k" + std::string(1, static_cast<char>(i * 4));
    ASSERT_TRUE(worker.set(key, static_cast<std::uint64_t>(i)));
    model[key] = static_cast<std::uint64_t>(i);
  }
  EXPECT_GT(store.tree.leaf_count(), 3u);
  std::vector<std::string> borders{"", std::string(1, '\0'), "z"};
  for (const auto& [key, value] : model) {
    borders.push_back(key);
    borders.push_back(key + std::string(1, '\0'));
  }
  constexpr std::size_t step = is_sanitized ? 3 : 1;
  for (std::size_t i = 0; i < borders.size(); i += step) {
    for (std::size_t k = 0; k < borders.size(); k += step) {
      const std::string &begin = borders[i], &end = borders[k];
      for (unsigned form = 0; form < 4; ++form) {
        const ScanRange range{.begin = begin, .end = end, .after_begin = form % 2 == 1, .reverse = form / 2 == 1};
        ASSERT_NO_FATAL_FAILURE(expect_scan(worker, model, range, 1000));
        ASSERT_NO_FATAL_FAILURE(expect_scan(worker, model, range, 1));
      }
    }
  }
  EXPECT_EQ(worker.scan({}, 60).size(), 60u);
  bool is_done = false;
  worker.scan({}, 60, &is_done);
  EXPECT_TRUE(is_done);
  worker.scan({}, 59, &is_done);
  EXPECT_FALSE(is_done);
}

std::string sharing_key(int i) {
  return std::string(248, 'x') + static_cast<char>(i / 256) + static_cast<char>(i % 256);
}

// Of keys that differ in their last two bytes only, and in any order of insertion, no leaf stays as good as empty.
TYPED_TEST(TreeOfKind, SplitsKeysThatShareNearlyAllBytes) {
  for (const int order : {0, 1, 2}) {
    BasicTreeStore<TypeParam> store(32, std::uint64_t{256} << 20, false, 256);
    BasicTreeWorker worker(store);
    constexpr int keys = 2000;
    std::vector<int> numbers(keys);
    for (int i = 0; i < keys; ++i) numbers[static_cast<std::size_t>(i)] = order == 1 ? keys - 1 - i : i;
    if (order == 2) std::shuffle(numbers.begin(), numbers.end(), std::mt19937(1));
    for (const int i : numbers) ASSERT_TRUE(worker.set(sharing_key(i), static_cast<std::uint64_t>(i)));
    EXPECT_TRUE(worker.is_correct());
    const auto all = worker.scan_all({}, 100);
    ASSERT_EQ(all.size(), static_cast<std::size_t>(keys));
    for (int i = 0; i < keys; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)].first, sharing_key(i));
    EXPECT_LT(store.tree.leaf_count(), keys / 8u) << order;
  }
}

// What all keys begin with is as long as what a node's first line has of it, or a little shorter or longer, and has
// zeros; other keys are shorter than that, or beside it.
TYPED_TEST(TreeOfKind, FindsKeysBesideAPrefixOfAnyLength) {
  for (std::size_t length = 0; length <= 20; ++length) {
    for (const char fill : {'\0', 'm'}) {
      BasicTreeStore<TypeParam> store(16, std::uint64_t{64} << 20, false, 8);
      BasicTreeWorker worker(store);
      std::map<std::string, std::uint64_t> model;
      const std::string prefix(length, fill);
      const auto set = [&](const std::string& key) {
        ASSERT_TRUE(worker.set(key, model.size()));
        model.emplace(key, model.size());
      };
      for (int i = 0; i < 600; ++i) set(prefix + static_cast<char>(i / 256) + static_cast<char>(i % 256));
      EXPECT_TRUE(worker.is_correct());
      for (std::size_t shorter = 1; shorter < length; ++shorter) set(prefix.substr(0, shorter));
      for (std::size_t at = 0; at < length; ++at) {
        for (const int beside : {-1, 1}) {
          std::string key = prefix + 'x';
          key[at] = static_cast<char>(key[at] + beside);
          set(key);
        }
      }
      EXPECT_TRUE(worker.is_correct());
      EXPECT_EQ(worker.scan_all({}, 50), TreePairs(model.begin(), model.end()));
      for (const auto& [key, value] : model) {
        ASSERT_EQ(worker.get(key), value);
        const auto above = worker.scan_all({.begin = key, .end = key + '\0'}, 10);
        ASSERT_EQ(above, (TreePairs{{key, value}}));
        worker.prefetch_scans(key, prefix);
      }
    }
  }
}

// Kinds of keys that have nothing in common, and within one kind two that share what its heads and tails hold.
TYPED_TEST(TreeOfKind, TellsKindsOfKeysApart) {
  for (const std::uint32_t node_children : {8u, 64u, 256u}) {
    BasicTreeStore<TypeParam> store(16, std::uint64_t{256} << 20, false, node_children);
    BasicTreeWorker worker(store);
    std::map<std::string, std::uint64_t> model;
    std::mt19937 random(node_children);
    const char* const kinds[] = {"user:", "users:", "user:name:", "item:", "it", "\xff\xff\xff\xff\xff", "user"};
    for (int i = 0; i < 6000; ++i) {
      std::string key = kinds[random() % std::size(kinds)] + std::to_string(random() % 100'000);
      if (random() % 4 == 0) key.insert(4, std::string(random() % 6, '\0'));
      if (random() % 16 == 0) key.append(230 - random() % 9, 'x');
      ASSERT_TRUE(worker.set(key, static_cast<std::uint64_t>(i)));
      model[key] = static_cast<std::uint64_t>(i);
    }
    EXPECT_TRUE(worker.is_correct());
    EXPECT_EQ(worker.scan_all({}, 100), TreePairs(model.begin(), model.end()));
    for (const auto& [key, value] : model) {
      ASSERT_EQ(worker.get(key), value);
      ASSERT_EQ(worker.get(key + '\0'), std::nullopt);
    }
    while (!model.empty()) {
      ASSERT_TRUE(worker.erase(model.begin()->first));
      model.erase(model.begin());
    }
    EXPECT_EQ(store.tree.item_count(), 0u);
  }
}

TYPED_TEST(TreeOfKind, MergesLeavesOfRemovedKeysAndScansPastThem) {
  BasicTreeStore<TypeParam> store(16);
  BasicTreeWorker worker(store);
  constexpr int keys = 20'000;
  const auto key_of = [](int i) {
    std::string key = std::to_string(i);
    return std::string(6 - key.size(), '0') + key;
  };
  for (int i = 0; i < keys; ++i) ASSERT_TRUE(worker.set(key_of(i), 1));
  const std::uint64_t leaves = store.tree.leaf_count();
  EXPECT_GT(leaves, 1000u);
  for (int i = 1; i < keys - 1; ++i) ASSERT_TRUE(worker.erase(key_of(i)));
  // More empty leaves in between than a stamp has words.
  bool is_done = false;
  EXPECT_EQ(worker.scan({.begin = key_of(1)}, 10, &is_done), (TreePairs{{key_of(keys - 1), 1}}));
  EXPECT_TRUE(is_done);
  EXPECT_EQ(worker.scan_all({.reverse = true}, 10), (TreePairs{{key_of(keys - 1), 1}, {key_of(0), 1}}));
  EXPECT_GT(store.tree.merges(), leaves / 2);
  EXPECT_TRUE(worker.is_correct());
  EXPECT_EQ(worker.get(key_of(0)), 1u);
}

TYPED_TEST(TreeOfKind, GrowsByMergingWhatHasBecomeEmpty) {
  BasicTreeStore<TypeParam> store(16);
  BasicTreeWorker worker(store);
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(worker.set(sharing_key(i), 1));
  while (store.tree.wants_growth()) ASSERT_TRUE(store.tree.grow());
  const std::uint64_t leaves = store.tree.leaf_count(), bytes = store.tree.bytes();
  for (int i = 0; i < 5000; ++i) {
    if (i % 50 != 0) {
      ASSERT_TRUE(worker.erase(sharing_key(i)));
    }
  }
  EXPECT_TRUE(store.tree.wants_growth());
  ASSERT_TRUE(store.tree.grow());
  EXPECT_FALSE(store.tree.wants_growth());
  EXPECT_LT(store.tree.leaf_count(), leaves / 10);
  EXPECT_TRUE(worker.is_correct());
  EXPECT_EQ(worker.scan_all({}, 10).size(), 100u);
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(worker.set(sharing_key(i), 2));
  EXPECT_LE(store.tree.bytes(), 2 * bytes) << "ascending keys were packed, and these fill gaps";
}

TYPED_TEST(TreeOfKind, LeavesThatAreShortComeFromThoseThatFell) {
  using State = Index::LeafSupply::State;
  BasicTreeStore<TypeParam> store(16, std::uint64_t{8} << 20);
  BasicTreeWorker worker(store);
  int n = 0;
  for (; n < 1000; ++n) ASSERT_TRUE(worker.set(sharing_key(n), 1));
  worker.reserve_items(5100, sharing_key(0));
  while (store.tree.wants_growth()) ASSERT_TRUE(store.tree.grow());
  EXPECT_EQ(store.tree.leaf_supply().state, State::enough);
  EXPECT_EQ(store.tree.merge_fallen(), 0u);
  store.budget.set_limit(store.budget.used_bytes());
  while (n < 5000 && worker.set(sharing_key(n), 1)) ++n;
  ASSERT_LT(n, 5000);
  EXPECT_EQ(store.tree.leaf_supply().state, State::none);
  EXPECT_GE(store.tree.leaf_supply().leaf_items, 8u);
  EXPECT_GT(store.tree.take_unpaid_leaves(), 0u);
  EXPECT_EQ(store.tree.take_unpaid_leaves(), 0u);
  EXPECT_EQ(store.tree.merge_fallen(), 0u) << "all are full";
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(worker.erase(sharing_key(i)));
  std::uint32_t merged = 0;
  // Each merge takes the last leaf; two come back when the epoch has ended.
  for (int turn = 0; turn < 100; ++turn) merged += store.tree.merge_fallen();
  EXPECT_GE(merged, 2u);
  EXPECT_NE(store.tree.leaf_supply().state, State::none);
  EXPECT_TRUE(worker.set(sharing_key(n), 1));
  EXPECT_TRUE(worker.is_correct());
}

TYPED_TEST(TreeOfKind, SaysWhenThereIsNoMemoryAndGoesOnOnceThereIs) {
  BasicTreeStore<TypeParam> store(16, std::uint64_t{8} << 20);
  BasicTreeWorker worker(store);
  ASSERT_TRUE(worker.set("a", 1));
  worker.reserve_items(5100, sharing_key(0));
  store.budget.set_limit(store.budget.used_bytes());
  int n = 0;
  while (n < 5000 && worker.set(sharing_key(n), 1)) ++n;
  ASSERT_LT(n, 5000);
  EXPECT_GT(n, 8);
  EXPECT_TRUE(store.tree.wants_growth());
  EXPECT_FALSE(store.tree.grow());
  EXPECT_EQ(worker.get(sharing_key(n)), std::nullopt);
  {
    // One of the candidates makes room for the key.
    const typename BasicTreeWorker<TypeParam>::Batch batch(worker);
    Location some[TypeParam::candidates_max];
    const std::uint32_t count = store.tree.candidates(store.fingerprint(sharing_key(n)), sharing_key(n), some);
    ASSERT_GE(count, 8u);
    const std::string victim(store.heap.at(some[count / 2])->key());
    ASSERT_TRUE(worker.erase(victim));
    EXPECT_TRUE(worker.set(sharing_key(n), 1));
    EXPECT_EQ(worker.get(victim), std::nullopt);
  }
  store.budget.set_limit(std::uint64_t{8} << 20);
  ASSERT_TRUE(store.tree.grow());
  EXPECT_FALSE(store.tree.wants_growth());
  for (int i = n; i < 5000; ++i) ASSERT_TRUE(worker.set(sharing_key(i), 1)) << i;
  EXPECT_TRUE(worker.is_correct());
}

TYPED_TEST(TreeOfKind, IsChargedToTheBudgetAndReturnsAllOfIt) {
  EpochDomain epochs(8);
  MemoryBudget budget(std::uint64_t{64} << 20);
  Heap heap({}, budget, epochs);
  const std::uint64_t without = budget.used_bytes();
  {
    auto tree = std::make_unique<TypeParam>(TreeOptions{.shape = {.leaf_cells = 16}}, budget, epochs, heap);
    EXPECT_EQ(budget.used_bytes(), without + tree->bytes());
    Heap::Cache cache(heap);
    EpochDomain::Participant epoch(epochs);
    const std::uint64_t of_tree = tree->bytes();
    std::vector<Location> all;
    for (int i = 0; i < 3000; ++i) {
      epoch.enter();
      const std::string key = sharing_key(i * 7 % 3000);
      const Fingerprint f = fingerprint_of(key, 7);
      {
        const Heap::Cache::Lock lock(cache);
        all.push_back(heap.allocate(cache, heap.size_class(300), 300));
      }
      heap.format(all.back(), key, 0, 8, 0, 0, false)->state_word.store(BasicTreeWorker<TypeParam>::live);
      while (!tree->hold(key).add(f, key, all.back())) ASSERT_TRUE(tree->make_room(f, key));
      epoch.exit();
    }
    EXPECT_GT(tree->bytes(), of_tree + 100'000);
    EXPECT_GT(tree->splits(), 100u);
    const std::uint64_t with = budget.used_bytes(), its = tree->bytes();
    tree.reset();
    EXPECT_EQ(budget.used_bytes(), with - its);
  }
  MemoryBudget none(1000);
  EXPECT_THROW(TypeParam({.shape = {.leaf_cells = 512}}, none, epochs, heap), std::bad_alloc);
  EXPECT_EQ(none.used_bytes(), 0u);
  EXPECT_THROW(TypeParam({.shape = {.leaf_cells = 24}}, budget, epochs, heap), std::invalid_argument);
  for (const std::uint32_t children : {InnerTree::children_min - 1, InnerTree::children_max + 1}) {
    EXPECT_THROW(TypeParam({.shape = {.node_children = children}}, budget, epochs, heap), std::invalid_argument);
  }
}

TYPED_TEST(TreeOfKind, AKeyThatIsTakenBackWasNeverThere) {
  BasicTreeStore<TypeParam> store(16);
  BasicTreeWorker worker(store);
  for (int i = 0; i < 200; i += 2) ASSERT_TRUE(worker.set(sharing_key(i), 1));
  const typename BasicTreeWorker<TypeParam>::Batch batch(worker);
  for (int i = 1; i < 200; i += 2) {
    const std::string key = sharing_key(i);
    const Fingerprint f = store.fingerprint(key);
    Location l = no_location;
    {
      const Heap::Cache::Lock lock(worker.cache);
      l = store.heap.allocate(worker.cache, store.heap.size_class(300), 300);
    }
    store.heap.format(l, key, 0, 8, 0, 0, false);
    for (bool added = false; !added;) {
      {
        typename TypeParam::Hold hold = store.tree.hold(key);
        added = hold.add(f, key, l);
        if (added) hold.take_back(f, key, l);
      }
      if (!added) {
        ASSERT_TRUE(store.tree.make_room(f, key));
      }
    }
    ASSERT_TRUE(store.tree.is_correct()) << i;
  }
  EXPECT_EQ(store.tree.item_count(), 100u);
  EXPECT_EQ(worker.scan_all({}, 1000).size(), 100u);
}

// A stamp tells of each kind of change in the part that was scanned, and of none outside.
TYPED_TEST(TreeOfKind, AStampTellsOfChanges) {
  BasicTreeStore<TypeParam> store(16);
  BasicTreeWorker worker(store);
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(worker.set(sharing_key(i), 1));
  const typename BasicTreeWorker<TypeParam>::Batch batch(worker);
  ScanCopies copies(500);
  ScanStamp stamp;
  const std::string end = sharing_key(50);
  const auto scan = [&] {
    copies.clear();
    store.tree.scan({.end = end}, copies.capacity(), copies, stamp);
  };
  scan();
  EXPECT_TRUE(worker.set(sharing_key(300), 2));
  EXPECT_TRUE(worker.erase(sharing_key(301)));
  EXPECT_TRUE(stamp.is_unchanged());
  EXPECT_TRUE(worker.set(sharing_key(20), 2));
  EXPECT_FALSE(stamp.is_unchanged());
  scan();
  EXPECT_TRUE(worker.erase(sharing_key(20)));
  EXPECT_FALSE(stamp.is_unchanged());
  scan();
  EXPECT_TRUE(worker.set(sharing_key(20), 3));
  EXPECT_FALSE(stamp.is_unchanged());
  scan();
  {
    const typename TypeParam::Hold hold = store.tree.hold(sharing_key(10));
    EXPECT_FALSE(stamp.is_unchanged());
  }
  EXPECT_TRUE(stamp.is_unchanged());
}

}  // namespace
}  // namespace tandem
