// The log of a replica, and how it fails when one of its rules is broken.
#include "placement/mirrored/replica_log.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <thread>
#include <vector>

#include "placement/mirrored/replica_follower.hpp"

namespace tandem {
namespace {

using HookedLog = BasicReplicaLog<HookedRules>;

// A store with its log on, and a replica in plain memory that follows from the beginning.
template <class Rules>
struct Followed {
  explicit Followed(TestStoreOptions options = {}, const ReplicaLogOptions& log_options = {})
      : log(log_options), stepping(log), store(with_log(options)), worker(store), replica(log, store) {
    log.start();
    replica.upload();
  }
  TestStoreOptions with_log(TestStoreOptions options) {
    options.log = &stepping;
    return options;
  }
  void set(const std::string& key) { ASSERT_EQ(worker.set(key, 1), TestWorker::Outcome::done); }
  // A launch that begins now. Returns an error if it takes a key for absent that was always present.
  std::string look_for(const std::string& key, const typename ReplicaFollower<BasicReplicaLog<Rules>>::Launch& launch) {
    return replica.misses_for_good(store.fingerprint(key), launch) ? key + " is there, and taken for absent" : "";
  }
  std::string compare() {
    replica.launch();
    return replica.differences() == 0 ? "" : "the replica differs for good";
  }

