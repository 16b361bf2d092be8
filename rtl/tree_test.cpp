#include <Vtree.h>
#include <Vwide_tree.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "rtl/simulation.hpp"

namespace tandem::rtl {
namespace {

enum class Op : uint8_t { look_up, insert, remove };
struct Operation {
  Op op;
  uint32_t key;
  uint16_t leaf = 0;
};

enum class Taken : uint8_t { no, yes, refused };

// Separators and leaves as the tree's are at a moment.
using Leaves = std::map<uint32_t, uint16_t>;

uint16_t leaf_of(const Leaves& leaves, uint32_t key) { return std::prev(leaves.upper_bound(key))->second; }

// The tree beside its reference. step() is one cycle, in which an operation is offered; answers are compared as they
// come.
template <class Model>
class Harness {
 public:
  explicit Harness(uint32_t out_stalls_percent = 0, uint32_t seed = 1)
      : random_(seed), stalls_percent_(out_stalls_percent) {}

  Taken step(const std::optional<Operation>& offered) {
    sim_->in_valid = offered.has_value();
    if (offered) {
      sim_->in_op = static_cast<uint8_t>(offered->op);
      sim_->in_key = offered->key;
      sim_->in_leaf = offered->leaf;
    }
    sim_->out_ready = random_() % 100 >= stalls_percent_;
    sim_.settle();
    if (sim_->remove_done) end_remove(sim_->remove_found);
    auto taken = Taken::no;
    if (offered && sim_->in_ready) {
      taken = sim_->in_refused ? Taken::refused : Taken::yes;
      if (taken == Taken::yes) accept(*offered);
    }
    if (sim_->out_valid && sim_->out_ready) answer(sim_->out_leaf);
    sim_.tick();
    return taken;
  }

  Taken offer(const Operation& operation) {
    for (int i = 0; i < 1000; i++) {
      if (const auto taken = step(operation); taken != Taken::no) return taken;
    }
    ADD_FAILURE() << "not accepted for 1,000 cycles";
    return Taken::no;
  }

  void drain() {
    for (int i = 0; i < 1000 && (!asked_.empty() || removed_ || !sim_->idle); i++) step(std::nullopt);
    EXPECT_TRUE(asked_.empty() && !removed_);
  }

  // Every separator, the keys beside it, and both ends.
  void look_up_all() {
    std::set<uint32_t> keys = {0, 0xffffffffU};
    for (const auto& [key, leaf] : leaves_) keys.insert({key, key - 1, key + 1});
    for (const uint32_t key : keys) offer({Op::look_up, key});
    drain();
  }

  const Leaves& leaves() const { return leaves_; }
  bool removing() const { return removed_.has_value(); }
  uint64_t cycles() const { return sim_.cycles(); }
  uint64_t answers() const { return answers_; }
  uint64_t during_removes() const { return during_removes_; }

 private:
  struct Asked {
    uint32_t key;
    uint16_t leaf;
    uint16_t other;   // while a remove is under way: the leaf after it
    uint64_t remove;  // which one that is
  };
  struct Removed {
    uint32_t key;
    bool is_there;
  };

  void accept(const Operation& operation) {
    const uint32_t key = operation.key;
    switch (operation.op) {
      case Op::look_up: {
        const uint16_t leaf = leaf_of(leaves_, key);
        asked_.push_back({key, leaf, removed_ ? leaf_of(without_, key) : leaf, removes_});
        during_removes_ += removed_.has_value();
        break;
      }
      case Op::insert:
        EXPECT_FALSE(removed_) << "an insert during a remove";
        leaves_[key] = operation.leaf;
        break;
      case Op::remove:
        EXPECT_FALSE(removed_) << "a remove during a remove";
        removed_ = Removed{key, key != 0 && leaves_.contains(key)};
        without_ = leaves_;
        removes_ += 1;
        if (key != 0) without_.erase(key);
        break;
    }
  }

  void answer(uint16_t leaf) {
    ASSERT_FALSE(asked_.empty());
    const auto [key, before, after, remove] = asked_.front();
    asked_.pop_front();
    answers_ += 1;
    ASSERT_TRUE(leaf == before || leaf == after)
        << "key " << key << ": " << leaf << ", not " << before << " or " << after;
    if (before == after) return;
    // What one look-up has seen to be gone is gone for those behind it.
    ASSERT_TRUE(leaf == after || gone_ != remove) << "key " << key << " has its old leaf again";
    if (leaf == after) gone_ = remove;
  }

  void end_remove(bool found) {
    ASSERT_TRUE(removed_);
    EXPECT_EQ(found, removed_->is_there) << removed_->key;
    leaves_ = without_;
    removed_.reset();
  }

