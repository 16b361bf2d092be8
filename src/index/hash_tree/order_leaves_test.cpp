// One leaf of an OrderTree, and what is made of it, against a sorted map.
#include "index/hash_tree/order_leaves.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "heap/cache.hpp"

namespace tandem {
namespace {

using Locations = std::map<std::string, Location>;

class OrderLeavesTest : public testing::Test {
 public:
  static constexpr std::uint32_t cells = 64;

  struct Free {
    void operator()(Leaf* leaf) const { std::free(leaf); }
  };
  using OwnLeaf = std::unique_ptr<Leaf, Free>;

  OwnLeaf make_leaf() {
    void* const memory = std::aligned_alloc(cache_line_bytes, leaves_.leaf_bytes());
    OwnLeaf leaf(new (memory) Leaf);
    leaves_.make_empty(*leaf, {{}, {}, false});
    return leaf;
  }
  Location item(const std::string& key) {
    const Heap::Cache::Lock lock(cache_);
    const std::uint64_t bytes = Item::total_bytes(0, key.size(), 8);
    const Location l = heap_.allocate(cache_, heap_.size_class(bytes), bytes);
    heap_.format(l, key, 0, 8, 0, 0, false)
        ->state_word.store(word::State::put(0, static_cast<std::uint64_t>(ItemState::live)));
    return l;
  }
  // Sorts a leaf, and compares all that it has with the model.
  void expect_same(Leaf& leaf, const Locations& model) {
    ASSERT_TRUE(leaves_.is_correct(leaf));
    leaves_.sort(leaf);
    ASSERT_TRUE(leaves_.is_correct(leaf));
    ASSERT_EQ(leaves_.sorted(leaf), model.size());
    std::uint32_t i = 0;
    for (const auto& [key, l] : model) {
      ASSERT_EQ(leaves_.location_at(leaf, i), l) << i;
      ASSERT_EQ(leaves_.lower_bound(leaf, leaves_.sorted(leaf), key, 0), i);
      ASSERT_EQ(leaves_.lower_bound(leaf, leaves_.sorted(leaf), key + '\0', 0), i + 1);
      ++i;
    }
  }
  // A leaf of these keys, with a prefix that fits them, as a split leaves it.
  OwnLeaf leaf_of(const Locations& model) {
    const OwnLeaf all = make_leaf(), none = make_leaf();
    for (const auto& [key, l] : model) EXPECT_TRUE(leaves_.add(*all, {}, key, l));
    leaves_.sort(*all);
    OwnLeaf left = make_leaf(), right = make_leaf(), both = make_leaf();
    leaves_.split(*all, "", *left, *right);
    EXPECT_TRUE(leaves_.merge(*left, *right, *both));
    return both;
  }

