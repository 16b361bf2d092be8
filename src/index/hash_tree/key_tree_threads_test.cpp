// Writers and scans at once, in tiny leaves that are split and merged all the time.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "index/hash_tree/key_tree_test_support.hpp"

namespace tandem {
namespace {

constexpr int turns = is_sanitized ? 1500 : 20'000, rounds = is_sanitized ? 2 : 30;

template <class Tree>
class TreeThreads : public testing::Test {};
using TreeThreadKinds = testing::Types<HashTree, OrderTree>;
TYPED_TEST_SUITE(TreeThreads, TreeThreadKinds, );

std::string number_key(std::uint64_t n) {
  std::string key = std::to_string(n);
  return "k" + std::string(5 - key.size(), '0') + key;
}

// Keys 0, 10, 20, ... stay. Each writer adds, replaces and removes keys of its own in between.
template <class Tree>
void scan_beside_writers(std::uint32_t leaf_cells) {
  BasicTreeStore<Tree> store(leaf_cells);
  constexpr std::uint64_t keys = 1000, writers = 3;
  std::atomic<bool> is_over{false};
  {
    BasicTreeWorker worker(store);
    for (std::uint64_t n = 0; n < keys; n += 10) ASSERT_TRUE(worker.set(number_key(n), n));
  }
  std::vector<std::thread> all;
  for (std::uint64_t t = 0; t < writers; ++t) {
    all.emplace_back([&, t] {
      BasicTreeWorker worker(store);
      std::mt19937_64 random(t);
      for (int i = 0; i < turns; ++i) {
        const std::uint64_t n = random() % (keys / 10) * 10 + 1 + t * 3 + random() % 3;
        // Whole stretches come and go, so that leaves are split and merged.
        if (i / 400 % 2 == 0 ? random() % 4 != 0 : random() % 4 == 0) {
          EXPECT_TRUE(worker.set(number_key(n), n));
        } else {
          worker.erase(number_key(n));
        }
        if (i % 64 == 0) store.tree.grow();
      }
      for (std::uint64_t n = 0; n < keys; ++n) {
        if (n % 10 != 0 && (n % 10 - 1) / 3 == t) worker.erase(number_key(n));
      }
    });
  }
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&, t] {
      BasicTreeWorker worker(store);
      std::mt19937_64 random(static_cast<unsigned>(t) + 100);
      bool is_snapshot = false;
      while (!is_over) {
        std::uint64_t a = random() % keys, b = random() % keys;
        if (a > b) std::swap(a, b);
        const std::string begin = number_key(a), end = number_key(b);
        const bool reverse = random() % 2 == 0;
        if (random() % 2 == 0) worker.prefetch_scans(begin, end);
        auto found = worker.scan_all({.begin = begin, .end = end, .reverse = reverse},
                                     static_cast<std::uint32_t>(1 + random() % 400), &is_snapshot);
        if (reverse) std::ranges::reverse(found);
        std::uint64_t stays = (a + 9) / 10 * 10;
        std::string last;
        for (const auto& [key, value] : found) {
          ASSERT_LT(last, key);
          last = key;
          ASSERT_EQ(key, number_key(value));
          ASSERT_TRUE(value >= a && value < b);
          if (value == stays) stays += 10;
          ASSERT_LT(value, stays);  // else it has passed one that stays
        }
        ASSERT_GE(stays, b);
        const std::uint64_t one = random() % (keys / 10) * 10;
        ASSERT_EQ(worker.get(number_key(one)), one);
      }
    });
  }
  for (std::thread& t : all) t.join();
  is_over = true;
  for (std::thread& t : readers) t.join();
  BasicTreeWorker worker(store);
  EXPECT_TRUE(worker.is_correct());
  EXPECT_EQ(store.tree.item_count(), keys / 10);
  if (leaf_cells != 16) return;
  EXPECT_GT(store.tree.splits(), 10u);
  EXPECT_GT(store.tree.merges(), 3u);
}

