// Invariants under any mix of threads: a key that is present is never missed, a deleted one never returns, no key is in
// the table twice, none is lost.
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "index/cuckoo/index_test_support.hpp"

namespace tandem {
namespace {

// Whether other threads had enough time. The number of yields does not tell: they may have been preempted.
bool is_over(std::chrono::steady_clock::time_point since) {
  return std::chrono::steady_clock::now() - since > std::chrono::minutes(2);
}

// Runs the bodies at once and returns the first problem that any of them reports.
class Threads {
 public:
  void add(std::function<std::string(Threads&)> body) { bodies_.push_back(std::move(body)); }
  bool stopped() const { return stop_.load(std::memory_order_relaxed); }
  void stop() { stop_.store(true, std::memory_order_relaxed); }
  std::string run() {
    std::barrier start(static_cast<std::ptrdiff_t>(bodies_.size()));
    std::vector<std::thread> threads;
    for (const auto& body : bodies_) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        const std::string problem = body(*this);
        if (problem.empty()) return;
        const std::lock_guard lock(mutex_);
        if (problem_.empty()) problem_ = problem;
        stop();
      });
    }
    for (std::thread& t : threads) t.join();
    return problem_;
  }

 private:
  std::vector<std::function<std::string(Threads&)>> bodies_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::string problem_;
};

// --- adds of one absent key ---

void race_adds(std::uint64_t cells, std::uint64_t keys, int rounds,
               Fingerprint (*fingerprint)(std::string_view, std::uint64_t), bool growing) {
  constexpr std::uint64_t adders = 3;
  for (int round = 0; round < rounds; ++round) {
    TestStore store({.cells = cells, .load_grow = growing ? 0.9 : 2, .fingerprint = fingerprint});
    std::vector<std::atomic<std::uint32_t>> wins(keys), winner(keys);
    std::atomic<std::uint64_t> running{adders};
    Threads threads;
    for (std::uint64_t t = 0; t < adders; ++t) {
      threads.add([&, t](Threads&) -> std::string {
        TestWorker worker(store);
        for (std::uint64_t k = 0; k < keys; ++k) {
          TestWorker::Outcome outcome = worker.set(key_of(k), t, true);
          const auto begun = std::chrono::steady_clock::now();
          while (growing && outcome == TestWorker::Outcome::no_room && !is_over(begun)) {
            std::this_thread::yield();  // the grower has started
            outcome = worker.set(key_of(k), t, true);
          }
          if (outcome == TestWorker::Outcome::no_room) return "no room for " + key_of(k);
          if (outcome == TestWorker::Outcome::refused) continue;
          wins[k].fetch_add(1);
          winner[k] = static_cast<std::uint32_t>(t);
        }
        --running;
        return "";
      });
    }
    if (growing) {
      threads.add([&](Threads& all) -> std::string {
        TestWorker worker(store);
        while (running != 0 && !all.stopped()) {
          if (store.index.wants_growth() && !worker.grow()) return "growth failed";
          std::this_thread::yield();
        }
        return "";
      });
    }
    ASSERT_EQ(threads.run(), "");
    std::string problem;
    const auto all = store.scan(problem);
    ASSERT_EQ(problem, "");
    ASSERT_EQ(all.size(), keys);
    for (std::uint64_t k = 0; k < keys; ++k) {
      ASSERT_EQ(wins[k], 1u) << key_of(k) << " was added by so many";
      ASSERT_EQ(all.at(key_of(k)), winner[k]);
    }
  }
}

