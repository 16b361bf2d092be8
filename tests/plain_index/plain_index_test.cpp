// The contract of an index kind (index/index_kind.hpp), on the cuckoo table and on the simplest kind that there is; and
// an ordered scan on the latter.
#include "plain_index.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "index/cuckoo/index_test_support.hpp"

namespace tandem {
namespace {

struct MayThrow : PlainIndex {
  using PlainIndex::PlainIndex;
  std::uint32_t search_first(const Fingerprint*, std::uint32_t, Location*) const;
};
static_assert(!IndexKind<MayThrow>);
static_assert(IndexKind<CuckooIndex> && DeviceSearches<CuckooIndex> && DeviceChanges<CuckooIndex>);

template <class I>
class IndexKindContract : public testing::Test {};
using Kinds = testing::Types<CuckooIndex, PlainIndex>;
TYPED_TEST_SUITE(IndexKindContract, Kinds, );

TYPED_TEST(IndexKindContract, IsAMap) {
  using Worker = BasicTestWorker<TypeParam>;
  BasicTestStore<TypeParam> store({.cells = 512});
  Worker worker(store);
  std::map<std::string, std::uint64_t> model;
  std::mt19937_64 random(1);
  for (int step = 0; step < 60'000; ++step) {
    const std::string key = key_of(random() % 3000);
    const std::uint64_t value = random();
    const bool known = model.contains(key);
    switch (random() % 8) {
      case 0:
        ASSERT_EQ(worker.erase(key), known);
        model.erase(key);
        break;
      case 1:
        ASSERT_EQ(worker.touch(key, 7), known);
        break;
      case 2: {
        const auto outcome = worker.set(key, value, true);
        ASSERT_NE(outcome, known ? Worker::Outcome::done : Worker::Outcome::refused);
        if (outcome == Worker::Outcome::done) model.emplace(key, value);
        break;
      }
      case 3:
      case 4: {
        const auto outcome = worker.set(key, value);
        ASSERT_NE(outcome, Worker::Outcome::refused);
        if (outcome == Worker::Outcome::done) model[key] = value;
        break;
      }
      default: {
        const auto found = worker.get(key);
        ASSERT_EQ(found.has_value(), known) << key;
        if (known) {
          ASSERT_EQ(*found, model[key]);
        }
      }
    }
    if (store.index.wants_growth()) {
      ASSERT_TRUE(worker.grow());
    }
  }
  std::string problem;
  EXPECT_EQ(store.scan(problem), model);
  EXPECT_EQ(problem, "");
  EXPECT_GE(store.index.cell_count(), 2048u);
}

TYPED_TEST(IndexKindContract, SaysWhenItHasNoRoomAndGoesOnOnceItHasGrown) {
  using Worker = BasicTestWorker<TypeParam>;
  BasicTestStore<TypeParam> store({.cells = 512});
  Worker worker(store);
  std::uint64_t n = 0;
  while (worker.set(key_of(n), n) == Worker::Outcome::done) ++n;
  EXPECT_GE(n, 256u);
  EXPECT_TRUE(store.index.wants_growth());
  {
    const typename Worker::Batch batch(worker);
    Location some[16];
    const std::uint32_t count = store.index.candidates(store.fingerprint(key_of(n)), key_of(n), some);
    ASSERT_GE(count, 1u);
    for (std::uint32_t i = 0; i < count; ++i)
      EXPECT_EQ(Item::state_of(store.heap.at(some[i])->state_acquire()), ItemState::live);
  }
  ASSERT_TRUE(worker.grow());
  EXPECT_FALSE(store.index.wants_growth());
  EXPECT_EQ(worker.set(key_of(n), n), Worker::Outcome::done);
  for (std::uint64_t i = 0; i <= n; ++i) EXPECT_EQ(worker.get(key_of(i)), i);
}

TYPED_TEST(IndexKindContract, AGuardFindsByLocationWhatIsLive) {
  BasicTestStore<TypeParam> store;
  BasicTestWorker<TypeParam> worker(store);
  ASSERT_EQ(worker.set("a", 1), BasicTestWorker<TypeParam>::Outcome::done);
  Location l = no_location;
  store.index.for_each_location([&](Location each) { l = each; });
  EXPECT_EQ(worker.evict(l), "a");
  EXPECT_EQ(worker.evict(l), std::nullopt);
  EXPECT_EQ(worker.get("a"), std::nullopt);
  EXPECT_EQ(store.index.item_count(), 0u);
}

TYPED_TEST(IndexKindContract, NoIncrementIsLostAndNoReaderMissesAKeyThatIsThere) {
  BasicTestStore<TypeParam> store({.cells = 1 << 12});
  constexpr int threads = 4, keys = 20, increments = 500 * effort;
  std::atomic<bool> is_over{false};
  {
    BasicTestWorker<TypeParam> worker(store);
    for (int k = 0; k < keys; ++k) ASSERT_TRUE(worker.increment(key_of(static_cast<std::uint64_t>(k))));
  }
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      BasicTestWorker<TypeParam> worker(store);
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < increments; ++i) EXPECT_TRUE(worker.increment(key_of(random() % keys)));
    });
  }
  std::thread reader([&] {
    BasicTestWorker<TypeParam> worker(store);
    std::vector<std::uint64_t> last(keys, 1);
    while (!is_over) {
      for (std::uint64_t k = 0; k < keys; ++k) {
        const auto value = worker.get(key_of(k));
        ASSERT_TRUE(value && *value >= last[k]);
        last[k] = *value;
      }
    }
  });
  for (std::thread& t : all) t.join();
  is_over = true;
  reader.join();
  BasicTestWorker<TypeParam> worker(store);
  std::uint64_t sum = 0;
  for (std::uint64_t k = 0; k < keys; ++k) sum += worker.get(key_of(k)).value_or(0);
  EXPECT_EQ(sum, static_cast<std::uint64_t>(keys + threads * increments));
}

