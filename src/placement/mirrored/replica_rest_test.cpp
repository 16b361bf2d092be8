// A replica that rests comes back by what its writers have marked, and equals the host's table and items.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "device/device_contract.hpp"
#include "placement/mirrored/replica_rig.hpp"

namespace tandem {
namespace {

using State = ReplicaState;

constexpr std::uint64_t heap_bytes = 4 << 20;

ReplicaRigOptions with_images() {
  return {.log = {.ring_granules = 64},
          .replica = {.queue_cells = 1 << 8, .chunk_bytes = 1 << 12, .images = {.bytes = heap_bytes, .writers = 1}}};
}

// --- the map

std::vector<std::uint32_t> taken_from(DirtyMap& map, bool blocks) {
  std::vector<std::uint32_t> all;
  std::array<std::uint32_t, 3> some{};
  for (std::uint64_t at = 0; at != (blocks ? map.blocks() : map.buckets());) {
    std::size_t taken = 0;
    at = blocks ? map.take_blocks(at, some, taken) : map.take_buckets(at, some, taken);
    all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(taken));
  }
  return all;
}

FollowedTable table_of(TestStore& store) {
  EpochDomain::Participant epoch(store.epochs);
  epoch.enter();
  const FollowedTable table = store.index.followed();
  epoch.exit();
  return table;
}

TEST(DirtyMap, NamesBlocksAndBucketsOnce) {
  TestStore store({.cells = 1 << 10});
  DirtyMap map(store.heap, heap_bytes, store.budget);
  const FollowedTable table = table_of(store);
  map.make(table);
  map.use();
  EXPECT_TRUE(map.follows(table.serial));
  EXPECT_EQ(map.bytes(), (1u << 10) / bucket_cells + heap_bytes / DirtyMap::block_bytes);
  EXPECT_EQ(map.share(), 0);
  for (const Location l : {1u, 7u, 8u, 800u, 801u, 8000u, 16000u}) map.mark(store.heap.at(l));
  map.mark(store.heap.at(heap_bytes / granule_bytes));  // has no image
  map.mark(LogRecord::of({table.serial, 17}));          // an empty cell
  map.mark(LogRecord::of({table.serial + 1, 40}));      // of another table
  EXPECT_GT(map.share(), 0);
  EXPECT_EQ(taken_from(map, true), (std::vector<std::uint32_t>{0, 1, 100, 1000, 2000}));
  EXPECT_EQ(taken_from(map, false), std::vector<std::uint32_t>{2});
  EXPECT_TRUE(taken_from(map, true).empty() && taken_from(map, false).empty());
  map.mark(store.heap.at(8));
  map.mark(LogRecord::of({table.serial, 17}));
  map.make(table);
  EXPECT_EQ(map.share(), 0) << "made anew";
}

TEST(DirtyMap, IsInTheMemoryLimit) {
  TestStore store({.cells = 1 << 10});
  MemoryBudget small(heap_bytes / DirtyMap::block_bytes);
  DirtyMap map(store.heap, heap_bytes, small);
  map.make(table_of(store));
  EXPECT_EQ(small.used_bytes(), 0u) << "not half of it";
  EXPECT_EQ(map.lacking_bytes(), (1u << 10) / bucket_cells + heap_bytes / DirtyMap::block_bytes);
  EXPECT_FALSE(map.follows(table_of(store).serial));
}

// --- returns

class ReplicaRestOnDevice : public testing::TestWithParam<DeviceKind> {};
INSTANTIATE_TEST_SUITE_P(All, ReplicaRestOnDevice, testing::ValuesIn(device_kinds()),
                         [](const auto& p) { return p.param.name; });

// Sets beside and in place, touches, erases and displacements, in rest and return.
TEST_P(ReplicaRestOnDevice, ComesBackByWhatHasChanged) {
  ReplicaRigOptions options = with_images();
  options.load_grow = 2;
  ReplicaRig<ReplicaRules, Device> rig(options, GetParam().make());
  constexpr std::uint64_t keys = 900;
  for (std::uint64_t n = 0; n < keys; ++n) ASSERT_TRUE(rig.set(key_of(n), n + 1));
  ASSERT_EQ(rig.upload(), State::current);
  std::uint64_t random = 3;
  const auto change = [&](int writes) {
    for (int i = 0; i < writes; ++i) {
      random = mix_bits(random + 1);
      const std::string key = key_of(random % keys);
      const std::uint64_t what = (random >> 32) % 4;
      if (what == 0) rig.worker.erase(key);
      if (what == 1) rig.worker.touch(key, static_cast<std::uint32_t>(random >> 48));
      if (what == 2) rig.worker.rewrite(key, [&](std::uint64_t) { return random; });
      if (what == 3) static_cast<void>(rig.worker.set(key, random));
    }
  };
  const int rounds = 12 * effort;
  for (int round = 1; round <= rounds; ++round) {
    ASSERT_EQ(rig.rest(), State::resting);
    EXPECT_FALSE(rig.log.recording());
    EXPECT_EQ(rig.replica.drain().status, ReplicaLaunch::Status::not_current);
    change(20);
    EXPECT_EQ(rig.replica.start(), State::returning);
    while (rig.replica.step(1 << 9) == State::returning) {
      change(1);
      rig.replica.drain();
    }
    const ReplicaLaunch launch = rig.drain();
    ASSERT_EQ(rig.compare(launch), "") << round;
    change(10);
    ASSERT_EQ(rig.compare(rig.drain()), "") << round;
  }
  const ReplicaStats stats = rig.replica.stats();
  EXPECT_EQ(stats.returns_warm, static_cast<std::uint64_t>(rounds));
  EXPECT_EQ(stats.returns_whole, 0u);
  EXPECT_EQ(stats.uploads, 1u);
  EXPECT_GT(rig.worker.rooms, 0u) << "cells were displaced";
  EXPECT_GT(stats.return_bytes, 0u);
  EXPECT_LT(stats.dirty_permille, 250u);
  EXPECT_GT(stats.map_bytes, 0u);
}

TEST(ReplicaRest, KeepsTheDevicesMemory) {
  ReplicaRig rig(with_images());
  ASSERT_EQ(rig.upload(), State::current);
  const std::uint64_t free_bytes = rig.device->memory_free_bytes();
  ASSERT_EQ(rig.rest(), State::resting);
  EXPECT_EQ(rig.device->memory_free_bytes(), free_bytes);
  rig.replica.stop(ReplicaAbsence::rests);
  EXPECT_EQ(rig.replica.stats().state, State::absent);
  ASSERT_EQ(rig.upload(), State::current);
  EXPECT_EQ(rig.compare(rig.drain()), "");
}

TEST(ReplicaRest, EndsAtOnceWhileItsBatchesGoOn) {
  ReplicaRig rig(with_images());
  ASSERT_EQ(rig.upload(), State::current);
  {
    const TestWorker::Batch batch(rig.worker);
    ASSERT_TRUE(rig.replica.rest());
    EXPECT_EQ(rig.replica.step(1 << 12), State::leaving);
    EXPECT_EQ(rig.replica.start(), State::current);
  }
  rig.set("k");
  EXPECT_EQ(rig.compare(rig.drain()), "");
  EXPECT_EQ(rig.replica.stats().returns_warm, 0u);
}

TEST(ReplicaRest, WithoutAMapItDoesNotRest) {
  ReplicaRig rig({.log = {.shard_bits = 1}});
  ASSERT_EQ(rig.upload(), State::current);
  EXPECT_FALSE(rig.replica.rest());
  EXPECT_EQ(rig.compare(rig.drain()), "");
}

TEST(ReplicaRest, AGrowthEndsIt) {
  ReplicaRig rig(with_images());
  ASSERT_EQ(rig.upload(), State::current);
  ASSERT_EQ(rig.rest(), State::resting);
  ASSERT_TRUE(rig.worker.grow());
  EXPECT_EQ(rig.replica.step(1 << 12), State::absent);
  EXPECT_EQ(rig.replica.stats().absence, ReplicaAbsence::rests);
  ASSERT_EQ(rig.upload(), State::current);
  EXPECT_EQ(rig.compare(rig.drain()), "");
  ASSERT_EQ(rig.rest(), State::resting);
  rig.set("k");
  EXPECT_EQ(rig.replica.start(), State::returning);
  ASSERT_TRUE(rig.worker.grow());
  ASSERT_EQ(rig.finish_upload(), State::current);
  EXPECT_EQ(rig.compare(rig.drain()), "");
  EXPECT_EQ(rig.replica.stats().returns_whole, 2u);
}

// The device has no memory for images: an upload tries again to have them.
TEST(ReplicaRest, IsNotWarmWithoutTheImagesThatItShouldHave) {
  ReplicaRigOptions options = with_images();
  options.sim.memory_bytes = 64 << 10;
  ReplicaRig rig(options);
  ASSERT_EQ(rig.upload(), State::current);
  EXPECT_TRUE(rig.replica.stats().images_given_up);
  EXPECT_FALSE(rig.replica.rest());
  rig.replica.stop(ReplicaAbsence::rests);
  rig.set("k");
  ASSERT_EQ(rig.upload(), State::current);
  EXPECT_EQ(rig.compare(rig.drain()), "");
  EXPECT_EQ(rig.replica.stats().returns_whole, 1u);
}

TEST(ReplicaRest, ComesBackByAnUploadIfAQuarterHasChanged) {
  ReplicaRig rig(ReplicaRigOptions{});
  for (std::uint64_t n = 0; n < 500; ++n) rig.set(key_of(n));
  ASSERT_EQ(rig.upload(), State::current);
  ASSERT_EQ(rig.rest(), State::resting);
  for (std::uint64_t n = 0; n < 500; ++n) rig.set(key_of(n), 2);
  rig.replica.start();
  ASSERT_EQ(rig.finish_upload(), State::current);
  EXPECT_EQ(rig.compare(rig.drain()), "");
  const ReplicaStats stats = rig.replica.stats();
  EXPECT_EQ(stats.returns_whole, 1u);
  EXPECT_EQ(stats.uploads, 2u);
  EXPECT_GT(stats.dirty_permille, 250u);
}

TEST(ReplicaRest, AFailureInAReturnUploads) {
  ReplicaRig rig(with_images());
  for (std::uint64_t n = 0; n < 500; ++n) rig.set(key_of(n));
  ASSERT_EQ(rig.upload(), State::current);
  ASSERT_EQ(rig.rest(), State::resting);
  for (std::uint64_t n = 0; n < 20; ++n) rig.set(key_of(n), 2);
  rig.replica.start();
  rig.device->fail(1);
  std::string problem = "none yet";
  for (int tries = 0; tries < 10 && !problem.empty(); ++tries) {
    ASSERT_EQ(rig.finish_upload(), State::current);
    problem = rig.compare(rig.drain());  // of the launch that fails, too
  }
  EXPECT_EQ(problem, "");
  EXPECT_EQ(rig.replica.stats().uploads, 2u);
}

// --- rules, and what is wrong without them

// A write reserves before the rest begins, and changes its cell as late as the rules let it.
template <class Rules>
std::string write_across_leaving() {
  ReplicaRig<Rules> rig(with_images());
  rig.set("k", 1);
  EXPECT_EQ(rig.upload(), State::current);
  rig.stepping.reserved = [&] {
    EXPECT_TRUE(rig.replica.rest());
    for (int i = 0; i < 5; ++i) rig.replica.step(1 << 12);
  };
  rig.set("k", 2);
  EXPECT_EQ(rig.finish_upload(), State::resting);
  rig.replica.start();
  EXPECT_EQ(rig.finish_upload(), State::current);
  return rig.compare(rig.drain());
}
struct RestsAtOnce : ReplicaRules {
  static constexpr bool waits_to_rest = false;
};
TEST(ReplicaRule, ARestWaitsForTheBatchesThatDoNotMark) {
  EXPECT_EQ(write_across_leaving<ReplicaRules>(), "");
  EXPECT_NE(write_across_leaving<RestsAtOnce>(), "");
}

// A write ends before the rest begins, and no launch has taken it.
template <class Rules>
std::string write_before_leaving() {
  ReplicaRig<Rules> rig(with_images());
  rig.set("k", 1);
  EXPECT_EQ(rig.upload(), State::current);
  rig.set("k", 2);
  EXPECT_EQ(rig.rest(), State::resting);
  rig.replica.start();
  EXPECT_EQ(rig.finish_upload(), State::current);
  return rig.compare(rig.drain());
}
struct DropsTheLog : ReplicaRules {
  static constexpr bool drains_last = false;
};
TEST(ReplicaRule, ALastDrainTakesWhatWasNotMarked) {
  EXPECT_EQ(write_before_leaving<ReplicaRules>(), "");
  EXPECT_NE(write_before_leaving<DropsTheLog>(), "");
}

// A write of the rest changes its cell as late as the rules let it.
template <class Rules>
std::string write_across_return() {
  ReplicaRig<Rules> rig(with_images());
  rig.set("k", 1);
  EXPECT_EQ(rig.upload(), State::current);
  EXPECT_EQ(rig.rest(), State::resting);
  rig.stepping.reserved = [&] {
    rig.replica.start();
    for (int i = 0; i < 5; ++i) rig.replica.step(1 << 12);
  };
  rig.set("k", 2);
  EXPECT_EQ(rig.finish_upload(), State::current);
  return rig.compare(rig.drain());
}
struct ReturnsAtOnce : ReplicaRules {
  static constexpr bool waits_to_return = false;
};
TEST(ReplicaRule, AReturnWaitsForTheBatchesThatDoNotAnnounce) {
  EXPECT_EQ(write_across_return<ReplicaRules>(), "");
  EXPECT_NE(write_across_return<ReturnsAtOnce>(), "");
}

// The log overflows in a return, behind a write whose bucket has been sent.
TEST(ReplicaRest, AnOverflowInAReturnLosesNothing) {
  ReplicaRigOptions options = with_images();
  options.log.ring_records = 16;
  ReplicaRig rig(options);
  for (std::uint64_t n = 0; n < 40; ++n) rig.set(key_of(n), 1);
  ASSERT_EQ(rig.upload(), State::current);
  ASSERT_EQ(rig.rest(), State::resting);
  rig.set(key_of(0), 2);
  rig.replica.start();
  rig.replica.step(1);  // the log is on, and the buckets are sent
  ASSERT_TRUE(rig.log.recording());
  EXPECT_GT(rig.replica.stats().return_bytes, 0u);
  ASSERT_EQ(rig.replica.stats().state, State::returning);
  for (std::uint64_t n = 0; rig.log.recording(); ++n) rig.set(key_of(n % 40), 3);
  ASSERT_EQ(rig.finish_upload(), State::current);
  EXPECT_EQ(rig.compare(rig.drain()), "");
  EXPECT_EQ(rig.replica.stats().returns_warm, 1u);
  EXPECT_EQ(rig.replica.stats().uploads, 1u);
}

TEST(ReplicaRest, AnOverflowOnTheWayToItFreesTheDevice) {
  ReplicaRigOptions options = with_images();
  options.log.ring_records = 16;
  ReplicaRig rig(options);
  ASSERT_EQ(rig.upload(), State::current);
  {
    const TestWorker::Batch batch(rig.worker);
    ASSERT_TRUE(rig.replica.rest());
    TestWorker other(rig.store);
    for (std::uint64_t n = 0; n < 40; ++n) other.set(key_of(n), n);
  }
  ASSERT_FALSE(rig.log.recording());
  EXPECT_EQ(rig.finish_upload(), State::absent);
  EXPECT_EQ(rig.replica.stats().absence, ReplicaAbsence::rests);
  ASSERT_EQ(rig.upload(), State::current);
  EXPECT_EQ(rig.compare(rig.drain()), "");
}

}  // namespace
}  // namespace tandem
