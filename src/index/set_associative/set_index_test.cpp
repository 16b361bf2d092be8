#include "index/set_associative/set_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "index/cuckoo/index_test_support.hpp"
#include "index/set_associative/set_index-inl.hpp"
#include "index/set_associative/set_model.hpp"

namespace tandem {
namespace {

using Validated = SetAssociativeIndex;
using Locked = BasicSetIndex<16, SetReading::locked>;

template <class I>
class SetIndex : public testing::Test {};
using Kinds = testing::Types<Validated, Locked, BasicSetIndex<1>, BasicSetIndex<2>, BasicSetIndex<4>, BasicSetIndex<8>>;
TYPED_TEST_SUITE(SetIndex, Kinds, );

// Any operations, with fingerprints that collide in part and altogether, give a map's answers but for what was evicted;
// and what is evicted is what LRU says.
TYPED_TEST(SetIndex, IsAMapThatEvictsTheLeastRecentlyUsed) {
  for (const auto fingerprint : {&plain_fingerprint, &few_signatures<3>, &few_signatures<1>}) {
    SetModel<TypeParam> model(64, fingerprint);
    std::mt19937_64 random(1);
    for (int step = 0; step < 3000 * effort; ++step) model.step(random() % 8, random() % 120);
    EXPECT_EQ(model.problem(), "");
    EXPECT_GT(model.evictions(), 100u);
    EXPECT_EQ(model.store().index.evictions(), model.evictions());
  }
}

// A writer that stops at the first free way would add the key a second time.
TEST(SetIndexHoles, AFreedEarlierWayMakesNoSecondEntry) {
  for (std::uint64_t erased = 0; erased < 15; ++erased) {
    BasicTestStore<Validated> store({.cells = 16});
    ASSERT_EQ(store.index.cell_count(), 16u);
    BasicTestWorker<Validated> worker(store);
    for (std::uint64_t n = 0; n < 16; ++n)
      ASSERT_EQ(worker.set(key_of(n), n), BasicTestWorker<Validated>::Outcome::done);
    ASSERT_TRUE(worker.erase(key_of(erased)));
    ASSERT_EQ(worker.set(key_of(15), 100), BasicTestWorker<Validated>::Outcome::done);
    std::string problem;
    const auto all = store.scan(problem);
    EXPECT_EQ(problem, "");
    EXPECT_EQ(all.size(), 15u);
    EXPECT_EQ(all.at(key_of(15)), 100u);
    ASSERT_TRUE(worker.erase(key_of(15)));
    EXPECT_EQ(worker.get(key_of(15)), std::nullopt);
  }
}

TEST(SetIndexRoom, AFullSetSaysSoUntilItsVictimIsGone) {
  BasicTestStore<Validated> store({.cells = 16});
  BasicTestWorker<Validated> worker(store);
  std::atomic<std::uint32_t> clock{0xfffffff0};  // wraps on the way
  store.index.stamps().give(clock);
  for (std::uint64_t n = 0; n < 16; ++n) {
    ASSERT_EQ(worker.set(key_of(n), n), BasicTestWorker<Validated>::Outcome::done);
    clock += 3;
  }
  EXPECT_FALSE(store.index.grows());
  EXPECT_FALSE(store.index.wants_growth());
  EXPECT_EQ(worker.set("new", 1), BasicTestWorker<Validated>::Outcome::no_room);
  EXPECT_EQ(worker.get("new"), std::nullopt);
  const BasicTestWorker<Validated>::Batch batch(worker);
  Location oldest[16];
  ASSERT_EQ(store.index.candidates(store.fingerprint("new"), "new", oldest), 16u);
  for (std::uint64_t n = 0; n < 16; ++n) EXPECT_EQ(store.heap.at(oldest[n])->key(), key_of(n));
  {
    Validated::Guard guard = store.index.lock(store.fingerprint("new"));
    ASSERT_EQ(guard.find(std::string_view("new")), nullptr);
    EXPECT_FALSE(guard.has_room());
    const Item* const victim = guard.find_victim();
    ASSERT_NE(victim, nullptr);
    EXPECT_EQ(victim->key(), key_of(0));
    ASSERT_TRUE(guard.erase());
    EXPECT_TRUE(guard.has_room());
    EXPECT_EQ(Item::state_of(victim->state_acquire()), ItemState::dead);
  }
  EXPECT_TRUE(store.index.make_room(store.fingerprint("new"), "new"));
  EXPECT_EQ(worker.set("new", 1), BasicTestWorker<Validated>::Outcome::done);
  EXPECT_EQ(store.index.evictions(), 1u);
}

// A hit makes an entry the youngest; another thread's stamp that is ahead of this one's clock does not make it the
// oldest.
TEST(SetIndexRoom, AccessesDecideWhoGoes) {
  BasicTestStore<Validated> store({.cells = 16});
  BasicTestWorker<Validated> worker(store);
  std::atomic<std::uint32_t> clock{100};
  store.index.stamps().give(clock);
  for (std::uint64_t n = 0; n < 16; ++n, ++clock) (void)worker.set(key_of(n), n);
  const auto location_of = [&](std::uint64_t n) {
    Location l = no_location;
    store.index.for_each_location([&](Location each) {
      if (store.heap.at(each)->key() == key_of(n)) l = each;
    });
    return l;
  };
  store.index.note_access(store.fingerprint(key_of(0)), location_of(0), clock);
  store.index.note_access(store.fingerprint(key_of(1)), location_of(1), clock + 5);
  store.index.note_access(store.fingerprint(key_of(2)), location_of(3), clock);  // not this key's: nothing
  ASSERT_TRUE(worker.touch(key_of(3), 7));
  Location oldest[16];
  ASSERT_EQ(store.index.candidates(store.fingerprint("any"), "any", oldest), 16u);
  std::vector<std::string> order;
  for (const Location l : oldest) order.emplace_back(store.heap.at(l)->key());
  EXPECT_EQ(order[0], key_of(2));
  EXPECT_EQ(order[1], key_of(4));
  EXPECT_EQ(std::set<std::string>(order.end() - 3, order.end()),
            (std::set<std::string>{key_of(0), key_of(1), key_of(3)}));
}

TEST(SetIndexTags, AreIndependentOfTheSet) {
  // Of keys of one set, as many have another one's tag as chance gives.
  BasicTestStore<Validated> store({.cells = 16 * 64});
  std::array<int, 256> count{};
  int keys = 0;
  for (std::uint64_t n = 0; keys < 4096; ++n) {
    const Fingerprint f = store.fingerprint(key_of(n));
    if (store.index.view().index_of(f) != 5) continue;
    ++count[tag_of(f.signature)];
    ++keys;
  }
  EXPECT_EQ(count[0], 0);
  for (int tag = 2; tag < 256; ++tag) EXPECT_LT(count[static_cast<std::size_t>(tag)], 45) << tag;  // 16 on average
}

TEST(SetLanes, AllFindTheSameWays) {
  std::mt19937_64 random(1);
  EntrySet<16> set{};
  for (int round = 0; round < 2000; ++round) {
    for (std::uint64_t& half : set.tags) {
      half = 0;
      for (int i = 0; i < 8; ++i) half = half << 8 | random() % (round % 2 == 0 ? 4 : 256);
    }
    const auto tag = static_cast<std::uint32_t>(random() % (round % 2 == 0 ? 4 : 256));
    std::uint32_t expected = 0;
    for (unsigned i = 0; i < 16; ++i) expected |= std::uint32_t{(set.tags[i / 8] >> i % 8 * 8 & 0xff) == tag} << i;
    EXPECT_EQ(ScalarTagLanes{}.match(set.tags, tag), expected);
    if (tag == 0) continue;
    for (const SetOps16* ops : set_ops_built()) {
      if (ops->supported()) {
        EXPECT_EQ(ops->tagged(&set, tag << 24), expected) << ops->name;
      }
    }
  }
}

TEST(SetLanes, AllSearchAlike) {
  std::vector<Location> found[2];
  for (const SetOps16* ops : set_ops_built()) {
    if (!ops->supported()) continue;
    BasicTestStore<Validated> store({.cells = 1 << 10, .lanes = ops->name});
    EXPECT_EQ(store.index.lanes(), ops->name);
    BasicTestWorker<Validated> worker(store);
    for (std::uint64_t n = 0; n < 800; ++n) (void)worker.set(key_of(n), n);
    std::vector<Location>& mine = found[ops->name == "scalar" ? 0 : 1];
    mine.clear();
    for (std::uint64_t n = 0; n < 1000; ++n) {
      const Fingerprint f = store.fingerprint(key_of(n));
      Location l = no_location;
      store.index.search_second(&f, store.index.search_first(&f, 1, &l), &l);
      mine.push_back(l);
    }
    EXPECT_EQ(mine, found[0]) << ops->name;
  }
  EXPECT_THROW(set_ops_named("none"), std::invalid_argument);
}

TEST(SetIndexMemory, IsTheBudgets) {
  EpochDomain epochs(4);
  MemoryBudget budget(std::uint64_t{4} << 20);
  Heap heap({}, budget, epochs);
  {
    const Validated index({.cells_initial = 1000, .huge_pages = false}, budget, epochs, heap);
    EXPECT_EQ(index.cell_count(), 1008u);
    EXPECT_EQ(index.table_bytes(), 63u * 288);
    EXPECT_EQ(budget.used_bytes(), index.table_bytes());
  }
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_THROW(Validated({.cells_initial = 1 << 20}, budget, epochs, heap), std::bad_alloc);
  EXPECT_THROW(Validated({.cells_initial = 64, .shard_bits = 1}, budget, epochs, heap), std::invalid_argument);
}

// --- threads

TEST(SetWordLock, IsHeldByOneWriterOrByReaders) {
  using namespace sets_on_host;
  std::uint64_t word = 0;
  ASSERT_TRUE(try_lock(lanes, &word));
  EXPECT_FALSE(try_lock(lanes, &word));
  EXPECT_FALSE(try_lock_shared(lanes, &word));
  unlock(lanes, &word, false);
  EXPECT_EQ(word, 0u);
  ASSERT_TRUE(try_lock_shared(lanes, &word));
  ASSERT_TRUE(try_lock_shared(lanes, &word));
  EXPECT_FALSE(try_lock(lanes, &word));
  unlock_shared(lanes, &word);
  EXPECT_FALSE(try_lock(lanes, &word));
  unlock_shared(lanes, &word);
  ASSERT_TRUE(try_lock(lanes, &word));
  unlock(lanes, &word, true);
  EXPECT_EQ(SetWord{word}.version(), 1u);
  EXPECT_TRUE(SetWord{word}.free());
}

// A reader that finds nothing while a writer holds the set has to look again.
template <class I>
void a_miss_waits_for_the_writer() {
  BasicTestStore<I> store;
  const Fingerprint f = store.fingerprint("a");
  const std::uint64_t bytes = Item::total_bytes(0, 1, 0);
  BasicTestWorker<I> worker(store);
  Location l = no_location;
  {
    const Heap::Cache::Lock lock(worker.cache);
    l = store.heap.allocate(worker.cache, store.heap.size_class(bytes), bytes);
    store.heap.format(l, "a", 0, 0, 0, 0, false);
  }
  std::atomic<bool> begins{false}, ends{false};
  const Item* found = nullptr;
  std::thread reader;
  {
    const typename BasicTestWorker<I>::Batch batch(worker);
    typename I::Guard guard = store.index.lock(f);
    ASSERT_EQ(guard.find(std::string_view("a")), nullptr);
    reader = std::thread([&] {
      BasicTestWorker<I> other(store);
      const typename BasicTestWorker<I>::Batch other_batch(other);
      begins = true;
      ItemVersion seen;
      found = store.index.find(f, "a", seen);
      ends = true;
    });
    constexpr int yields = 10'000;
    while (!begins) std::this_thread::yield();
    for (int i = 0; i < yields && !ends; ++i) std::this_thread::yield();
    EXPECT_FALSE(ends);
    EXPECT_EQ(guard.put(l, BasicTestWorker<I>::live), IndexPut::done);
  }
  reader.join();
  EXPECT_EQ(found, store.heap.at(l));
}
TEST(SetIndexThreads, AMissWaitsForTheWriter) { a_miss_waits_for_the_writer<Validated>(); }
TEST(SetIndexThreads, AMissWaitsForTheWriterUnderSharedLocks) { a_miss_waits_for_the_writer<Locked>(); }

// Keys that stay are found whatever is added, evicted and removed beside them in their sets; no increment is lost.
template <class I>
void keys_stay_beside_others() {
  BasicTestStore<I> store({.cells = 64, .fingerprint = few_signatures<8>});
  std::atomic<std::uint32_t> clock{0};
  store.index.stamps().give(clock);
  // In each of the four sets some keys that stay.
  std::vector<std::string> kept;
  {
    BasicTestWorker<I> worker(store);
    for (std::uint64_t n = 0; kept.size() < 12; ++n) {
      ASSERT_EQ(worker.set(key_of(n), 0), BasicTestWorker<I>::Outcome::done);
      kept.push_back(key_of(n));
    }
  }
  std::atomic<bool> is_over{false};
  std::atomic<std::uint64_t> added{0};
  std::vector<std::thread> all;
  for (std::uint64_t t = 0; t < 2; ++t) {
    all.emplace_back([&, t] {
      BasicTestWorker<I> worker(store);
      std::mt19937_64 random(t);
      for (int i = 0; i < 2000 * effort; ++i) {
        const std::string key = "other:" + std::to_string(t) + ":" + std::to_string(random() % 20);
        if (random() % 4 == 0) {
          (void)worker.erase(key);
        } else if (worker.set(key, 1) == BasicTestWorker<I>::Outcome::no_room) {
          const typename BasicTestWorker<I>::Batch batch(worker);
          Location some[Index::candidates_max];
          const std::uint32_t n = store.index.candidates(store.fingerprint(key), key, some);
          for (std::uint32_t j = 0; j < n; ++j) {
            if (!store.heap.at(some[j])->key().starts_with("other:")) continue;
            (void)worker.evict(some[j]);
            break;
          }
        }
        if (random() % 4 == 0 && worker.increment(kept[random() % kept.size()])) ++added;
      }
    });
  }
  std::thread reader([&] {
    BasicTestWorker<I> worker(store);
    std::map<std::string, std::uint64_t> last;
    while (!is_over) {
      for (const std::string& key : kept) {
        const auto value = worker.get(key);
        ASSERT_TRUE(value) << key;
        ASSERT_GE(*value, last[key]);
        last[key] = *value;
      }
    }
  });
  for (std::thread& t : all) t.join();
  is_over = true;
  reader.join();
  BasicTestWorker<I> worker(store);
  std::uint64_t sum = 0;
  for (const std::string& key : kept) sum += worker.get(key).value_or(0);
  EXPECT_EQ(sum, added.load());
  std::string problem;
  (void)store.scan(problem);
  EXPECT_EQ(problem, "");
}
TEST(SetIndexThreads, KeysStayBesideOthers) { keys_stay_beside_others<Validated>(); }
TEST(SetIndexThreads, KeysStayBesideOthersUnderSharedLocks) { keys_stay_beside_others<Locked>(); }

TEST(SetIndexThreads, OneAddOfAnAbsentKeyWins) {
  for (int round = 0; round < 2 * effort; ++round) {
    constexpr std::uint64_t keys = 400;
    BasicTestStore<Validated> store({.cells = 2048});
    std::atomic<std::uint64_t> wins{0};
    std::vector<std::thread> all;
    for (std::uint64_t t = 0; t < 3; ++t) {
      all.emplace_back([&, t] {
        BasicTestWorker<Validated> worker(store);
        for (std::uint64_t n = 0; n < keys; ++n)
          wins += worker.set(key_of(n), t, true) == BasicTestWorker<Validated>::Outcome::done ? 1 : 0;
      });
    }
    for (std::thread& t : all) t.join();
    EXPECT_EQ(wins, keys);
    std::string problem;
    EXPECT_EQ(store.scan(problem).size(), keys);
    EXPECT_EQ(problem, "");
  }
}

}  // namespace
}  // namespace tandem