  Simulation<Model> sim_;
  Random random_;
  uint32_t stalls_percent_;
  Leaves leaves_ = {{0, 0}};
  Leaves without_;
  std::optional<Removed> removed_;
  uint64_t removes_ = 0;
  uint64_t gone_ = 0;  // the last remove after which a look-up has met the tree
  std::deque<Asked> asked_;
  uint64_t answers_ = 0;
  uint64_t during_removes_ = 0;
};

using TreeHarness = Harness<Vtree>;

// Keys near those of the last updates: what meets splits that are under way.
class Mix {
 public:
  Mix(uint32_t seed, uint32_t key_count, uint32_t insert_percent, uint32_t remove_percent)
      : random_(seed), key_count_(key_count), insert_percent_(insert_percent), remove_percent_(remove_percent) {}

  Operation next() {
    const uint32_t kind = random_() % 100;
    if (kind < insert_percent_) return updated({Op::insert, any(), ++leaf_});
    if (kind < insert_percent_ + remove_percent_) return updated({Op::remove, any()});
    if (recent_.empty() || random_() % 4 == 0) return {Op::look_up, any()};
    return {Op::look_up, recent_[random_() % static_cast<uint32_t>(recent_.size())] + random_() % 3 - 1};
  }

 private:
  uint32_t any() { return random_() % key_count_ * (0xffffffffU / key_count_); }

  Operation updated(Operation operation) {
    recent_.push_back(operation.key);
    if (recent_.size() > 8) recent_.pop_front();
    return operation;
  }

