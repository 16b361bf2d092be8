#include "index/slab_list/slab_index.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "index/cuckoo/index_test_support.hpp"
#include "index/slab_list/lanes_scalar.hpp"
#include "index/slab_list/slab_model.hpp"

namespace tandem {
namespace {

using Store = BasicTestStore<SlabListIndex>;
using Worker = BasicTestWorker<SlabListIndex>;

TEST(SlabMemory, ReservesByTheMemoryLimit) {
  constexpr std::uint64_t limit = std::uint64_t{512} << 20, slabs = 4 * limit / sizeof(Slab);
  MemoryBudget budget(limit);
  SlabMemory memory(UINT32_MAX / 8, false, budget);
  budget.set_limit(16 * limit);
  bool unmapped = true;
  EXPECT_FALSE(memory.extend(slabs + 1000, unmapped));
  EXPECT_FALSE(unmapped);
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_TRUE(memory.extend(slabs - 1000, unmapped));
}

// Any operations and growths, with fingerprints that collide in part and altogether, give a map's answers.
TEST(SlabList, IsAMap) {
  for (const SlabOps* ops : slab_ops_built()) {
    if (!ops->supported()) continue;
    for (const auto fingerprint : {&plain_fingerprint, &few_signatures<3>, &few_signatures<1>}) {
      SlabModel model(fingerprint, ops->name);
      std::mt19937_64 random(1);
      for (int step = 0; step < 4000 * effort; ++step) model.step(random() % 16, random() % 400);
      EXPECT_EQ(model.problem(), "") << ops->name;
      EXPECT_GT(model.store().index.bucket_count(), 100u);
    }
  }
}

// All keys of one bucket, removals in the middle of its chain, and a second insertion of a key behind a hole: one
// entry.
TEST(SlabList, AKeyBehindAHoleHasOneEntry) {
  Store store({.cells = 64, .fingerprint = few_signatures<1>});
  Worker worker(store);
  constexpr std::uint64_t keys = 1000;
  for (std::uint64_t n = 0; n < keys; ++n) ASSERT_EQ(worker.set(key_of(n), n), Worker::Outcome::done);
  EXPECT_EQ(store.index.chain_length(store.fingerprint(key_of(0))), (keys + slab_entries - 1) / slab_entries);
  for (std::uint64_t n = 0; n < keys; n += 10) ASSERT_TRUE(worker.erase(key_of(n)));
  for (std::uint64_t n = 1; n < keys; n += 10) ASSERT_EQ(worker.set(key_of(n), n + 5), Worker::Outcome::done);
  std::string problem;
  const auto all = store.scan(problem);
  EXPECT_EQ(problem, "");
  EXPECT_EQ(all.size(), keys / 10 * 9);
  for (std::uint64_t n = 0; n < keys; ++n) {
    const auto value = worker.get(key_of(n));
    ASSERT_EQ(value.has_value(), n % 10 != 0);
    EXPECT_EQ(value.value_or(0), n % 10 == 0 ? 0 : n % 10 == 1 ? n + 5 : n);
  }
}

TEST(SlabList, EmptiedSlabsAreUsedAgain) {
  Store store({.cells = 64, .fingerprint = few_signatures<1>});
  Worker worker(store);
  constexpr std::uint64_t keys = 310;
  std::uint64_t bytes = 0;
  for (int round = 0; round < 40 * effort; ++round) {
    for (std::uint64_t n = 0; n < keys; ++n) ASSERT_EQ(worker.set(key_of(n), n), Worker::Outcome::done);
    EXPECT_EQ(store.index.chain_length(store.fingerprint(key_of(0))), 10u);
    if (round == 3) bytes = store.index.table_bytes();
    for (std::uint64_t n = 0; n < keys; ++n) ASSERT_TRUE(worker.erase(key_of(n * 7 % keys)));
    EXPECT_EQ(store.index.chain_length(store.fingerprint(key_of(0))), 1u);
  }
  EXPECT_EQ(store.index.table_bytes(), bytes);
}

// A reader may still be in a slab that was emptied: it is not used again before the reader's epoch ends, and leads on.
TEST(SlabList, AnEmptiedSlabWaitsForItsReaders) {
  Store store({.cells = 64, .fingerprint = few_signatures<1>});
  Worker worker(store), reader(store);
  for (std::uint64_t n = 0; n < 3 * slab_entries; ++n) ASSERT_EQ(worker.set(key_of(n), n), Worker::Outcome::done);
  const Fingerprint f = store.fingerprint(key_of(0));
  const SlabView view = store.index.view();
  const std::uint64_t second = view.of(f)->next;
  ASSERT_NE(second, 0u);
  const Slab* const slab = view.more + (second - 1);
  const std::uint64_t third = slab->next;
  const auto refill = [&](std::uint64_t from) {
    for (std::uint64_t n = from; n < from + slab_entries; ++n)
      ASSERT_EQ(worker.set(key_of(n), n), Worker::Outcome::done);
  };
  {
    const Worker::Batch batch(reader);
    for (std::uint64_t n = slab_entries; n < 2 * slab_entries; ++n) ASSERT_TRUE(worker.erase(key_of(n)));
    EXPECT_EQ(view.of(f)->next, third);
    refill(1000);
    EXPECT_EQ(slab->next, third);
    for (const std::uint64_t key : slab->key) EXPECT_FALSE(is_slab_key(key));
    EXPECT_NE(view.more[third - 1].next, second);
  }
  refill(2000);
  EXPECT_NE(view.more[third - 1].next, 0u);
  bool is_back = false;
  for (const Slab* s = view.of(f); s->next != 0; s = view.more + (s->next - 1)) is_back |= s->next == second;
  EXPECT_TRUE(is_back);
}

TEST(SlabList, DividesBucketsOneAfterTheOther) {
  Store store({.cells = 128 * 32});
  Worker worker(store);
  ASSERT_EQ(store.index.bucket_count(), 128u);
  const std::uint64_t keys = 3000 * effort;
  std::set<std::uint32_t> counts;
  for (std::uint64_t n = 0; n < keys; ++n) {
    ASSERT_EQ(worker.set(key_of(n), n), Worker::Outcome::done);
    if (!store.index.wants_growth()) continue;
    const std::uint64_t bytes = store.index.table_bytes(), more = store.index.growth_bytes();
    ASSERT_TRUE(worker.grow());
    EXPECT_FALSE(store.index.wants_growth());
    EXPECT_GE(store.index.table_bytes(), bytes + more);
    EXPECT_EQ(store.budget.used_bytes() >= store.index.table_bytes(), true);
    EXPECT_TRUE(counts.insert(store.index.bucket_count()).second);
  }
  EXPECT_GT(store.index.bucket_count(), keys / 24);
  std::string problem;
  EXPECT_EQ(store.scan(problem).size(), keys);
  EXPECT_EQ(problem, "");
  for (std::uint64_t n = 0; n < keys; ++n) ASSERT_EQ(worker.get(key_of(n)), n);
  EXPECT_EQ(worker.second_looks, 0u) << "searches know the divided buckets";
}

// Each key of a divided bucket is in the bucket that its hash says, and nothing is left behind in longer chains.
TEST(SlabList, ADivisionTakesChainsApart) {
  Store store({.cells = 64, .load_grow = 100});
  Worker worker(store);
  ASSERT_EQ(store.index.bucket_count(), 2u);
  constexpr std::uint64_t keys = 4000;
  for (std::uint64_t n = 0; n < keys; ++n) ASSERT_EQ(worker.set(key_of(n), n), Worker::Outcome::done);
  while (store.index.bucket_count() < 256) ASSERT_TRUE(worker.grow());
  const SlabView view = store.index.view();
  std::uint64_t seen = 0;
  for (std::uint32_t b = 0; b < view.buckets.count; ++b) {
    std::uint64_t in_bucket = 0, slabs = 0;
    for (const Slab* slab = view.first + b; slab != nullptr;
         slab = slab->next != 0 ? view.more + (slab->next - 1) : nullptr) {
      ++slabs;
      for (const std::uint64_t key : slab->key) {
        if (key == 0) continue;
        ++in_bucket;
        EXPECT_EQ(view.buckets.of(fingerprint_of_slab_key(key)), b);
      }
    }
    EXPECT_LE(slabs, std::max<std::uint64_t>((in_bucket + slab_entries - 1) / slab_entries, 1));
    seen += in_bucket;
  }
  EXPECT_EQ(seen, keys);
}

// A reader of an earlier number of buckets has to look again: whatever is divided, its stripe has a new version.
TEST(SlabList, ADivisionIsAChangeOfItsStripe) {
  Store store({.cells = 256 * 32});
  Worker worker(store);
  const std::uint32_t buckets = store.index.bucket_count();
  ASSERT_EQ(buckets, 256u);
  std::map<std::uint32_t, Fingerprint> one_of;
  for (std::uint64_t n = 0; one_of.size() < buckets; ++n) {
    const Fingerprint f = store.fingerprint(key_of(n));
    one_of.emplace(store.index.view().buckets.of(f), f);
  }
  std::map<std::uint32_t, std::uint32_t> before;
  for (const auto& [bucket, f] : one_of) before[bucket] = store.index.stripe(f).version();
  ASSERT_TRUE(worker.grow());
  const std::uint32_t divided = store.index.bucket_count() - buckets;
  ASSERT_GT(divided, 0u);
  ASSERT_LT(divided, buckets);
  for (const auto& [bucket, f] : one_of)
    EXPECT_EQ(store.index.stripe(f).version(), before[bucket] + (bucket < divided ? 1 : 0)) << bucket;
}

TEST(SlabList, CandidatesAreOfTheWholeChain) {
  Store store({.cells = 64, .fingerprint = few_signatures<1>});
  Worker worker(store);
  constexpr std::uint64_t keys = 100;
  for (std::uint64_t n = 0; n < keys; ++n) ASSERT_EQ(worker.set(key_of(n), n), Worker::Outcome::done);
  const Worker::Batch batch(worker);
  std::set<Location> all;
  for (std::uint64_t n = 1000; n < 3000; ++n) {
    Location some[Index::candidates_max];
    const Fingerprint f = store.fingerprint(key_of(n));
    ASSERT_EQ(store.index.candidates(f, key_of(n), some), Index::candidates_max);
    const std::set<Location> now(some, some + Index::candidates_max);
    EXPECT_EQ(now.size(), Index::candidates_max);
    all.insert(now.begin(), now.end());
  }
  EXPECT_EQ(all.size(), keys);
}

// A chain without a slab to add evicts, and asks for growth, which is the first to get memory.
TEST(SlabList, WithoutMemoryAChainIsFull) {
  Store store({.cells = 64, .fingerprint = few_signatures<1>});
  Worker worker(store);
  ASSERT_EQ(worker.set(key_of(0), 0), Worker::Outcome::done);
  const std::uint64_t limit = store.budget.limit_bytes();
  store.budget.set_limit(store.budget.used_bytes());
  std::uint64_t n = 1;
  while (worker.set(key_of(n), n) == Worker::Outcome::done) ++n;
  EXPECT_EQ(n % slab_entries, 0u);
  EXPECT_TRUE(store.index.wants_growth());
  EXPECT_FALSE(worker.grow());
  EXPECT_FALSE(store.index.is_memory_refused());
  for (std::uint64_t i = 0; i < n; ++i) EXPECT_EQ(worker.get(key_of(i)), i);
  Location some[Index::candidates_max];
  {
    const Worker::Batch batch(worker);
    ASSERT_GT(store.index.candidates(store.fingerprint("new"), "new", some), 0u);
  }
  ASSERT_TRUE(worker.evict(some[0]));
  EXPECT_EQ(worker.set("new", 1), Worker::Outcome::done);
  store.budget.set_limit(limit);
  const std::uint64_t more = store.index.growth_bytes(), bytes = store.index.table_bytes();
  EXPECT_TRUE(worker.grow());
  EXPECT_EQ(store.index.table_bytes(), bytes + more);
  EXPECT_FALSE(store.index.wants_growth());
  EXPECT_EQ(worker.set("another", 2), Worker::Outcome::done);
}

// A growth that ends for want of memory is continued by the next one.
TEST(SlabList, AGrowthWithoutMemoryStaysOpen) {
  Store store({.cells = 64, .load_grow = 100, .fingerprint = few_signatures<1>});
  Worker worker(store);
  for (std::uint64_t n = 0; n < 40; ++n) ASSERT_EQ(worker.set(key_of(n), n), Worker::Outcome::done);
  const std::uint64_t limit = store.budget.limit_bytes();
  store.budget.set_limit(store.budget.used_bytes());
  const std::uint32_t buckets = store.index.bucket_count();
  EXPECT_TRUE(worker.grow()) << "to the end of the page";
  EXPECT_FALSE(worker.grow());
  EXPECT_GE(store.index.bucket_count(), buckets);
  store.budget.set_limit(limit);
  EXPECT_TRUE(worker.grow());
  EXPECT_GT(store.index.bucket_count(), buckets + 100);
  for (std::uint64_t n = 0; n < 40; ++n) EXPECT_EQ(worker.get(key_of(n)), n);
}

TEST(SlabList, MemoryIsTheBudgets) {
  EpochDomain epochs(4);
  MemoryBudget budget(std::uint64_t{4} << 20);
  Heap heap({}, budget, epochs);
  {
    const SlabListIndex index({.cells_initial = 1024, .huge_pages = false}, budget, epochs, heap);
    EXPECT_EQ(index.bucket_count(), 32u);
    EXPECT_EQ(index.cell_count(), 32u * slab_entries);
    EXPECT_EQ(index.table_bytes(), 32u * sizeof(Slab));
    EXPECT_EQ(budget.used_bytes(), index.table_bytes());
  }
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_THROW(SlabListIndex({.cells_initial = 1 << 20}, budget, epochs, heap), std::bad_alloc);
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_THROW(SlabListIndex({.cells_initial = 64, .ordered = true}, budget, epochs, heap), std::invalid_argument);
  EXPECT_THROW(SlabListIndex({.cells_initial = 64, .shard_bits = 1}, budget, epochs, heap), std::invalid_argument);
}

TEST(SlabLanes, AllFindTheSameEntries) {
  std::mt19937_64 random(1);
  Slab slab{};
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t few = round % 2 == 0 ? 3 : 1000;
    for (std::uint64_t& key : slab.key) key = random() % few * 0x0000000100000001;
    slab.next = random() % 5;
    const std::uint64_t key = random() % few * 0x0000000100000001;
    std::uint32_t expected = 0;
    for (std::uint32_t i = 0; i < slab_entries; ++i) expected |= (slab.key[i] == key ? 1u : 0u) << i;
    for (const SlabOps* ops : slab_ops_built()) {
      if (ops->supported()) {
        EXPECT_EQ(ops->entries_with(&slab, key), expected) << ops->name;
      }
    }
  }
  EXPECT_THROW(slab_ops_named("none"), std::invalid_argument);
}

}  // namespace
}  // namespace tandem
