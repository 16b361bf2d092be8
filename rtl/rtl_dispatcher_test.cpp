#include "rtl/rtl_dispatcher.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "rtl/simulation.hpp"

namespace tandem::rtl {
namespace {

using Keys = std::vector<uint32_t>;
using Leaves = std::map<uint32_t, uint16_t>;

uint16_t leaf_of(const Leaves& leaves, uint32_t key) { return std::prev(leaves.upper_bound(key))->second; }

Keys random_keys(size_t count, Random& random) {
  Keys keys(count);
  for (auto& key : keys) key = random();
  return keys;
}

Leaves random_leaves(size_t count, Random& random) {
  Leaves leaves = {{0, 1}};
  while (leaves.size() < count) leaves[random()] = static_cast<uint16_t>(leaves.size() + 1);
  return leaves;
}

bool load(RtlDispatcher& dispatcher, const Leaves& leaves) {
  std::vector<Separator> separators;
  for (const auto& [key, leaf] : leaves) separators.push_back({key, leaf});
  return dispatcher.load(separators);
}

// Leaves, queue and head table, all of it.
void expect_dispatched(const Keys& keys, const Leaves& leaves, const RtlDispatcher::Dispatched& dispatched) {
  std::vector<uint16_t> queue(keys.size());
  std::iota(queue.begin(), queue.end(), uint16_t{0});
  std::ranges::sort(queue, {}, [&](uint16_t i) { return std::pair(keys[i], i); });
  std::vector<RtlDispatcher::Head> heads;
  for (size_t place = 0; place < queue.size(); place++) {
    const uint16_t leaf = leaf_of(leaves, keys[queue[place]]);
    ASSERT_EQ(dispatched.leaves[queue[place]], leaf) << "key " << keys[queue[place]];
    if (heads.empty() || heads.back().leaf != leaf) heads.push_back({leaf, 0, static_cast<uint16_t>(place)});
    heads.back().count += 1;
  }
  EXPECT_TRUE(dispatched.queue == queue);
  EXPECT_TRUE(dispatched.heads == heads);
}

void expect_all(const std::vector<Keys>& batches, const Leaves& leaves,
                const std::vector<RtlDispatcher::Dispatched>& dispatched) {
  ASSERT_EQ(dispatched.size(), batches.size());
  for (size_t i = 0; i < batches.size(); i++) {
    SCOPED_TRACE(i);
    expect_dispatched(batches[i], leaves, dispatched[i]);
  }
}

// Each separator and the key below it, eight times in a row when sorted: every copy of the tree is asked about each.
void expect_every_copy(RtlDispatcher& dispatcher, const Leaves& leaves) {
  Keys keys;
  for (const auto& [key, leaf] : leaves) {
    keys.insert(keys.end(), 8, key);
    keys.insert(keys.end(), 8, key - 1);
    if (keys.size() + 16 <= RtlDispatcher::batch_max && key != leaves.rbegin()->first) continue;
    expect_dispatched(keys, leaves, dispatcher.dispatch(keys));
    keys.clear();
  }
  EXPECT_FALSE(dispatcher.copies_differ());
}

TEST(RtlDispatcher, BatchesOfAllSizes) {
  Random random(1);
  RtlDispatcher dispatcher;
  const auto leaves = random_leaves(300, random);
  ASSERT_TRUE(load(dispatcher, leaves));
  std::vector<Keys> batches;
  for (const size_t size : {0U, 1U, 2U, 3U, 7U, 0U, 0U, 64U, 999U, 1U, 8192U, 5U})
    batches.push_back(random_keys(size, random));
  batches.push_back(Keys(100, 5));
  expect_all(batches, leaves, dispatcher.dispatch_all(batches));
}

TEST(RtlDispatcher, StallsLoseAndReorderNothing) {
  Random random(2);
  RtlDispatcher dispatcher;
  const auto leaves = random_leaves(50, random);
  ASSERT_TRUE(load(dispatcher, leaves));
  std::vector<Keys> batches;
  for (int i = 0; i < 20; i++) batches.push_back(random_keys(random() % 200, random));
  for (const auto stalls : {RtlDispatcher::Stalls{70, 0, 1}, {0, 70, 2}, {40, 40, 3}, {0, 95, 4}}) {
    dispatcher.stall(stalls);
    expect_all(batches, leaves, dispatcher.dispatch_all(batches));
  }
}

TEST(RtlDispatcher, TheFourCopiesAgreeAfterUpdates) {
  Random random(3);
  RtlDispatcher dispatcher;
  auto leaves = random_leaves(1500, random);
  ASSERT_TRUE(load(dispatcher, leaves));
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 400; i++) {
      if (random() % 2 == 0) {
        const Separator separator = {random(), static_cast<uint16_t>(random())};
        ASSERT_EQ(dispatcher.insert(separator), RtlDispatcher::Update::done);
        leaves[separator.key] = separator.leaf;
      } else {
        const auto it = std::next(leaves.begin(), random() % static_cast<long>(leaves.size()));
        const bool first = it == leaves.begin();
        const auto done = first ? RtlDispatcher::Update::not_found : RtlDispatcher::Update::done;
        ASSERT_EQ(dispatcher.remove(it->first), done);
        if (!first) leaves.erase(it);
      }
    }
    expect_every_copy(dispatcher, leaves);
  }
}