  Random random_;
  uint32_t key_count_;
  uint32_t insert_percent_;
  uint32_t remove_percent_;
  uint16_t leaf_ = 0;
  std::deque<uint32_t> recent_;
};

TEST(Tree, OneLeafHasAllKeysAtFirst) {
  TreeHarness tree;
  tree.look_up_all();
  EXPECT_EQ(tree.answers(), 3U);
}

// A child of the root reaches 64 leaves. Nodes that split in half are half full: descending separators fill a tree
// soonest.
TEST(Tree, InsertsInAnyOrderUntilItIsFull) {
  constexpr size_t at_least[] = {1500, 256, 600};
  for (size_t order = 0; order < 3; order++) {
    SCOPED_TRACE(order);
    TreeHarness tree;
    std::vector<uint32_t> keys;
    for (uint32_t i = 1; i <= 2100; i++) keys.push_back(i * 1000);
    if (order == 1) std::ranges::reverse(keys);
    if (order == 2) std::shuffle(keys.begin(), keys.end(), Random(5));
    uint16_t leaf = 0;
    for (const uint32_t key : keys) {
      if (tree.offer({Op::insert, key, ++leaf}) != Taken::yes) break;
    }
    EXPECT_GE(tree.leaves().size(), at_least[order]);
    EXPECT_LE(tree.leaves().size(), 2048U);
    tree.look_up_all();
  }
}

TEST(Tree, AnInsertOfASeparatorThatIsThereChangesItsLeaf) {
  TreeHarness tree;
  for (uint32_t i = 0; i < 60; i++) tree.offer({Op::insert, i * 10, static_cast<uint16_t>(i)});
  for (uint32_t i = 0; i < 60; i++) tree.offer({Op::insert, i * 10, static_cast<uint16_t>(i + 500)});
  tree.look_up_all();
}

template <class Model>
void expect_random_operations(uint32_t seed, uint32_t key_count, uint32_t operations) {
  SCOPED_TRACE(seed);
  Harness<Model> tree(seed % 4 * 25, seed);
  Mix mix(seed, key_count, seed % 3 == 0 ? 50 : 20, seed % 5 * 4);
  Random random(seed);
  std::optional<Operation> offered;
  for (uint32_t i = 0; i < operations; i++) {
    if (!offered && (seed % 2 == 0 || random() % 4 != 0)) offered = mix.next();
    if (tree.step(offered) != Taken::no) offered.reset();
  }
  tree.drain();
  tree.look_up_all();
  EXPECT_GT(tree.answers(), operations / 20);
}

TEST(Tree, RandomOperationsBesideAMap) {
  for (uint32_t seed = 0; seed < 40 && !HasFailure(); seed++) {
    expect_random_operations<Vtree>(seed, seed % 2 == 0 ? 1500 : 40, 6000);
  }
  for (uint32_t seed = 0; seed < 5 && !HasFailure(); seed++) expect_random_operations<Vwide_tree>(seed, 9000, 20'000);
}

// Ascending and descending inserts into one place, with look-ups at once behind each: all splits are met under way.
TEST(Tree, LookUpsMeetSplitsUnderWay) {
  for (uint32_t seed = 0; seed < 60; seed++) {
    SCOPED_TRACE(seed);
    TreeHarness tree(0, seed);
    Random random(seed);
    std::vector<uint32_t> keys(1000);
    for (uint32_t i = 0; i < keys.size(); i++) keys[i] = (i + 1) * 16;
    if (seed % 3 == 1) std::ranges::reverse(keys);
    if (seed % 3 == 2) std::shuffle(keys.begin(), keys.end(), random);
    uint16_t leaf = 0;
    for (size_t i = 0; i < keys.size(); i++) {
      if (tree.offer({Op::insert, keys[i], ++leaf}) == Taken::refused) break;
      for (uint32_t n = random() % 6; n > 0; n--) {
        tree.offer({Op::look_up, keys[i - std::min<size_t>(i, random() % 4)] + random() % 3 - 1});
      }
    }
    tree.drain();
    if (HasFailure()) return;
  }
}

TEST(Tree, RemovesOfNodesFirstSeparators) {
  TreeHarness tree;
  for (uint32_t i = 1; i <= 1000; i++) tree.offer({Op::insert, i * 10, static_cast<uint16_t>(i)});
  uint64_t most = 0;
  uint64_t sum = 0;
  // Look-ups go on at full rate; each remove takes away the first entries of ever more nodes.
  Random random(3);
  for (uint32_t i = 1; i <= 1000; i++) {
    tree.offer({Op::remove, i * 10});
    const uint64_t began = tree.cycles();
    while (tree.removing()) tree.step(Operation{Op::look_up, i * 10 + random() % 20 - 5});
    most = std::max(most, tree.cycles() - began);
    sum += tree.cycles() - began;
  }
  std::cout << "a remove beside look-ups: worst " << most << " cycles, mean " << static_cast<double>(sum) / 1000
            << "\n";
  EXPECT_LE(most, 40U);
  EXPECT_GT(tree.during_removes(), 3000U);
  tree.look_up_all();
  EXPECT_EQ(tree.leaves().size(), 1U);
  tree.offer({Op::remove, 0});  // the first leaf stays
  tree.offer({Op::remove, 5});  // there is none
  tree.drain();
  tree.look_up_all();
}

TEST(Tree, AFullTreeRefusesAndNodesComeBack) {
  TreeHarness tree;
  Random random(9);
  std::vector<size_t> reached;
  for (int round = 0; round < 4; round++) {
    uint32_t key = 0;
    while (tree.offer({Op::insert, key += 7, static_cast<uint16_t>(key)}) == Taken::yes) {
    }
    tree.drain();
    tree.look_up_all();
    reached.push_back(tree.leaves().size());
    std::vector<uint32_t> keys;
    for (const auto& [separator, leaf] : tree.leaves()) {
      if (separator != 0) keys.push_back(separator);
    }
    std::shuffle(keys.begin(), keys.end(), random);
    for (const uint32_t separator : keys) {
      tree.offer({Op::remove, separator});
      tree.offer({Op::look_up, separator});
    }
    tree.drain();
    ASSERT_EQ(tree.leaves().size(), 1U);
    tree.look_up_all();
  }
  EXPECT_GE(reached[0], 1500U);
  EXPECT_EQ(reached, std::vector<size_t>(4, reached[0]));
}

struct Gaps {
  uint64_t most = 0;
  uint64_t sum = 0;
  uint64_t count = 0;
};

// Something is always offered; every `insert_each`-th operation is an insert of a new separator.
template <class Model>
Gaps gaps_between_operations(uint32_t insert_each, size_t leaf_count) {
  Harness<Model> tree;
  std::vector<uint32_t> keys(leaf_count);
  for (uint32_t i = 0; i < keys.size(); i++) keys[i] = (i + 1) * 1000;
  std::shuffle(keys.begin(), keys.end(), Random(2));
  Gaps gaps;
  std::optional<uint64_t> last;
  Random random(4);
  size_t i = 0;
  for (uint32_t n = 0; i < keys.size(); n++) {
    const bool inserts = n % insert_each == 0;
    const auto operation = inserts ? Operation{Op::insert, keys[i], static_cast<uint16_t>(i + 1)}
                                   : Operation{Op::look_up, keys[i] + random() % 2000};
    auto taken = Taken::no;
    uint64_t at = 0;
    while (taken == Taken::no) {
      at = tree.cycles();
      taken = tree.step(operation);
    }
    EXPECT_EQ(taken, Taken::yes);
    if (last) {
      gaps.most = std::max(gaps.most, at - *last);
      gaps.sum += at - *last;
      gaps.count += 1;
    }
    last = at;
    i += inserts;
  }
  tree.drain();
  tree.look_up_all();
  return gaps;
}

template <class Model>
void expect_two_cycles(const char* name, uint32_t insert_each, size_t leaf_count) {
  const auto gaps = gaps_between_operations<Model>(insert_each, leaf_count);
  std::cout << name << ", " << gaps.count + 1 << " operations, an insert in " << insert_each << ": worst " << gaps.most
            << " cycles from one to the next, mean " << static_cast<double>(gaps.sum) / static_cast<double>(gaps.count)
            << "\n";
  EXPECT_EQ(gaps.most, 2U);
  EXPECT_EQ(gaps.sum, 2 * gaps.count);
}

// A child of the root reaches 64 leaves of the small tree and 4,096 of the dispatcher's, so that splits reach the root.
TEST(Tree, AnOperationEveryTwoCyclesWithSplitsUpToTheRoot) {
  for (const uint32_t insert_each : {1U, 2U, 5U}) {
    expect_two_cycles<Vtree>("fanout 4", insert_each, 500);
    expect_two_cycles<Vwide_tree>("fanout 16", insert_each, 6000);
  }
}

}  // namespace
}  // namespace tandem::rtl