  EpochDomain epochs_{2};
  MemoryBudget budget_{std::uint64_t{64} << 20};
  Heap heap_{{}, budget_, epochs_};
  Heap::Cache cache_{heap_};
  OrderLeaves leaves_{{.shape = {.leaf_cells = cells}}, heap_};
};

std::string key_of_kind(std::mt19937& random, int kind) {
  switch (kind) {
    case 0:  // of one byte
      return {1, static_cast<char>(random())};
    case 1:  // as long as keys are, and equal but for the last bytes
      return std::string(248, 'x') + static_cast<char>(random() % 4) + static_cast<char>(random());
    case 2:  // beginnings of each other, so that tails are equal
      return std::string(1 + random() % 250, 'a');
    case 3:  // the same with zeros, which tails of shorter keys have, too
      return std::string(1 + random() % 12, '\0');
    default:
      return "user:" + std::to_string(random() % 1000);
  }
}

// Each kind of keys alone, and all together.
TEST_F(OrderLeavesTest, AreASortedMap) {
  for (int kinds = 0; kinds <= 5; ++kinds) {
    std::mt19937 random(static_cast<unsigned>(kinds));
    Locations model;
    OwnLeaf leaf = make_leaf();
    for (int step = 0; step < 4000; ++step) {
      const std::string key = key_of_kind(random, kinds == 5 ? static_cast<int>(random() % 5) : kinds);
      const bool shrinks = step / 500 % 2 == 1;
      const auto at = model.find(key);
      if (at == model.end()) {
        if (shrinks) continue;
        const bool has_place = leaves_.finds_place(*leaf, {});
        ASSERT_EQ(has_place, model.size() != cells);
        const Location l = item(key);
        ASSERT_EQ(leaves_.add(*leaf, {}, key, l), has_place);
        if (has_place) model.emplace(key, l);
      } else if (shrinks || random() % 3 == 0) {
        ASSERT_TRUE(leaves_.remove(*leaf, {}, key, at->second));
        ASSERT_FALSE(leaves_.remove(*leaf, {}, key, at->second));
        model.erase(at);
      } else {
        const Location now = item(key);
        ASSERT_TRUE(leaves_.replace(*leaf, {}, key, at->second, now));
        ASSERT_FALSE(leaves_.replace(*leaf, {}, key, at->second, now));
        at->second = now;
      }
      ASSERT_TRUE(leaves_.is_correct(*leaf)) << step;
      if (step % 37 == 0) {
        ASSERT_NO_FATAL_FAILURE(expect_same(*leaf, model));
      }
      if (step % 1000 == 999 && model.size() > 1) leaf = leaf_of(model);  // another prefix
    }
    ASSERT_NO_FATAL_FAILURE(expect_same(*leaf, model));
  }
}

TEST_F(OrderLeavesTest, SplitInTwoHalvesWhichMergeAgain) {
  for (const int kind : {1, 2, 4}) {
    std::mt19937 random(static_cast<unsigned>(kind));
    Locations model;
    while (model.size() < cells) model.try_emplace(key_of_kind(random, kind), no_location);
    const OwnLeaf leaf = make_leaf(), left = make_leaf(), right = make_leaf(), both = make_leaf();
    for (auto& [key, l] : model) ASSERT_TRUE(leaves_.add(*leaf, {}, key, l = item(key)));
    leaves_.sort(*leaf);
    leaves_.split(*leaf, model.begin()->first, *left, *right);
    const auto middle = std::next(model.begin(), cells / 2);
    EXPECT_EQ(left->high(), right->low());
    EXPECT_LT(std::prev(middle)->first, right->low());
    EXPECT_LE(right->low(), middle->first);
    ASSERT_NO_FATAL_FAILURE(expect_same(*left, {model.begin(), middle}));
    ASSERT_NO_FATAL_FAILURE(expect_same(*right, {middle, model.end()}));
    ASSERT_TRUE(leaves_.merge(*left, *right, *both));
    ASSERT_NO_FATAL_FAILURE(expect_same(*both, model));
    const OwnLeaf none = make_leaf();
    EXPECT_FALSE(leaves_.merge(*leaf, *right, *none)) << "more keys than a leaf has";
  }
}

// Keys that ascend go where they stay, and a split leaves a full leaf behind.
TEST_F(OrderLeavesTest, AscendingKeysNeedNoSort) {
  const OwnLeaf leaf = make_leaf(), left = make_leaf(), right = make_leaf();
  const auto key = [](std::uint32_t i) { return "k" + std::string(1, static_cast<char>(i)); };
  for (std::uint32_t i = 0; i < cells; ++i) ASSERT_TRUE(leaves_.add(*leaf, {}, key(i), item(key(i))));
  EXPECT_EQ(leaf->unsorted.load(), 0u);
  leaves_.split(*leaf, key(cells), *left, *right);
  EXPECT_EQ(leaves_.sorted(*left), cells - cells / 16);
  EXPECT_EQ(right->prefix(), "k");
  for (std::uint32_t i = cells; i < 2 * cells - cells / 16; ++i)
    ASSERT_TRUE(leaves_.add(*right, {}, key(i), item(key(i))));
  EXPECT_EQ(right->unsorted.load(), 0u);
  EXPECT_FALSE(leaves_.finds_place(*right, {}));
}

TEST_F(OrderLeavesTest, CandidatesAreOfAllOverTheLeaf) {
  const OwnLeaf leaf = make_leaf();
  Location out[OrderLeaves::candidates_max];
  EXPECT_EQ(leaves_.candidates(*leaf, {}, out), 0u);
  std::vector<Location> all;
  for (char c = 0; c < 64; ++c) ASSERT_TRUE(leaves_.add(*leaf, {}, {&c, 1}, all.emplace_back(item({1, c}))));
  for (std::uint32_t hash = 0; hash < 8; ++hash) {
    ASSERT_EQ(leaves_.candidates(*leaf, {.signature = 1, .hash = hash}, out), OrderLeaves::candidates_max);
    for (std::uint32_t i = 0; i < OrderLeaves::candidates_max; ++i) EXPECT_EQ(out[i], all[i * 4 + hash % 4]);
  }
  const char removed = 4;
  ASSERT_TRUE(leaves_.remove(*leaf, {}, {&removed, 1}, all[4]));
  EXPECT_EQ(leaves_.candidates(*leaf, {}, out), OrderLeaves::candidates_max - 1);
}

}  // namespace
}  // namespace tandem
