// Writers on several threads, growth when it is due, and one thread that keeps a replica in plain memory and searches
// it. No launch may take a key for absent that was always present.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>

#include "placement/mirrored/replica_follower.hpp"
#include "placement/mirrored/replica_history.hpp"

namespace tandem {
namespace {

struct LoggedMix {
  std::uint64_t cells, keys;
  double load_grow = 2;
  std::uint32_t ring_records = 1 << 15;
  std::uint64_t writes = 16;  // of each writer for each launch
  bool overflows = false;     // sometimes nothing is drained until a ring is full
  std::uint32_t first_launch = 1;
  std::uint64_t uploads = 1;  // required at least
};

struct LogResult {
  std::string problem;
  KeyHistory::Counts counts;
  std::uint64_t launches = 0, uploads = 0, overflows = 0;
};

LogResult run_log(const LoggedMix& mix, int launches) {
  constexpr std::uint64_t writers = 3;
  BasicReplicaLog<StallingRules> log({.ring_records = mix.ring_records, .first_launch = mix.first_launch});
  TestStore store({.cells = mix.cells, .load_grow = mix.load_grow, .log = &log});
  KeyHistory history(mix.keys);
  LogResult result;
  std::array<std::string, writers> problems;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> allowed{0};  // writes of each writer
  std::vector<std::thread> threads;
  for (std::uint64_t w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] {
      TestWorker worker(store);
      std::uint64_t random = w;
      for (std::uint64_t writes = 0; !stop && problems[w].empty();) {
        if (writes == allowed.load(std::memory_order_relaxed)) {
          std::this_thread::yield();
          continue;
        }
        ++writes;
        problems[w] = history.write(worker, random = mix_bits(random + 1), w, writers);
      }
    });
  }
  threads.emplace_back([&] {
    TestWorker worker(store);
    while (!stop) {
      if (store.index.wants_growth()) worker.grow();
      std::this_thread::yield();
    }
  });

  ReplicaFollower<BasicReplicaLog<StallingRules>> replica(log, store);
  replica.restart();
  std::uint64_t random = 99;
  // On a busy machine it may take longer until each kind of answer has occurred and the growth thread has run.
  const auto seen_all = [&] {
    return result.counts.hits != 0 && result.counts.final_misses != 0 && result.counts.decided != 0 &&
           replica.uploads >= mix.uploads;
  };
  const auto wanted = static_cast<std::uint64_t>(launches);
  while ((result.launches < wanted || (!seen_all() && result.launches < 100 * wanted)) && result.problem.empty()) {
    while (mix.overflows && result.launches % 16 == 15 && log.recording()) {
      allowed.fetch_add(1, std::memory_order_relaxed);
      std::this_thread::yield();
    }
    std::array<std::uint64_t, 64> keys, before;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = (random = mix_bits(random + 1)) % mix.keys;
      before[i] = history.state(keys[i]);
    }
    if (!log.recording()) replica.restart();
    allowed.fetch_add(mix.writes, std::memory_order_relaxed);
    replica.epoch().enter();
    const auto launch = replica.launch();
    for (std::size_t i = 0; launch.usable && i < keys.size() && result.problem.empty(); ++i) {
      const Fingerprint f = store.fingerprint(key_of(keys[i]));
      result.problem = history.check(store, keys[i], before[i], {replica.search(f), replica.misses_for_good(f, launch)},
                                     result.counts);
    }
    replica.epoch().exit();
    result.launches += launch.usable;
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  for (const std::string& p : problems) {
    if (result.problem.empty()) result.problem = p;
  }
  if (!log.recording()) replica.restart();
  while (result.problem.empty() && !replica.launch().usable) {
  }
  if (result.problem.empty() && replica.differences() != 0) result.problem = "the replica differs at the end";
  result.uploads = replica.uploads;
  result.overflows = log.overflows();
  return result;
}

void expect_log_right(const LogResult& r) {
  ASSERT_EQ(r.problem, "");
  EXPECT_GT(r.counts.hits, 0u);
  EXPECT_GT(r.counts.final_misses, 0u);
  EXPECT_GT(r.counts.decided, 0u);
}

TEST(ReplicaLogThreads, DisplacementsAtHighLoad) {
  expect_log_right(run_log({.cells = 1 << 10, .keys = 1300}, 1000 * effort));
}

TEST(ReplicaLogThreads, TheTableGrows) {
  const LogResult r =
      run_log({.cells = 512, .keys = 40'000, .load_grow = 0.9, .writes = 200, .uploads = 2}, 300 * effort);
  expect_log_right(r);
  EXPECT_GT(r.uploads, 1u);
}

TEST(ReplicaLogThreads, OverflowsAndUploads) {
  const LogResult r =
      run_log({.cells = 1 << 12, .keys = 5000, .ring_records = 512, .writes = 1000, .overflows = true, .uploads = 2},
              30 * effort);
  expect_log_right(r);
  EXPECT_GT(r.overflows, 0u);
  EXPECT_GT(r.uploads, 1u);
}

TEST(ReplicaLogThreads, LaunchNumbersWrap) {
  expect_log_right(run_log({.cells = 1 << 10, .keys = 1200, .first_launch = 0xffffff00}, 500 * effort));
}

// One cell is changed as fast as possible beside drains. All changes stamped before a launch must be in it. Returns the
// number of launches that violate this, at most 1. Without the fence in launch() a violation takes seconds.
template <class Rules>
std::uint64_t late_launches(std::chrono::milliseconds limit) {
  BasicReplicaLog<Rules> log;
  TestStore store({.cells = 512, .log = &log});
  ReplicaFollower<BasicReplicaLog<Rules>> replica(log, store);
  replica.restart();
  std::uint64_t* const cell = &store.index.searched().view.buckets[1].cell[0];
  constexpr std::uint32_t launches = 1 << 10;
  std::vector<std::atomic<std::uint64_t>> last_of(launches);  // by launch: last value stamped with it
  std::atomic<std::uint32_t> stamped{0};                      // the last launch that was
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    EpochDomain::Participant epoch(store.epochs);
    const Change change{1, bucket_cells};
    for (std::uint64_t value = 1; !stop.load(std::memory_order_relaxed); ++value) {
      epoch.enter();
      const auto ticket = log.reserve({&change, 1});
      ScalarLanes::at(cell).store(value, std::memory_order_release);
      log.commit(ticket);
      const std::uint32_t launch = log.launch();
      last_of[launch % launches].store(value, std::memory_order_release);
      stamped.store(launch, std::memory_order_release);
      epoch.exit();
    }
  });
  std::uint64_t late = 0;
  for (const auto end = std::chrono::steady_clock::now() + limit;
       late == 0 && std::chrono::steady_clock::now() < end;) {
    if (!log.recording()) replica.restart();
    const auto launch = replica.launch();
    while (stamped.load(std::memory_order_acquire) < launch.number) cpu_relax();
    late += launch.usable && replica.cell(bucket_cells) < last_of[(launch.number - 1) % launches].load();
  }
  stop = true;
  writer.join();
  return late;
}

TEST(ReplicaLogThreads, AChangeIsVisibleBeforeItsStampIsTaken) {
  EXPECT_EQ(late_launches<ReplicaLogRules>(std::chrono::milliseconds(100 * effort)), 0u);
}

}  // namespace
}  // namespace tandem