TEST(IndexThreads, OneAddOfAnAbsentKeyWins) { race_adds(1 << 15, 20'000, 2 * effort, plain_fingerprint, false); }
TEST(IndexThreads, OneAddWinsAtLoad95) {
  race_adds(1 << 14, (1 << 14) * 95 / 100, 2 * effort, plain_fingerprint, false);
}
TEST(IndexThreads, OneAddWinsWhileTheTableGrows) { race_adds(512, 20'000, effort, plain_fingerprint, true); }
TEST(IndexThreads, OneAddWinsAmongEqualSignatures) { race_adds(1 << 10, 800, 4 * effort, few_signatures<16>, false); }

// --- every key's history ---

// State of each key, written by its only writer: |63 generation 2|1 busy|0 present|. A reader that reads the same state
// before and after knows what it must have seen.
class Board {
 public:
  explicit Board(std::uint64_t keys) : state_(keys) {}
  struct State {
    std::uint64_t bits;
    bool present() const { return (bits & 1) != 0; }
    bool busy() const { return (bits & 2) != 0; }
    std::uint64_t generation() const { return bits >> 2; }
  };
  State get(std::uint64_t key) const { return {state_[key].load()}; }
  void set(std::uint64_t key, std::uint64_t generation, bool busy, bool present) {
    state_[key].store(generation << 2 | (busy ? 2u : 0u) | (present ? 1u : 0u));
  }
  std::uint64_t keys() const { return state_.size(); }

 private:
  std::vector<std::atomic<std::uint64_t>> state_;
};

struct Mix {
  std::uint64_t cells = 1 << 12;
  std::uint64_t keys = 4000;
  std::uint64_t operations = 30'000;  // each writer's, times effort
  std::uint32_t writers = 2, readers = 2;
  bool grows = false, evicts = false;
  std::uint32_t erases_of_16 = 4;
  Fingerprint (*fingerprint)(std::string_view, std::uint64_t) = plain_fingerprint;
  std::string_view lanes = {};
};

struct Seen {
  std::uint64_t rooms = 0, second_looks = 0, growths = 0, evictions = 0, settled_hits = 0;
};

std::string check_read(const Mix& mix, std::uint64_t key, Board::State before, std::optional<std::uint64_t> got,
                       Board::State after) {
  const bool settled = before.bits == after.bits && !before.busy();
  if (got && *got >> 32 != key) return key_of(key) + ": another key's value";
  if (settled && !before.present() && got) return key_of(key) + ": deleted, and seen again";
  if (settled && before.present() && !got && !mix.evicts) return key_of(key) + ": present, and missed";
  if (!got) return "";
  const std::uint64_t generation = *got & 0xffffffff;
  if (generation < before.generation() - (before.busy() ? 1 : 0)) return key_of(key) + ": an old value";
  if (generation > after.generation()) return key_of(key) + ": a value never written";
  return "";
}

std::string write_some(const Mix& mix, TestWorker& worker, Board& board, std::uint32_t writer, Threads& all) {
  std::uint64_t random = writer + 1;
  const std::uint64_t mine = board.keys() / mix.writers;
  for (std::uint64_t i = 0; i < mix.operations * static_cast<std::uint64_t>(effort) && !all.stopped(); ++i) {
    random = mix_bits(random + 0x9E3779B97F4A7C15ULL);
    const std::uint64_t key = (random >> 8) % mine * mix.writers + writer;
    const Board::State now = board.get(key);
    const std::uint64_t generation = now.generation() + 1;
    if (random % 16 < mix.erases_of_16) {
      board.set(key, generation, true, now.present());
      const bool erased = worker.erase(key_of(key));
      if (erased != now.present() && !(mix.evicts && !erased)) return key_of(key) + ": erase found the wrong thing";
      board.set(key, generation, false, false);
      continue;
    }
    const bool only_absent = random % 16 == 15;
    board.set(key, generation, true, now.present());
    TestWorker::Outcome outcome = TestWorker::Outcome::no_room;
    for (const auto begun = std::chrono::steady_clock::now(); outcome == TestWorker::Outcome::no_room;) {
      outcome = worker.set(key_of(key), key << 32 | generation, only_absent);
      if (outcome == TestWorker::Outcome::no_room && !mix.grows) return "no room";
      if (is_over(begun)) return "no room after a long wait";
      if (outcome == TestWorker::Outcome::no_room) std::this_thread::yield();
    }
    if (only_absent) {
      const bool refused = outcome == TestWorker::Outcome::refused;
      if (refused != now.present() && !(mix.evicts && !refused)) return key_of(key) + ": add went wrong";
      if (refused) {
        board.set(key, now.generation(), false, true);
        continue;
      }
    }
    board.set(key, generation, false, true);
  }
  return "";
}

Seen run_mix(const Mix& mix) {
  TestStore store(
      {.cells = mix.cells, .load_grow = mix.grows ? 0.9 : 2, .fingerprint = mix.fingerprint, .lanes = mix.lanes});
  Board board(mix.keys);
  std::atomic<std::uint32_t> writing{mix.writers};
  std::mutex mutex;
  Seen seen;
  Threads threads;
  for (std::uint32_t w = 0; w < mix.writers; ++w) {
    threads.add([&, w](Threads& all) {
      TestWorker worker(store);
      const std::string problem = write_some(mix, worker, board, w, all);
      if (--writing == 0) all.stop();
      const std::lock_guard lock(mutex);
      seen.rooms += worker.rooms;
      return problem;
    });
  }
  for (std::uint32_t r = 0; r < mix.readers; ++r) {
    threads.add([&, r](Threads& all) -> std::string {
      TestWorker worker(store);
      std::uint64_t random = 1000 + r, hits = 0;
      // Once more when the writers have ended: they may have ended before this thread's first turn.
      for (bool last = false; !last;) {
        last = all.stopped();
        const TestWorker::Batch batch(worker);
        for (int i = 0; i < 32; ++i) {
          random = mix_bits(random + 0x9E3779B97F4A7C15ULL);
          const std::uint64_t key = random % mix.keys;
          const Board::State before = board.get(key);
          const auto got = worker.get(key_of(key));
          const Board::State after = board.get(key);
          const std::string problem = check_read(mix, key, before, got, after);
          if (!problem.empty()) return problem;
          hits += got && before.bits == after.bits;
        }
      }
      const std::lock_guard lock(mutex);
      seen.second_looks += worker.second_looks;
      seen.settled_hits += hits;
      return "";
    });
  }
  if (mix.grows) {
    threads.add([&](Threads& all) -> std::string {
      TestWorker worker(store);
      while (!all.stopped()) {
        if (store.index.wants_growth()) {
          if (!worker.grow()) return "growth failed";
          ++seen.growths;
        }
        std::this_thread::yield();
      }
      return "";
    });
  }
  if (mix.evicts) {
    threads.add([&](Threads& all) -> std::string {
      TestWorker worker(store);
      std::uint64_t random = 77;
      while (!all.stopped()) {
        random = mix_bits(random + 1);
        const TestWorker::Batch batch(worker);
        Location candidates[16];
        const std::string key = key_of(random % mix.keys);
        const std::uint32_t n = store.index.candidates(store.fingerprint(key), key, candidates);
        if (n != 0) seen.evictions += worker.evict(candidates[(random >> 32) % n]).has_value();
        std::this_thread::yield();
      }
      return "";
    });
  }
  EXPECT_EQ(threads.run(), "");
  std::string problem;
  const auto left = store.scan(problem);
  EXPECT_EQ(problem, "");
  std::uint64_t present = 0;
  for (std::uint64_t key = 0; key < mix.keys; ++key) {
    const Board::State state = board.get(key);
    const auto it = left.find(key_of(key));
    present += state.present();
    if (it == left.end()) {
      EXPECT_TRUE(!state.present() || mix.evicts) << key_of(key) << " is lost";
    } else {
      EXPECT_TRUE(state.present()) << key_of(key) << " was deleted";
      EXPECT_EQ(it->second, key << 32 | state.generation());
    }
  }
  EXPECT_LE(left.size(), present);
  EXPECT_GT(seen.settled_hits, 0u);
  return seen;
}

// Keys are erased and set again all the time at 90 to 95 % load: cells are displaced while readers search.
TEST(IndexThreads, DisplacedKeysAreNeverMissed) {
  const Seen seen = run_mix({.cells = 1 << 12, .keys = (1 << 12) * 96 / 100, .erases_of_16 = 1});
  EXPECT_GT(seen.rooms, 0u) << "nothing was displaced: the test tests nothing";
}

TEST(IndexThreads, DisplacedKeysAreNeverMissedOnAnyLanes) {
  for (const CuckooOps* ops : cuckoo_ops_built()) {
    if (!ops->supported()) continue;
    run_mix({.cells = 512, .keys = 512 * 95 / 100, .operations = 10'000, .erases_of_16 = 1, .lanes = ops->name});
  }
}

TEST(IndexThreads, NothingIsLostWhileTheTableGrows) {
  for (int round = 0; round < effort; ++round) {
    const Seen seen = run_mix({.cells = 512, .keys = 20'000, .operations = 4'000, .grows = true, .erases_of_16 = 2});
    EXPECT_GE(seen.growths, 3u);
  }
}

TEST(IndexThreads, NothingIsLostAmongEqualSignaturesWhileTheTableGrows) {
  const Seen seen =
      run_mix({.cells = 512, .keys = 2000, .operations = 5'000, .grows = true, .fingerprint = few_signatures<32>});
  EXPECT_GT(seen.growths, 0u);
}

// A handful of keys: locations are reused under the same and other keys again and again (ABA), and all threads contend
// for a few stripes.
TEST(IndexThreads, ReusedLocationsMisleadNobody) {
  run_mix({.keys = 16, .writers = 3});
  run_mix({.keys = 8, .fingerprint = few_signatures<1>});
}

TEST(IndexThreads, EvictionByLocation) {
  const Seen seen = run_mix({.keys = 2000, .evicts = true});
  EXPECT_GT(seen.evictions, 0u);
  run_mix({.cells = 512, .keys = 10'000, .operations = 5'000, .grows = true, .evicts = true});
}

// --- several writers of one key ---

// Read-modify-writes under the Guard, while other threads displace the counters and the table grows: no increment is
// lost.
TEST(IndexThreads, CountersUnderTheGuardLoseNothing) {
  constexpr std::uint64_t counters = 40, threads_max = 3;
  const std::uint64_t each = 4'000 * static_cast<std::uint64_t>(effort);
  TestStore store({.cells = 512});
  std::atomic<std::uint64_t> running{threads_max};
  Threads threads;
  for (std::uint64_t t = 0; t < threads_max; ++t) {
    threads.add([&, t](Threads& all) -> std::string {
      TestWorker worker(store);
      std::uint64_t random = t;
      for (std::uint64_t i = 0; i < each && !all.stopped(); ++i) {
        random = mix_bits(random + 1);
        if (!worker.increment(key_of(random % counters))) return "no room";
        // Other keys are added and erased, so that counters are displaced; their number rises, so that the table grows.
        const std::string other = "other:" + std::to_string(random % (i / 4 + 1)) + ":" + std::to_string(t);
        if ((random >> 32) % 4 == 0) {
          worker.erase(other);
        } else {
          worker.set(other, 0);
        }
      }
      if (--running == 0) all.stop();
      return "";
    });
  }
  threads.add([&](Threads& all) -> std::string {
    TestWorker worker(store);
    while (!all.stopped()) {
      if (store.index.wants_growth() && !worker.grow()) return "growth failed";
      std::this_thread::yield();
    }
    return "";
  });
  threads.add([&](Threads& all) -> std::string {
    TestWorker worker(store);
    std::vector<std::uint64_t> last(counters);
    while (!all.stopped()) {
      for (std::uint64_t c = 0; c < counters; ++c) {
        const std::uint64_t now = worker.get(key_of(c)).value_or(0);
        if (now < last[c]) return key_of(c) + " went back";
        last[c] = now;
      }
    }
    return "";
  });
  ASSERT_EQ(threads.run(), "");
  std::string problem;
  const auto all = store.scan(problem);
  EXPECT_EQ(problem, "");
  std::uint64_t sum = 0;
  for (std::uint64_t c = 0; c < counters; ++c) sum += all.at(key_of(c));
  EXPECT_EQ(sum, threads_max * each);
  EXPECT_GT(store.index.cell_count(), 512u);
}

}  // namespace
}  // namespace tandem