// Updates that come while batches follow each other enter between two of them, with all copies: a batch's leaves are
// those of one moment, and a leaf has one entry.
TEST(RtlDispatcher, ABatchMeetsOneTree) {
  Random random(4);
  RtlDispatcher dispatcher;
  auto leaves = random_leaves(20, random);
  ASSERT_TRUE(load(dispatcher, leaves));
  std::vector<Separator> inserts;
  for (uint16_t i = 0; i < 200; i++) inserts.push_back({random(), static_cast<uint16_t>(1000 + i)});
  std::vector<Keys> batches;
  for (int i = 0; i < 40; i++) batches.push_back(random_keys(500, random));
  const auto dispatched = dispatcher.dispatch_all(batches, inserts, 30);
  std::vector<Leaves> moments = {leaves};
  for (const auto& [key, leaf] : inserts) {
    moments.push_back(moments.back());
    moments.back()[key] = leaf;
  }
  size_t moment = 0;
  std::set<size_t> met;
  for (size_t b = 0; b < batches.size(); b++) {
    const auto fits = [&](const Leaves& those) {
      for (size_t i = 0; i < batches[b].size(); i++) {
        if (dispatched[b].leaves[i] != leaf_of(those, batches[b][i])) return false;
      }
      return true;
    };
    while (moment < moments.size() && !fits(moments[moment])) moment += 1;
    ASSERT_LT(moment, moments.size()) << "batch " << b << " has leaves of no moment";
    expect_dispatched(batches[b], moments[moment], dispatched[b]);
    met.insert(moment);
  }
  EXPECT_GT(met.size(), 20U);
  expect_every_copy(dispatcher, moments.back());
}

TEST(RtlDispatcher, AFullTreeRefusesAndAnswersOn) {
  Random random(5);
  RtlDispatcher dispatcher;
  ASSERT_TRUE(load(dispatcher, {{0, 1}}));
  Leaves leaves = {{0, 1}};
  // Descending separators fill nodes least.
  for (uint32_t key = 4'000'000'000; leaves.size() < 65536; key -= 1000) {
    const Separator separator = {key, static_cast<uint16_t>(leaves.size())};
    if (dispatcher.insert(separator) == RtlDispatcher::Update::refused) break;
    leaves[key] = separator.leaf;
  }
  std::cout << "descending separators: refused after " << leaves.size() << " leaves\n";
  EXPECT_GE(leaves.size(), 4096U);
  EXPECT_LT(leaves.size(), 65536U);
  const auto keys = random_keys(8192, random);
  expect_dispatched(keys, leaves, dispatcher.dispatch(keys));
}

// Cycles, of which the model has no other kind of time.
TEST(RtlDispatcher, TwoRequestsACycle) {
  Random random(6);
  RtlDispatcher dispatcher;
  const auto leaves = random_leaves(4096, random);
  ASSERT_TRUE(load(dispatcher, leaves));
  std::cout << "load of 4096 separators: " << dispatcher.cycles() << " cycles\n";
  std::vector<Keys> batches;
  for (int i = 0; i < 4; i++) batches.push_back(random_keys(8192, random));
  const uint64_t began = dispatcher.cycles();
  const auto dispatched = dispatcher.dispatch_all(batches);
  expect_all(batches, leaves, dispatched);
  const uint64_t alone = dispatched[0].ended - began;
  const uint64_t interval = (dispatched[3].ended - dispatched[0].ended) / 3;
  std::cout << "batch of 8192: " << alone << " cycles; batches in a row: one every " << interval << " ("
            << static_cast<double>(interval) / 8192 << " a request)\n";
  EXPECT_LE(alone, 8192U + 100);
  EXPECT_LE(interval, 4096U + 4);
}

}  // namespace
}  // namespace tandem::rtl
