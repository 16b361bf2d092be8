// Indexes that keep their keys in order: a HashTree beside the cuckoo table, and one alone. What is found and what is
// scanned are the same keys, whatever happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "index/cuckoo/index_test_support.hpp"
#include "index/hash_tree/hash_tree_index.hpp"
#include "index/writers_rest.hpp"

namespace tandem {
namespace {

struct BesideTheTable {
  using Index = CuckooIndex;
  static constexpr TestStoreOptions options(std::uint64_t cells = 512) { return {.cells = cells, .ordered = true}; }
};
struct Alone {
  using Index = HashTreeIndex;
  static constexpr TestStoreOptions options(std::uint64_t cells = 512) { return {.cells = cells}; }
};

template <class Kind>
class OrderedIndex : public testing::Test {
 public:
  using Index = typename Kind::Index;
  using OrderedWorker = BasicTestWorker<Index>;
  using Outcome = typename OrderedWorker::Outcome;

  BasicTestStore<Index> store{Kind::options()};

  // Keys of all items, page by page.
  std::vector<std::string> scan(bool reverse, std::uint32_t page) {
    OrderedWorker worker(store);
    std::vector<std::string> keys;
    ScanCopies copies(page);
    std::string last;
    ScanRange range{.reverse = reverse};
    for (;;) {
      const typename OrderedWorker::Batch batch(worker);
      ScanStamp stamp;
      copies.clear();
      const ScanResult result = store.index.scan(range, page, copies, stamp);
      for (std::uint32_t i = 0; i < result.count; ++i) keys.emplace_back(copies.item(i)->key());
      if (result.done) return keys;
      if (result.count == 0) continue;
      last = keys.back();
      (reverse ? range.end : range.begin) = last;
      range.after_begin = !reverse;
    }
  }
  // Compares order, table and model.
  void expect_same(const std::map<std::string, std::uint64_t>& model) {
    std::string problem;
    EXPECT_EQ(store.scan(problem), model);
    EXPECT_EQ(problem, "");
    std::vector<std::string> keys;
    for (const auto& [key, value] : model) keys.push_back(key);
    EXPECT_EQ(scan(false, 7), keys);
    std::vector<std::string> down = scan(true, 100);
    std::reverse(down.begin(), down.end());
    EXPECT_EQ(down, keys);
  }
  static Outcome set(OrderedWorker& worker, const std::string& key, std::uint64_t value) {
    Outcome outcome = worker.set(key, value);
    while (outcome == Outcome::no_room && worker.grow()) outcome = worker.set(key, value);
    return outcome;
  }
};
using OrderedKinds = testing::Types<BesideTheTable, Alone>;
TYPED_TEST_SUITE(OrderedIndex, OrderedKinds, );

std::string binary_key(std::mt19937_64& random) {
  std::string key(1 + random() % (random() % 8 == 0 ? 250 : 4), '\0');
  for (char& c : key) c = static_cast<char>(random() % 3 == 0 ? random() : random() % 2 * 255);
  return key;
}

TYPED_TEST(OrderedIndex, IsTheSameMap) {
  using Worker = typename TestFixture::OrderedWorker;
  EXPECT_TRUE(this->store.index.is_ordered());
  Worker worker(this->store);
  std::map<std::string, std::uint64_t> model;
  std::mt19937_64 random(5);
  for (int round = 0; round < 10; ++round) {
    const bool grows = round % 5 < 3;
    for (int step = 0; step < 600 * effort; ++step) {
      const std::string key = binary_key(random);
      const std::uint64_t value = random();
      if (random() % 4 < (grows ? 3u : 1u)) {
        ASSERT_EQ(this->set(worker, key, value), Worker::Outcome::done);
        model.insert_or_assign(key, value);
      } else if (const auto at = model.lower_bound(key); at != model.end() && random() % 2 == 0) {
        const std::string victim = at->first;
        ASSERT_TRUE(worker.erase(victim));
        model.erase(at);
      } else {
        ASSERT_EQ(worker.touch(key, 9), model.contains(key));
        ASSERT_EQ(worker.get(key).has_value(), model.contains(key));
      }
    }
    this->expect_same(model);
  }
  while (!model.empty()) {
    ASSERT_TRUE(worker.erase(model.begin()->first));
    model.erase(model.begin());
  }
  this->expect_same(model);
}

// An insertion that finds no room in one of the two is in neither.
TYPED_TEST(OrderedIndex, WhatHasNoRoomIsNowhere) {
  using Worker = typename TestFixture::OrderedWorker;
  Worker worker(this->store);
  std::map<std::string, std::uint64_t> model;
  std::uint64_t refused = 0;
  std::uint64_t taken = 0;
  for (std::uint64_t n = 0; n < 12'000 && refused < 20; ++n) {
    const auto outcome = worker.set(key_of(n), n);
    if (n == 4000) {  // from now on there are no pages, and no leaves, but those that were taken
      taken = this->store.budget.limit_bytes() - this->store.budget.used_bytes();
      ASSERT_TRUE(this->store.budget.take(taken));
    }
    if (outcome == Worker::Outcome::done) {
      model.emplace(key_of(n), n);
    } else {
      ++refused;
    }
  }
  EXPECT_TRUE(this->store.index.wants_growth());
  EXPECT_GE(refused, 20u);
  this->expect_same(model);
  const Fingerprint f = this->store.fingerprint("new");
  Location some[tandem::Index::candidates_max];
  {
    const typename Worker::Batch batch(worker);
    EXPECT_GT(this->store.index.candidates(f, "new", some), 0u);
  }
  this->store.budget.give_back(taken);
  EXPECT_TRUE(worker.grow());
  ASSERT_EQ(this->set(worker, "new", 1), Worker::Outcome::done);
  model.emplace("new", 1);
  this->expect_same(model);
}

// Keys that are moved from one name to the other are never seen in neither place by a scan with a stamp that holds.
TYPED_TEST(OrderedIndex, AStampProvesASnapshot) {
  using Worker = typename TestFixture::OrderedWorker;
  constexpr int tokens = 4;
  const auto name = [](int token, bool other) {
    return std::string(1, static_cast<char>('a' + token)) + (other ? "zz" : "aa");
  };
  {
    Worker worker(this->store);
    for (int token = 0; token < tokens; ++token) ASSERT_EQ(worker.set(name(token, false), 1), Worker::Outcome::done);
    for (std::uint64_t n = 0; n < 2000; ++n)  // several leaves
      ASSERT_EQ(this->set(worker, std::string(1, static_cast<char>('a' + n % tokens)) + "m" + std::to_string(n), n),
                Worker::Outcome::done);
  }
  std::atomic<bool> is_over{false};
  WritersRest rest;
  std::vector<std::thread> movers;
  for (int token = 0; token < tokens; ++token) {
    movers.emplace_back([&, token] {
      Worker worker(this->store);
      for (bool other = true; !is_over; other = !other) {
        EXPECT_EQ(worker.set(name(token, other), 1), Worker::Outcome::done);
        rest.rest_if_wanted();
        EXPECT_TRUE(worker.erase(name(token, !other)));
        rest.rest_if_wanted();
      }
    });
  }
  Worker worker(this->store);
  ScanCopies copies(4096);
  std::uint64_t proven = 0;
  for (int round = 0; round < 2000 && proven < 50u * effort; ++round) {
    rest.want(round % 4 >= 2);
    const typename Worker::Batch batch(worker);
    ScanStamp stamp;
    copies.clear();
    const ScanResult result = this->store.index.scan({.reverse = round % 2 == 1}, copies.capacity(), copies, stamp);
    const bool is_snapshot = stamp.is_unchanged();
    std::set<std::string> keys;
    for (std::uint32_t i = 0; i < result.count; ++i) keys.emplace(copies.item(i)->key());
    ASSERT_EQ(keys.size(), result.count);
    if (!is_snapshot) {
      std::this_thread::yield();
      continue;
    }
    ++proven;
    ASSERT_TRUE(result.done);
    for (int token = 0; token < tokens; ++token)
      ASSERT_TRUE(keys.contains(name(token, false)) || keys.contains(name(token, true))) << token;
  }
  is_over = true;
  rest.want(false);
  for (std::thread& mover : movers) mover.join();
  EXPECT_GT(proven, 0u);
}

// Writers of the same keys, one that evicts by location, growth, and a reader; then both have the same keys.
TYPED_TEST(OrderedIndex, ThreadsLeaveOneSetOfKeys) {
  using Worker = typename TestFixture::OrderedWorker;
  constexpr std::uint64_t keys = 3000;
  std::atomic<int> running{3};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Worker worker(this->store);
      std::mt19937_64 random(t);
      for (int step = 0; step < 3000 * effort; ++step) {
        const std::string key = key_of(random() % keys);
        switch (random() % 4) {
          case 0:
            (void)worker.erase(key);
            break;
          case 1: {
            const typename Worker::Batch batch(worker);
            Location some[tandem::Index::candidates_max];
            const std::uint32_t n = this->store.index.candidates(this->store.fingerprint(key), key, some);
            if (n != 0) (void)worker.evict(some[random() % n]);
            break;
          }
          default:
            (void)worker.set(key, random());
        }
      }
      --running;
    });
  }
  Worker worker(this->store);
  while (running != 0) {
    if (this->store.index.wants_growth()) (void)worker.grow();
    const std::vector<std::string> seen = this->scan(false, 64);
    ASSERT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    ASSERT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
  }
  for (std::thread& thread : threads) thread.join();
  std::string problem;
  this->expect_same(this->store.scan(problem));
}

}  // namespace
}  // namespace tandem