  BasicReplicaLog<Rules> log;
  SteppingLog stepping;
  TestStore store;
  TestWorker worker;
  ReplicaFollower<BasicReplicaLog<Rules>> replica;
};

TEST(ReplicaLog, FollowsPutsErasesDisplacementsAndGrowth) {
  Followed<ReplicaLogRules> s({.cells = 512});
  std::uint64_t random = 7;
  for (int i = 0; i < 3000 * effort; ++i) {
    random = mix_bits(random + 1);
    const std::string key = key_of(random % 4000);
    if ((random >> 32) % 4 == 0) {
      s.worker.erase(key);
    } else {
      s.worker.set(key, random);
    }
    if (s.store.index.wants_growth()) {
      ASSERT_TRUE(s.worker.grow());
    }
    if (i % 10 != 0) continue;
    const auto launch = s.replica.launch();
    if (!launch.usable) continue;
    ASSERT_EQ(s.replica.differences(), 0u) << "after " << i;
    ASSERT_EQ(s.replica.search(s.store.fingerprint("none")), no_location);
    ASSERT_TRUE(s.replica.misses_for_good(s.store.fingerprint("none"), launch));
  }
  EXPECT_GT(s.worker.rooms, 0u);
  EXPECT_GT(s.replica.uploads, 2u);
  EXPECT_EQ(s.log.overflows(), 0u);
}

// Each shard's replica receives only its own cells, in whatever order the shards drain.
TEST(ReplicaLog, ShardsAreFollowedOneByOne) {
  constexpr std::uint32_t bits = 2;
  ReplicaLog log({.shard_bits = bits});
  TestStore store({.cells = 512, .log = &log, .shard_bits = bits});
  TestWorker worker(store);
  std::deque<ReplicaFollower<ReplicaLog>> replicas;
  for (std::uint32_t s = 0; s < 1 << bits; ++s) {
    replicas.emplace_back(log, store, 1 << 16, s);
    EXPECT_FALSE(log.recording(s));
    log.start(s);
    replicas.back().upload();
  }
  std::uint64_t random = 7, number = log.launch(), found = 0;
  for (int i = 0; i < 3000 * effort; ++i) {
    random = mix_bits(random + 1);
    const std::string key = key_of(random % 4000);
    if ((random >> 32) % 4 == 0) {
      worker.erase(key);
    } else {
      worker.set(key, random);
    }
    if (store.index.wants_growth()) {
      ASSERT_TRUE(worker.grow());
    }
    if (i % 10 != 0) continue;
    ReplicaFollower<ReplicaLog>& replica = replicas[(random >> 40) % replicas.size()];
    const auto launch = replica.launch();
    EXPECT_EQ(launch.number, number + 1) << "all launches are counted together";
    number = launch.number;
    if (!launch.usable) continue;
    ASSERT_EQ(replica.differences(), 0u) << "after " << i;
    for (std::uint64_t n = 0; n < 20; ++n) {
      const std::string other = key_of(mix_bits(random + n) % 4000);
      const Fingerprint f = store.fingerprint(other);
      if (!replica.has(f)) continue;
      const bool is_there = worker.get(other).has_value();
      found += is_there;
      ASSERT_EQ(replica.search(f) != no_location, is_there) << other;
      ASSERT_EQ(replica.misses_for_good(f, launch), !is_there) << other;
    }
  }
  EXPECT_GT(found, 100u * effort);
  EXPECT_GT(worker.rooms, 0u);
  EXPECT_GT(replicas[0].uploads, 2u);
  for (std::uint32_t s = 0; s < 1 << bits; ++s) EXPECT_EQ(log.overflows(s), 0u);
}

// An overflow switches off its own shard's log only.
TEST(ReplicaLog, AShardOverflowsAlone) {
  ReplicaLog log({.ring_records = 16, .shard_bits = 1});
  TestStore store({.log = &log, .shard_bits = 1});
  TestWorker worker(store);
  ReplicaFollower<ReplicaLog> first(log, store, 1 << 16, 0), second(log, store, 1 << 16, 1);
  for (auto* replica : {&first, &second}) {
    replica->restart();
    ASSERT_TRUE(replica->launch().usable);
  }
  for (std::uint64_t n = 0; n < 200; ++n) {
    worker.set(key_of(n), n);
    second.launch();
  }
  EXPECT_FALSE(log.recording(0));
  EXPECT_TRUE(log.recording(1));
  EXPECT_EQ(log.overflows(0), 1u);
  EXPECT_EQ(log.overflows(1), 0u);
  EXPECT_FALSE(first.launch().usable);
  EXPECT_TRUE(second.launch().usable);
  EXPECT_EQ(second.differences(), 0u);
  first.restart();
  EXPECT_TRUE(first.launch().usable);
  EXPECT_EQ(first.differences(), 0u);
}

TEST(ReplicaLog, SaysNothingWhenOffAndLooksEmptyWhenStarted) {
  ReplicaLog log;
  TestStore store({.log = &log});
  TestWorker worker(store);
  for (std::uint64_t n = 0; n < 100; ++n) worker.set(key_of(n), n);
  EXPECT_EQ(log.records_waiting(), 0u);
  EXPECT_EQ(log.memory_bytes(), 0u) << "nobody has needed a ring";
  log.start();
  ReplicaFollower<ReplicaLog> replica(log, store);
  replica.upload();
  worker.set("k", 1);
  EXPECT_EQ(log.records_waiting(), 1u);
  EXPECT_TRUE(replica.launch().usable);
  EXPECT_EQ(replica.drained.cells, 1u);
  EXPECT_EQ(log.records_waiting(), 0u);
  EXPECT_EQ(replica.differences(), 0u);
  log.stop();
  worker.set("l", 1);
  EXPECT_EQ(log.records_waiting(), 0u);
  EXPECT_FALSE(replica.launch().usable) << "changes may be missing";
}

// A touch changes the item, so a copy of it must be updated.
TEST(ReplicaLog, ATouchedItemsCellIsNoted) {
  Followed<ReplicaLogRules> s;
  s.set("k");
  s.replica.launch();
  {
    const TestWorker::Batch batch(s.worker);
    CuckooIndex::Guard guard = s.store.index.lock(s.store.fingerprint("k"));
    ASSERT_NE(guard.find(std::string_view("k")), nullptr);
    EXPECT_TRUE(guard.update_state(word::Win::mask, word::Win::put(0, 1)));
  }
  EXPECT_EQ(s.log.records_waiting(), 1u);
  s.replica.launch();
  EXPECT_EQ(s.replica.drained.cells, 1u);
}

TEST(ReplicaLog, MissesAreFinalBetweenChanges) {
  Followed<ReplicaLogRules> s;
  const Fingerprint f = s.store.fingerprint("k");
  const auto before = s.replica.launch();
  EXPECT_TRUE(final_miss(s.store.index, f, before.number, true));
  EXPECT_FALSE(final_miss(s.store.index, f, before.number, false));
  s.set("k");
  EXPECT_FALSE(final_miss(s.store.index, f, before.number, true)) << "changed in that launch";
  const auto after = s.replica.launch();
  EXPECT_TRUE(final_miss(s.store.index, f, after.number, true)) << "the change is in this one";
  EXPECT_NE(s.replica.search(f), no_location);
  const TestWorker::Batch batch(s.worker);
  const CuckooIndex::Guard guard = s.store.index.lock(f);
  EXPECT_FALSE(final_miss(s.store.index, f, after.number, true)) << "locked";
}

TEST(ReplicaLog, LaunchNumbersWrap) {
  Followed<ReplicaLogRules> s({}, {.first_launch = 0xfffffffd});
  for (int i = 0; i < 8; ++i) {
    const std::string key = key_of(static_cast<std::uint64_t>(i));
    const Fingerprint f = s.store.fingerprint(key);
    const auto before = s.replica.launch();
    EXPECT_EQ(before.number, 0xfffffffeu + static_cast<std::uint32_t>(2 * i));
    s.set(key);
    EXPECT_EQ(s.store.index.stripe(f).changed_at(), before.number);
    EXPECT_FALSE(s.replica.misses_for_good(f, before));
    const auto after = s.replica.launch();
    EXPECT_NE(s.replica.search(f), no_location);
    s.worker.erase(key);
    EXPECT_FALSE(final_miss(s.store.index, f, after.number, true));
    EXPECT_TRUE(final_miss(s.store.index, f, after.number + 1, true));
  }
}

// --- each rule, and the wrong answer without it

// The write happens while the drain reads. It is too late for this launch, so it must be stamped with its number.
template <class Rules>
std::string write_during_a_drain() {
  Followed<Rules> s;
  s.set("first");  // creates this thread's ring
  const AtDrainPoint hook(DrainPoint::noted, [&] { s.set("k"); });
  const auto launch = s.replica.launch();
  if (s.replica.search(s.store.fingerprint("k")) != no_location) return "the write was not too late";
  return s.look_for("k", launch);
}
struct CountsLast : HookedRules {
  static constexpr bool counts_first = false;
};
TEST(ReplicaLogRules, TheLaunchIsCountedFirst) {
  EXPECT_EQ(write_during_a_drain<HookedRules>(), "");
  EXPECT_EQ(write_during_a_drain<CountsLast>(), "k is there, and taken for absent");
}

// A full table, and a key for which make_room() moves one cell.
struct Move {
  std::string key, moved;  // the key to insert, and the key of the cell that moves
  std::uint64_t from = 0, to = 0;
};
template <class Rules>
void fill(Followed<Rules>& s, std::uint64_t& n) {
  while (s.worker.rooms == 0) s.set(key_of(n++));
}
Move find_move() {
  for (std::uint64_t skip = 0;; ++skip) {
    Followed<ReplicaLogRules> s({.cells = 512, .load_grow = 2});
    std::uint64_t n = 0;
    fill(s, n);
    const std::uint64_t* const cells = s.store.index.searched().view.buckets->cell;
    const std::vector<std::uint64_t> before(cells, cells + 512);
    Move move{.key = key_of(n + skip), .moved = {}};
    const TestWorker::Batch batch(s.worker);
    s.store.index.make_room(s.store.fingerprint(move.key), move.key);
    int changes = 0;
    for (std::uint64_t i = 0; i < 512; ++i) {
      if (cells[i] == before[i]) continue;
      ++changes;
      if (cells[i] == 0) {
        move.from = i;
        move.moved = s.store.heap.at(Cell{before[i]}.location())->key();
      } else {
        move.to = i;
      }
    }
    if (changes == 2) return move;
  }
}

// A cell moves between the drain's reads of its old and its new bucket, and is in neither result. A miss must not be
// final, however old the key is.
template <class Rules>
std::string move_during_a_drain() {
  const Move move = find_move();
  Followed<Rules> s({.cells = 512, .load_grow = 2});
  std::uint64_t n = 0;
  fill(s, n);
  s.replica.launch();
  for (const std::uint64_t cell : {move.to, move.from}) {
    const Change change{1, cell};
    s.log.commit(s.log.reserve({&change, 1}));
  }
  const AtDrainPoint hook(
      DrainPoint::cell,
      [&] {
        const TestWorker::Batch batch(s.worker);
        s.store.index.make_room(s.store.fingerprint(move.key), move.key);
      },
      2);
  const auto launch = s.replica.launch();
  if (s.replica.search(s.store.fingerprint(move.moved)) != no_location) return "it was found";
  const std::string problem = s.look_for(move.moved, launch);
  return problem.empty() ? s.compare() : "taken for absent";
}
TEST(ReplicaLogRules, AMissIsFinalOnlyIfNothingChangedSince) {
  EXPECT_EQ(move_during_a_drain<HookedRules>(), "");
  EXPECT_EQ(move_during_a_drain<CountsLast>(), "taken for absent");
}

// A drain meets a record before its cell is changed.
template <class Rules>
std::string drain_during_a_write() {
  Followed<Rules> s;
  s.stepping.reserved = [&] { s.replica.launch(); };
  s.set("k");
  const std::string problem = s.look_for("k", s.replica.launch());
  if (problem.empty() && (s.replica.drained.repeats != 1 || s.replica.drained.records != 0)) return "not a repeat";
  return problem.empty() ? s.compare() : problem;
}
struct ForgetsAll : HookedRules {
  static constexpr bool keeps_uncommitted = false;
};
TEST(ReplicaLogRules, WhatIsNotCommittedIsKept) {
  EXPECT_EQ(drain_during_a_write<HookedRules>(), "");
  EXPECT_EQ(drain_during_a_write<ForgetsAll>(), "k is there, and taken for absent");
}

// The same for a table that is not followed yet: its records are not delivered, but kept.
template <class Rules>
std::string write_before_the_switch() {
  Followed<Rules> s({.cells = 512});
  for (std::uint64_t n = 0; n < 300; ++n) s.set(key_of(n));
  if (!s.worker.grow()) return "growth failed";
  s.stepping.reserved = [&] { s.replica.launch(); };  // notices the new table, and has uploaded it before the change
  s.set("k");
  return s.compare();
}
TEST(ReplicaLogRules, WhatIsNotCommittedIsKeptForTheNextTable) {
  EXPECT_EQ(write_before_the_switch<HookedRules>(), "");
  EXPECT_EQ(write_before_the_switch<ForgetsAll>(), "the replica differs for good");
}

// The change and its commit happen after the cell was read.
template <class Rules>
std::string commit_after_the_read() {
  Followed<Rules> s;
  const CuckooIndex::Searched table = s.store.index.searched();
  const std::uint64_t cell = 77;
  const Change change{table.serial, cell};
  const ChangeLog::Ticket ticket = s.log.reserve({&change, 1});
  {
    const AtDrainPoint hook(DrainPoint::read, [&] {
      ScalarLanes::at(table.view.buckets->cell + cell).store(Cell::of(1, 1).bits, std::memory_order_release);
      s.log.commit(ticket);
    });
    s.replica.launch();
  }
  return s.compare();
}
struct CommitsAfterCells : HookedRules {
  static constexpr bool commits_before_cells = false;
};
TEST(ReplicaLogRules, WhatIsCommittedIsKnownBeforeCellsAreRead) {
  EXPECT_EQ(commit_after_the_read<HookedRules>(), "");
  EXPECT_EQ(commit_after_the_read<CommitsAfterCells>(), "the replica differs for good");
}

// A growth inserts new keys into its new table only, after the drain has looked up which table is searched.
template <class Rules>
std::string growth_during_a_drain() {
  Followed<Rules> s({.cells = 512, .load_grow = 2});
  const IndexView view = s.store.index.searched().view;
  const auto is_full = [&](std::uint32_t b) {
    return std::ranges::all_of(view.buckets[b].cell, [](std::uint64_t c) { return c != 0; });
  };
  std::uint64_t n = 0;
  std::string key;
  for (; n < 480; ++n) s.set(key_of(n));
  Fingerprint f{};
  do {
    key = key_of(n++);
    f = s.store.fingerprint(key);
  } while (!is_full(view.first(f)) || !is_full(view.second(f)));
  EpochDomain::Participant batch(s.store.epochs);
  batch.enter();
  std::thread growth([&] {
    TestWorker grower(s.store);
    ASSERT_TRUE(grower.grow());
  });
  while (!s.store.index.growing()) std::this_thread::yield();
  // Writers still insert into the old table until the batch has ended.
  typename ReplicaFollower<BasicReplicaLog<Rules>>::Launch launch;
  {
    const AtDrainPoint hook(DrainPoint::begin, [&] {
      batch.exit();
      while (s.store.index.searched().whole) std::this_thread::yield();
      s.set(key);
    });
    launch = s.replica.launch();
  }
  const std::string problem = s.look_for(key, launch);
  growth.join();
  return problem;
}
struct LooksFirst : HookedRules {
  static constexpr bool looks_after_count = false;
};
TEST(ReplicaLogRules, TheTableIsLookedUpAfterTheCount) {
  EXPECT_EQ(growth_during_a_drain<HookedRules>(), "");
  EXPECT_NE(growth_during_a_drain<LooksFirst>(), "");
}

// A batch that began while the log was off changes a cell after the upload has read it.
std::string upload_at_once(bool waits) {
  ReplicaLog log;
  SteppingLog stepping(log);
  TestStore store({.log = &stepping});
  TestWorker worker(store);
  ReplicaFollower<ReplicaLog> replica(log, store);
  std::uint64_t stamp = 0;
  bool uploaded = false;
  const auto upload = [&] {
    if (uploaded || (waits && !store.epochs.is_safe(stamp))) return;
    replica.upload();
    uploaded = true;
  };
  stepping.reserved = [&] {
    log.start();
    stamp = store.epochs.retire_stamp();
    upload();
  };
  worker.set("k", 1);
  upload();
  if (!uploaded) return "it waits for ever";
  replica.launch();
  return replica.differences() == 0 ? "" : "the replica differs for good";
}
TEST(ReplicaLogRules, AnUploadWaitsForTheBatchesBeforeTheLog) {
  EXPECT_EQ(upload_at_once(true), "");
  EXPECT_EQ(upload_at_once(false), "the replica differs for good");
}

// --- bounds

TEST(ReplicaLog, FullRingSwitchesTheLogOffAndWritersGoOn) {
  Followed<ReplicaLogRules> s({}, {.ring_records = 64});
  for (std::uint64_t n = 0; n < 32; ++n) s.set(key_of(n));
  EXPECT_FALSE(s.log.wants_drain());
  s.set("half");
  EXPECT_TRUE(s.log.wants_drain());
  s.replica.launch();
  EXPECT_FALSE(s.log.wants_drain());
  const std::uint64_t bytes = s.log.memory_bytes();
  for (std::uint64_t n = 100; n < 164; ++n) s.set(key_of(n));
  EXPECT_TRUE(s.log.recording());
  s.set("one too many");
  EXPECT_FALSE(s.log.recording());
  EXPECT_EQ(s.log.overflows(), 1u);
  for (std::uint64_t n = 200; n < 400; ++n) s.set(key_of(n));
  EXPECT_EQ(s.log.overflows(), 1u);
  EXPECT_EQ(s.log.memory_bytes(), bytes);
  EXPECT_FALSE(s.replica.launch().usable);
  s.log.start();
  EXPECT_EQ(s.log.records_waiting(), 0u);
  s.replica.upload();
  s.set("after");
  EXPECT_TRUE(s.replica.launch().usable);
  EXPECT_EQ(s.replica.differences(), 0u);
}

TEST(ReplicaLog, FullQueueKeepsTheRest) {
  ReplicaLog log;
  TestStore store({.log = &log});
  TestWorker worker(store);
  log.start();
  ReplicaFollower<ReplicaLog> replica(log, store, 8);
  replica.upload();
  for (std::uint64_t n = 0; n < 20; ++n) worker.set(key_of(n), n);
  EXPECT_FALSE(replica.launch().usable);
  EXPECT_EQ(replica.drained.records, 8u);
  EXPECT_FALSE(replica.launch().usable);
  EXPECT_TRUE(replica.launch().usable);
  EXPECT_EQ(replica.drained.records, 4u);
  EXPECT_EQ(replica.differences(), 0u);
}

// A thread that ends leaves its ring and the records in it to the next thread.
TEST(ReplicaLog, RingsGoFromThreadToThread) {
  Followed<ReplicaLogRules> s;
  std::uint64_t bytes = 0;
  for (std::uint64_t t = 0; t < 10; ++t) {
    std::thread([&] {
      TestWorker worker(s.store);
      worker.set(key_of(t), t);
    }).join();
    if (t == 0) bytes = s.log.memory_bytes();
  }
  EXPECT_EQ(s.log.memory_bytes(), bytes);
  EXPECT_EQ(s.log.records_waiting(), 10u);
  EXPECT_EQ(s.compare(), "");
}

// A thread outlives logs that it has written to.
TEST(ReplicaLog, ManyLogsInOneThread) {
  for (int i = 0; i < 20; ++i) {
    Followed<ReplicaLogRules> one, other;
    one.set("k");
    other.set("k");
    one.set("l");
    EXPECT_EQ(one.log.records_waiting(), 2u);
    EXPECT_EQ(other.log.records_waiting(), 1u);
    EXPECT_EQ(one.compare(), "");
    EXPECT_EQ(other.compare(), "");
  }
}

}  // namespace
}  // namespace tandem