// --- ordered scan

constexpr std::size_t store_keys_max = 1000;  // a scan that gets nowhere ends, too

std::vector<std::string> scan_all(PlainIndex& index, ScanRange range, std::uint32_t at_once) {
  std::vector<std::string> keys;
  ScanCopies copies(at_once);
  std::string last;
  for (;;) {
    ScanStamp stamp;
    copies.clear();
    const ScanResult result = index.scan(range, at_once, copies, stamp);
    EXPECT_TRUE(result.done || result.count == at_once);
    for (std::uint32_t i = 0; i < result.count; ++i) {
      EXPECT_EQ(Item::state_of(copies.version(i).state), ItemState::live);
      keys.emplace_back(copies.item(i)->key());
    }
    if (result.done || keys.size() > store_keys_max) return keys;
    last = keys.back();
    if (range.reverse) {
      range.end = last;
    } else {
      range.begin = last;
      range.after_begin = true;
    }
  }
}

TEST(OrderedScan, GivesTheRangeInTheOrderOfBytes) {
  BasicTestStore<PlainIndex> store;
  BasicTestWorker<PlainIndex> worker(store);
  const std::set<std::string> all{"a", "a\x01", "ab", "b", "ba", "\x7f", "\x80", "\xff\xff"};
  for (const std::string& key : all) ASSERT_EQ(worker.set(key, 1), BasicTestWorker<PlainIndex>::Outcome::done);
  const BasicTestWorker<PlainIndex>::Batch batch(worker);
  const auto between = [&](const std::string& begin, const std::string& end) {
    std::vector<std::string> keys;
    for (const std::string& key : all) {
      if (key >= begin && (end.empty() || key < end)) keys.push_back(key);
    }
    return keys;
  };
  for (const std::string& begin : all) {
    for (const std::string end : {"", "a", "ab", "b", "\x80", "\xff\xff"}) {
      for (const std::uint32_t at_once : {1u, 2u, 3u, 100u}) {
        EXPECT_EQ(scan_all(store.index, {.begin = begin, .end = end}, at_once), between(begin, end));
        std::vector<std::string> down = scan_all(store.index, {.begin = begin, .end = end, .reverse = true}, at_once);
        std::reverse(down.begin(), down.end());
        EXPECT_EQ(down, between(begin, end));
      }
    }
  }
  ScanCopies copy(1);
  ScanStamp stamp;
  const ScanResult last = store.index.scan({.begin = "\xff\xff"}, 1, copy, stamp);
  EXPECT_EQ(last.count, 1u);
  EXPECT_TRUE(last.done);
  stamp.clear();
  copy.clear();
  EXPECT_EQ(store.index.scan({.begin = "\xff\xff", .after_begin = true}, 1, copy, stamp).count, 0u);
}

// Keys that stay are in every scan, whatever is written beside them.
TEST(OrderedScan, MissesNothingThatStays) {
  BasicTestStore<PlainIndex> store;
  {
    BasicTestWorker<PlainIndex> worker(store);
    for (std::uint64_t n = 0; n < 100; n += 2) (void)worker.set(key_of(n), n);
  }
  std::atomic<bool> is_over{false};
  std::thread writer([&] {
    BasicTestWorker<PlainIndex> worker(store);
    std::mt19937_64 random(1);
    while (!is_over) {
      const std::string key = key_of(random() % 50 * 2 + 1);
      if (random() % 2 == 0) {
        (void)worker.set(key, 1);
      } else {
        (void)worker.erase(key);
      }
      (void)worker.set(key_of(random() % 50 * 2), 2);
    }
  });
  BasicTestWorker<PlainIndex> worker(store);
  for (int round = 0; round < 100 * effort; ++round) {
    const BasicTestWorker<PlainIndex>::Batch batch(worker);
    const std::vector<std::string> keys = scan_all(store.index, {.begin = ""}, 7);
    ASSERT_TRUE(std::is_sorted(keys.begin(), keys.end()));
    const std::set<std::string> seen(keys.begin(), keys.end());
    ASSERT_EQ(seen.size(), keys.size());
    for (std::uint64_t n = 0; n < 100; n += 2) ASSERT_TRUE(seen.contains(key_of(n))) << n;
  }
  is_over = true;
  writer.join();
}

}  // namespace
}  // namespace tandem