// Rounds: one of six has two leaves merged of which a scan has just read the first.
TYPED_TEST(TreeThreads, ScansAreSortedAndMissNoKeyThatStays) {
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) scan_beside_writers<TypeParam>(16);
}
// One leaf: its order is changed while it is read.
TYPED_TEST(TreeThreads, ScansOfALargeLeafAreSortedAndMissNoKeyThatStays) { scan_beside_writers<TypeParam>(2048); }

// All add to the last leaf, which is split again and again while they wait for it.
TYPED_TEST(TreeThreads, NoWriteIsLostInASplit) {
  BasicTreeStore<TypeParam> store(16);
  constexpr std::uint64_t writers = 4, each = turns;
  std::vector<std::thread> all;
  for (std::uint64_t t = 0; t < writers; ++t) {
    all.emplace_back([&, t] {
      BasicTreeWorker worker(store);
      for (std::uint64_t i = 0; i < each; ++i) {
        ASSERT_TRUE(worker.set(number_key(i * writers + t), i));
        ASSERT_EQ(worker.get(number_key(i * writers + t)), i);
      }
    });
  }
  for (std::thread& t : all) t.join();
  BasicTreeWorker worker(store);
  EXPECT_TRUE(worker.is_correct());
  EXPECT_EQ(store.tree.item_count(), writers * each);
  for (std::uint64_t n = 0; n < writers * each; ++n) ASSERT_EQ(worker.get(number_key(n)), n / writers);
}

// Each writer moves a token: it adds the next key before it removes the last one. A scan with an unchanged stamp sees
// one or two of each, never none and never three.
TYPED_TEST(TreeThreads, AStampThatIsUnchangedMeansASnapshot) {
  BasicTreeStore<TypeParam> store(16);
  constexpr std::uint64_t places = 600, writers = 2;
  std::atomic<std::uint64_t> snapshots{0}, scans{0}, writing{writers};
  {
    BasicTreeWorker worker(store);
    for (std::uint64_t n = 0; n < places * 4; n += 4) ASSERT_TRUE(worker.set(number_key(n), writers));
    for (std::uint64_t t = 0; t < writers; ++t) ASSERT_TRUE(worker.set(number_key(1 + t), t));
  }
  std::vector<std::thread> all;
  for (std::uint64_t t = 0; t < writers; ++t) {
    all.emplace_back([&, t] {
      BasicTreeWorker worker(store);
      std::mt19937_64 random(t);
      std::uint64_t at = 0;
      for (int i = 0; i < turns / 4; ++i) {
        const std::uint64_t next = (at + 1 + random() % (places - 1)) % places;
        ASSERT_TRUE(worker.set(number_key(next * 4 + 1 + t), t));
        ASSERT_TRUE(worker.erase(number_key(at * 4 + 1 + t)));
        at = next;
        // A whole scan while this thread rests, now and then; other scans meet its writes.
        if (i % 16 != 0) continue;
        for (const std::uint64_t seen = scans; scans < seen + 2;) std::this_thread::yield();
      }
      --writing;
    });
  }
  std::thread scanner([&] {
    BasicTreeWorker worker(store);
    bool is_done = false, is_snapshot = false;
    for (; writing != 0; ++scans) {
      const auto found = worker.scan({}, places * 4, &is_done, &is_snapshot);
      if (!is_snapshot || !is_done) continue;
      ++snapshots;
      std::uint64_t tokens[writers + 1] = {};
      for (const auto& [key, value] : found) ++tokens[value];
      ASSERT_EQ(tokens[writers], places);
      for (std::uint64_t t = 0; t < writers; ++t) ASSERT_TRUE(tokens[t] == 1 || tokens[t] == 2) << tokens[t];
    }
  });
  for (std::thread& t : all) t.join();
  scanner.join();
  EXPECT_GT(snapshots.load(), 0u);
  BasicTreeWorker worker(store);
  EXPECT_TRUE(worker.is_correct());
  EXPECT_EQ(store.tree.item_count(), places + writers);
}

}  // namespace
}  // namespace tandem
