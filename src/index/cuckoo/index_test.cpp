#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <unordered_map>

#include "index/cuckoo/cuckoo_index.hpp"
#include "index/cuckoo/index_test_support.hpp"

namespace tandem {
namespace {

std::vector<std::string> lane_names() {
  std::vector<std::string> names;
  for (const CuckooOps* ops : cuckoo_ops_built()) {
    if (ops->supported()) names.emplace_back(ops->name);
  }
  return names;
}

class IndexOnLanes : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Lanes, IndexOnLanes, testing::ValuesIn(lane_names()),
                         [](const auto& test) { return test.param; });

// Random operations against std::unordered_map, up to load 0.95 and with growth in between.
void run_against_model(TestStore& store, std::uint64_t keys, std::uint64_t operations, std::uint64_t seed,
                       bool may_grow) {
  TestWorker worker(store);
  std::unordered_map<std::string, std::uint64_t> model;
  std::uint64_t random = seed;
  for (std::uint64_t i = 0; i < operations; ++i) {
    random = mix_bits(random + 0x9E3779B97F4A7C15ULL);
    const std::string key = key_of((random >> 8) % keys);
    const auto it = model.find(key);
    // More sets than erases, so that nearly all keys are present at once.
    if (random % 16 < 6) {
      const TestWorker::Outcome outcome = worker.set(key, random);
      if (outcome == TestWorker::Outcome::done) model[key] = random;
      ASSERT_EQ(outcome == TestWorker::Outcome::no_room, false)
          << "at load " << static_cast<double>(model.size()) / static_cast<double>(store.index.cell_count());
    } else if (random % 16 == 6) {
      ASSERT_EQ(worker.erase(key), it != model.end());
      if (it != model.end()) model.erase(it);
    } else if (random % 16 == 7) {
      const TestWorker::Outcome outcome = worker.set(key, random, true);
      ASSERT_EQ(outcome, it != model.end() ? TestWorker::Outcome::refused : TestWorker::Outcome::done);
      if (it == model.end()) model[key] = random;
    } else {
      const auto got = worker.get(key);
      ASSERT_EQ(got.has_value(), it != model.end());
      ASSERT_EQ(got.value_or(0), it != model.end() ? it->second : 0);
    }
    if (may_grow && (i % 64 == 0 || store.index.cell_count() < 4096) && store.index.wants_growth()) {
      ASSERT_TRUE(worker.grow());
    }
  }
  std::string problem;
  const auto all = store.scan(problem);
  EXPECT_EQ(problem, "");
  EXPECT_EQ(all.size(), model.size());
  for (const auto& [key, value] : model) {
    const auto it = all.find(key);
    ASSERT_NE(it, all.end()) << key << " is lost";
    ASSERT_EQ(it->second, value);
  }
}

TEST_P(IndexOnLanes, AnswersLikeAMap) {
  for (const std::uint64_t cells : {512u, 1u << 12, 1u << 15}) {
    TestStore store({.cells = cells, .load_grow = 2, .lanes = GetParam()});
    run_against_model(store, cells * 95 / 100, std::max<std::uint64_t>(cells * 4, 5000) * effort, cells, false);
  }
}

TEST_P(IndexOnLanes, AnswersLikeAMapWhileItGrows) {
  TestStore store({.cells = 1, .lanes = GetParam()});
  EXPECT_EQ(store.index.cell_count(), 512u) << "a page";
  run_against_model(store, 20'000, 40'000 * effort, 5, true);
  EXPECT_GE(store.index.cell_count(), 1u << 14);
}

TEST_P(IndexOnLanes, AnswersLikeAMapWithEqualSignatures) {
  TestStore store({.cells = 512, .fingerprint = few_signatures<64>, .lanes = GetParam()});
  run_against_model(store, 3000, 20'000 * effort, 6, true);
  TestStore one({.cells = 512, .load_grow = 2, .fingerprint = few_signatures<1>, .lanes = GetParam()});
  run_against_model(one, 100, 5'000 * effort, 7, false);
}

TEST(CuckooIndex, SearchesStripsOfAnyLength) {
  for (const std::uint64_t cells : {1u << 10, 1u << 18}) {  // both orders of work
    TestStore store({.cells = cells});
    TestWorker worker(store);
    std::vector<Fingerprint> f;
    for (std::uint64_t n = 0; n < 700; ++n) {
      if (n % 3 != 0) worker.set(key_of(n), n);
      f.push_back(store.fingerprint(key_of(n)));
    }
    const TestWorker::Batch batch(worker);
    for (const std::uint32_t count : {0u, 1u, 2u, 31u, 32u, 33u, 127u, 128u, 129u, 300u, 700u}) {
      std::vector<Location> location(count + 1, 0xabcdef);
      for (std::uint32_t k = 0; k < count; ++k) store.index.prefetcher()(f[k]);
      store.index.search(f.data(), count, location.data());
      EXPECT_EQ(location[count], 0xabcdefu);
      for (std::uint32_t i = 0; i < count; ++i) {
        ASSERT_EQ(location[i] != no_location, i % 3 != 0);
        if (location[i] == no_location) continue;
        ASSERT_EQ(store.heap.at(location[i])->key(), key_of(i));
      }
      if (count > 32) continue;
      std::vector<Location> steps(count + 1, 0xabcdef);
      const std::uint32_t left = store.index.search_first(f.data(), count, steps.data());
      for (std::uint32_t i = 0; i < count; ++i) ASSERT_TRUE(steps[i] == location[i] || (left >> i & 1) != 0);
      store.index.search_second(f.data(), left, steps.data());
      location.back() = steps.back();
      EXPECT_EQ(steps, location);
    }
  }
}

TEST(CuckooIndex, HoldsLoad95WithoutLoss) {
  TestStore store({.cells = 1 << 15, .load_grow = 2});
  TestWorker worker(store);
  const std::uint64_t keys = (1 << 15) * 95 / 100;
  for (std::uint64_t n = 0; n < keys; ++n) ASSERT_EQ(worker.set(key_of(n), n), TestWorker::Outcome::done) << n;
  EXPECT_GT(worker.rooms, 0u);
  for (std::uint64_t n = 0; n < keys; ++n) ASSERT_EQ(worker.get(key_of(n)), n);
  std::string problem;
  EXPECT_EQ(store.scan(problem).size(), keys);
  EXPECT_EQ(problem, "");
}

TEST(CuckooIndex, FullTableSaysSoNamesCandidatesAndTakesTheKeyAfterAnEviction) {
  const auto same = [](std::string_view, std::uint64_t) { return Fingerprint{0x1234567, 0x89}; };
  TestStore store({.load_grow = 2, .fingerprint = same});
  TestWorker worker(store);
  std::uint64_t n = 0;
  while (worker.set(key_of(n), n) == TestWorker::Outcome::done) ++n;
  EXPECT_EQ(n, 16u) << "every cell of both buckets is used before they are full";
  EXPECT_TRUE(store.index.wants_growth()) << "make_room failed";
  const Fingerprint f = store.fingerprint(key_of(n));
  Location candidates[16];
  {
    const TestWorker::Batch batch(worker);
    ASSERT_EQ(store.index.candidates(f, key_of(n), candidates), 16u);
  }
  EXPECT_EQ(std::set<Location>(candidates, candidates + 16).size(), 16u);
  ASSERT_TRUE(worker.evict(candidates[3]).has_value());
  EXPECT_EQ(worker.set(key_of(n), n), TestWorker::Outcome::done);
  EXPECT_EQ(worker.get(key_of(n)), n);
  EXPECT_EQ(store.index.item_count(), 16u);
}

TEST(CuckooIndex, PutThatFindsNoRoomChangesNothing) {
  TestStore store({.cells = 512, .load_grow = 2});
  TestWorker worker(store);
  std::uint64_t n = 0;
  while (worker.set(key_of(n), n) == TestWorker::Outcome::done) ++n;
  const std::uint64_t items = store.index.item_count();
  const TestWorker::Batch batch(worker);
  const std::string key = key_of(n);
  Location l = no_location;
  {
    const Heap::Cache::Lock lock(worker.cache);
    l = store.heap.allocate(worker.cache, store.heap.size_class(64), 64);
    store.heap.format(l, key, 0, 8, 0, 0, false);
  }
  const StripeWord before = store.index.stripe(store.fingerprint(key));
  {
    CuckooIndex::Guard guard = store.index.lock(store.fingerprint(key));
    ASSERT_EQ(guard.find(std::string_view(key)), nullptr);
    ASSERT_EQ(guard.put(l, TestWorker::live), CuckooIndex::Put::needs_room);
  }
  EXPECT_EQ(store.index.stripe(store.fingerprint(key)).bits, before.bits);
  EXPECT_EQ(Item::state_of(store.heap.at(l)->state_acquire()), ItemState::filling);
  EXPECT_EQ(store.index.item_count(), items);
  const Heap::Cache::Lock lock(worker.cache);
  store.heap.release(worker.cache, l);
}

// Write protocol 3: old -> dead, new -> live, the key's one cell; delete marks dead.
TEST(Guard, ReplacingKillsTheOldItemAndKeepsItsCell) {
  TestStore store;
  TestWorker worker(store);
  worker.set("k", 1);
  const TestWorker::Batch batch(worker);
  ItemVersion seen;
  Item* const first = store.index.find(store.fingerprint("k"), "k", seen);
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(seen.is_live());
  std::vector<Cell> cells;
  store.index.for_each_cell([&](const Table&, std::uint64_t, Cell c) { cells.push_back(c); });
  worker.set("k", 2);
  EXPECT_EQ(Item::state_of(first->state_acquire()), ItemState::dead);
  Item* const second = store.index.find(store.fingerprint("k"), "k", seen);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  std::size_t count = 0;
  store.index.for_each_cell([&](const Table&, std::uint64_t, Cell c) {
    ++count;
    EXPECT_EQ(c.location(), store.heap.location_of(second));
    EXPECT_EQ(c.signature(), cells[0].signature());
  });
  EXPECT_EQ(count, 1u);
}

// A reader that misses looks again if the version has changed; one that has the location sees that the item is dead.
TEST(Guard, EachChangeMovesTheVersionAndAnErasedItemIsDead) {
  TestStore store;
  TestWorker worker(store);
  const Fingerprint f = store.fingerprint("k");
  const std::uint32_t before = store.index.stripe(f).version();
  worker.set("k", 1);
  EXPECT_EQ(store.index.stripe(f).version(), before + 1);
  const TestWorker::Batch batch(worker);
  ItemVersion seen;
  const Item* const item = store.index.find(f, "k", seen);
  ASSERT_NE(item, nullptr);
  {
    CuckooIndex::Guard guard = store.index.lock(f);
    ASSERT_EQ(guard.find(std::string_view("k")), item);
    EXPECT_TRUE(guard.erase());
  }
  EXPECT_EQ(store.index.stripe(f).version(), before + 2);
  EXPECT_EQ(Item::state_of(item->state_acquire()), ItemState::dead);
}

TEST(Guard, SeveralChangesUnderOneHold) {
  TestStore store;
  TestWorker worker(store);
  worker.set("k", 1);
  const TestWorker::Batch batch(worker);
  const StripeWord before = store.index.stripe(store.fingerprint("k"));
  Location old = no_location;
  {
    CuckooIndex::Guard guard = store.index.lock(store.fingerprint("k"));
    EXPECT_TRUE(store.index.stripe(store.fingerprint("k")).locked());
    Item* const item = guard.find(std::string_view("k"));
    ASSERT_NE(item, nullptr);
    old = store.heap.location_of(item);
    EXPECT_TRUE(guard.update_state(word::Stale::mask | word::ExpiryS::mask,
                                   word::Stale::put(0, 1) | word::ExpiryS::put(0, 77)));
    EXPECT_EQ(Item::expiry_of(item->state_acquire()), 77u);
    EXPECT_EQ(word::Stale::get(item->state_acquire()), 1u);
    EXPECT_EQ(Item::state_of(item->state_acquire()), ItemState::live);
    EXPECT_TRUE(guard.update_state(word::Stale::mask, 0));
    EXPECT_EQ(Item::expiry_of(item->state_acquire()), 77u) << "bits outside the mask stay";
    EXPECT_EQ(guard.find(old), item);
    EXPECT_EQ(guard.find(old + 1), nullptr);
    EXPECT_EQ(guard.find(std::string_view("k")), item);
    EXPECT_TRUE(guard.erase());
    EXPECT_EQ(guard.find(std::string_view("k")), nullptr);
  }
  const StripeWord after = store.index.stripe(store.fingerprint("k"));
  EXPECT_FALSE(after.locked());
  EXPECT_NE(after.version(), before.version());
  const Heap::Cache::Lock lock(worker.cache);
  store.heap.retire(worker.cache, old);
}

// A hint spares a search, and is never more: whatever cell it names, what is found is the key's item, or none.
TEST(Guard, LooksAtAHintFirst) {
  TestStore store;
  TestWorker worker(store);
  worker.set("k", 1);
  worker.set("other", 1);
  const TestWorker::Batch batch(worker);
  const Fingerprint f = store.fingerprint("k");
  const IndexView view = store.index.searched().view;
  const auto cell_of = [&](Fingerprint of) -> std::uint64_t* {
    for (const std::uint32_t b : {view.first(of), view.second(of)}) {
      for (std::uint64_t& cell : view.buckets[b].cell) {
        if (Cell{cell}.signature() == of.signature) return &cell;
      }
    }
    return nullptr;
  };
  std::uint64_t* const mine = cell_of(f);
  std::uint64_t* const others = cell_of(store.fingerprint("other"));
  ASSERT_TRUE(mine != nullptr && others != nullptr);
  std::uint64_t elsewhere = *mine, outside[2] = {*mine, 0};
  for (const std::uint64_t* const hint :
       {static_cast<const std::uint64_t*>(mine), static_cast<const std::uint64_t*>(others),
        static_cast<const std::uint64_t*>(&elsewhere), &std::as_const(outside[0])}) {
    CuckooIndex::Guard guard = store.index.lock(f);
    Item* const item = guard.find("k", no_location, hint);
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(item->key(), "k");
    EXPECT_EQ(store.heap.location_of(item), Cell{*mine}.location());
  }
  CuckooIndex::Guard guard = store.index.lock(f);
  EXPECT_EQ(guard.find("absent", no_location, mine), nullptr);
  ASSERT_NE(guard.find("k", no_location, mine), nullptr);
  EXPECT_TRUE(guard.erase());
  EXPECT_EQ(*mine, 0u);  // its cell was remembered
  EXPECT_EQ(guard.find("k", no_location, mine), nullptr);
}

TEST(Guard, LookingChangesNoVersion) {
  TestStore store;
  TestWorker worker(store);
  worker.set("k", 1);
  const TestWorker::Batch batch(worker);
  const StripeWord before = store.index.stripe(store.fingerprint("k"));
  {
    CuckooIndex::Guard guard = store.index.lock(store.fingerprint("k"));
    EXPECT_NE(guard.find(std::string_view("k")), nullptr);
  }
  EXPECT_EQ(store.index.stripe(store.fingerprint("k")).bits, before.bits);
}

// Keys that share both buckets and the signature are distinguished by their bytes alone.
TEST(Guard, EqualFingerprintsInSeveralCells) {
  const auto same = [](std::string_view, std::uint64_t) { return Fingerprint{0x1234567, 0x89}; };
  TestStore store({.cells = 256, .load_grow = 2, .fingerprint = same});
  TestWorker worker(store);
  for (std::uint64_t n = 0; n < 16; ++n) ASSERT_EQ(worker.set(key_of(n), n), TestWorker::Outcome::done);
  EXPECT_EQ(worker.set(key_of(16), 16), TestWorker::Outcome::no_room);
  for (std::uint64_t n = 0; n < 16; ++n) ASSERT_EQ(worker.get(key_of(n)), n);
  ASSERT_EQ(worker.set(key_of(9), 99), TestWorker::Outcome::done) << "a replacement needs no room";
  ASSERT_TRUE(worker.erase(key_of(4)));
  for (std::uint64_t n = 0; n < 16; ++n) {
    const auto got = worker.get(key_of(n));
    ASSERT_EQ(got.has_value(), n != 4);
    ASSERT_EQ(got.value_or(4), n == 9 ? 99 : n);
  }
  ASSERT_EQ(worker.set(key_of(16), 16), TestWorker::Outcome::done);
  std::string problem;
  EXPECT_EQ(store.scan(problem).size(), 16u);
  EXPECT_EQ(problem, "");
}

TEST(Guard, FindByLocationFollowsReplacement) {
  TestStore store;
  TestWorker worker(store);
  worker.set("k", 1);
  Location candidates[16];
  Location first = no_location;
  {
    const TestWorker::Batch batch(worker);
    ASSERT_EQ(store.index.candidates(store.fingerprint("k"), "k", candidates), 1u);
    first = candidates[0];
  }
  worker.set("k", 2);
  EXPECT_EQ(worker.evict(first), std::nullopt) << "that item is dead";
  EXPECT_EQ(worker.get("k"), 2u);
  {
    const TestWorker::Batch batch(worker);
    ASSERT_EQ(store.index.candidates(store.fingerprint("k"), "k", candidates), 1u);
  }
  EXPECT_EQ(worker.evict(candidates[0]), "k");
  EXPECT_EQ(worker.get("k"), std::nullopt);
}

TEST(CuckooIndex, DrawsItsTablesOnTheBudget) {
  EpochDomain epochs(4);
  MemoryBudget budget(1 << 20);
  Heap heap({}, budget, epochs);
  const IndexOptions options{.cells_initial = 1 << 16};
  {
    CuckooIndex index(options, budget, epochs, heap);
    EXPECT_EQ(index.table_bytes(), 1u << 19);
    EXPECT_EQ(budget.used_bytes(), 1u << 19);
    EpochDomain::Participant self(epochs);
    EXPECT_FALSE(index.grow(self)) << "the doubled table passes the limit beside the old one";
    EXPECT_EQ(budget.used_bytes(), 1u << 19);
    EXPECT_EQ(index.cell_count(), 1u << 16);
  }
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_THROW(CuckooIndex({.cells_initial = 1 << 18}, budget, epochs, heap), std::bad_alloc);
  EXPECT_THROW(CuckooIndex({.lanes = "abacus"}, budget, epochs, heap), std::invalid_argument);
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST(Table, IsZeroedAlignedAndAccounted) {
  MemoryBudget budget(std::uint64_t{64} << 20);
  for (const bool huge_pages : {false, true}) {
    for (const std::uint64_t buckets : {2u, 64u, 1u << 16}) {
      const auto table = Table::make(buckets, 7, huge_pages, budget);
      ASSERT_TRUE(table);
      EXPECT_EQ(table->bytes(), buckets * 64);
      EXPECT_EQ(budget.used_bytes(), buckets * 64);
      EXPECT_EQ(table->serial(), 7u);
      const IndexView view = table->view();
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.buckets) % 64, 0u);
      EXPECT_EQ(table->index_of(&view.buckets[1].cell[3]), 11u);
      for (std::uint64_t b = 0; b < buckets; ++b) {
        for (const std::uint64_t cell : view.buckets[b].cell) ASSERT_EQ(cell, 0u);
      }
      view.buckets[buckets - 1].cell[7] = 1;  // the last byte is mapped
    }
    EXPECT_EQ(budget.used_bytes(), 0u);
  }
  EXPECT_FALSE(Table::make(1 << 21, 1, true, budget)) << "past the budget";
  EXPECT_EQ(budget.used_bytes(), 0u);
}

}  // namespace
}  // namespace tandem
