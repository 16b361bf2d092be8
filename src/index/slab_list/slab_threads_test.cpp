#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "index/cuckoo/index_test_support.hpp"
#include "index/slab_list/slab_index.hpp"

namespace tandem {
namespace {

using Store = BasicTestStore<SlabListIndex>;
using Worker = BasicTestWorker<SlabListIndex>;

// A reader that finds nothing while a writer holds the stripe has to look again.
TEST(SlabListThreads, AMissWaitsForTheWriter) {
  Store store;
  const Fingerprint f = store.fingerprint("a");
  const std::uint64_t bytes = Item::total_bytes(0, 1, 0);
  Worker worker(store);
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
    const Worker::Batch batch(worker);
    SlabListIndex::Guard guard = store.index.lock(f);
    ASSERT_EQ(guard.find(std::string_view("a")), nullptr);
    reader = std::thread([&] {
      Worker other(store);
      const Worker::Batch other_batch(other);
      begins = true;
      ItemVersion seen;
      found = store.index.find(f, "a", seen);
      ends = true;
    });
    constexpr int yields = 1'000;
    while (!begins) std::this_thread::yield();
    for (int i = 0; i < yields && !ends; ++i) std::this_thread::yield();
    EXPECT_FALSE(ends);
    EXPECT_EQ(guard.put(l, Worker::live), IndexPut::done);
  }
  reader.join();
  EXPECT_EQ(found, store.heap.at(l));
}

// A thread that sees a stripe released after a division sees the number of buckets that it has made. The window is two
// stores wide, so the store is looked at behind each instruction of a growth. All its buckets have one of two stripes,
// and only divisions change them.
#if defined(__x86_64__) && !defined(TANDEM_SANITIZED)
const SlabListIndex* stepped = nullptr;
Fingerprint stepped_of[2];
std::uint64_t early_stripes = 0, steps_looked_at = 0;

void look_at_step(int /*signal*/) {
  ++steps_looked_at;
  for (std::uint32_t s = 0; s < 2; ++s) {
    const StripeWord word = stepped->stripe(stepped_of[s]);
    // Divisions take the stripes in turn, the first one first.
    const std::uint32_t made = 2 * word.version() - (s == 0 && word.version() != 0 ? 1 : 0);
    if (!word.locked() && stepped->bucket_count() < 2 + made) ++early_stripes;
  }
}

TEST(SlabListSteps, TheNumberOfBucketsIsKnownBeforeTheStripeIsFree) {
  Store store({.cells = 64, .load_grow = 0});
  ASSERT_EQ(store.index.bucket_count(), 2u);
  for (std::uint64_t n = 0; n < 100; ++n) {
    const Fingerprint f = store.fingerprint(key_of(n));
    stepped_of[store.index.view().buckets.of(f)] = f;
  }
  Worker worker(store);
  stepped = &store.index;
  struct sigaction action{}, before{};
  action.sa_handler = look_at_step;
  sigaction(SIGTRAP, &action, &before);
  // The trap flag, and below the red zone.
  __asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tleaq 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
  const bool has_grown = worker.grow();
  __asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\tandq $-257, (%%rsp)\n\tpopfq\n\tleaq 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
  sigaction(SIGTRAP, &before, nullptr);
  EXPECT_TRUE(has_grown);
  EXPECT_GT(store.index.bucket_count(), 8u);
  EXPECT_GT(steps_looked_at, 1000u);
  EXPECT_EQ(early_stripes, 0u);
}
#endif

// Keys that stay are found whatever is added and removed beside them, and however often their buckets are divided; no
// increment is lost.
void keys_stay(Fingerprint (*fingerprint)(std::string_view, std::uint64_t)) {
  Store store({.cells = 64, .load_grow = 0, .fingerprint = fingerprint});
  std::vector<std::string> kept;
  {
    Worker worker(store);
    for (std::uint64_t n = 0; n < 150; ++n) {
      ASSERT_EQ(worker.set(key_of(n), 0), Worker::Outcome::done);
      kept.push_back(key_of(n));
    }
  }
  std::atomic<bool> is_over{false};
  std::atomic<std::uint64_t> added{0};
  std::vector<std::thread> writers;
  for (std::uint64_t t = 0; t < 2; ++t) {
    writers.emplace_back([&, t] {
      Worker worker(store);
      std::mt19937_64 random(t);
      for (int i = 0; i < 4000 * effort; ++i) {
        const std::string key = "other:" + std::to_string(t) + ":" + std::to_string(random() % 200);
        if (random() % 2 == 0) {
          (void)worker.erase(key);
        } else {
          EXPECT_EQ(worker.set(key, 1), Worker::Outcome::done);
        }
        if (random() % 4 == 0 && worker.increment(kept[random() % kept.size()])) ++added;
      }
    });
  }
  std::thread grower([&] {
    Worker worker(store);
    while (!is_over && store.index.bucket_count() < 20'000) ASSERT_TRUE(worker.grow());
  });
  std::thread reader([&] {
    Worker worker(store);
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
  for (std::thread& t : writers) t.join();
  is_over = true;
  grower.join();
  reader.join();
  Worker worker(store);
  std::uint64_t sum = 0;
  for (const std::string& key : kept) sum += worker.get(key).value_or(0);
  EXPECT_EQ(sum, added.load());
  std::string problem;
  (void)store.scan(problem);
  EXPECT_EQ(problem, "");
}
TEST(SlabListThreads, KeysStayBesideOthers) { keys_stay(plain_fingerprint); }
TEST(SlabListThreads, KeysStayInLongChains) { keys_stay(few_signatures<3>); }

TEST(SlabListThreads, OneAddOfAnAbsentKeyWins) {
  for (int round = 0; round < 2 * effort; ++round) {
    constexpr std::uint64_t keys = 400;
    Store store({.cells = 64});
    std::atomic<std::uint64_t> wins{0};
    std::vector<std::thread> all;
    for (std::uint64_t t = 0; t < 3; ++t) {
      all.emplace_back([&, t] {
        Worker worker(store);
        for (std::uint64_t n = 0; n < keys; ++n)
          wins += worker.set(key_of(n), t, true) == Worker::Outcome::done ? 1 : 0;
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
