// The copy of the index on a device equals the host's table after every drain, whatever happens to table and device.
#include "placement/mirrored/replica.hpp"

#include <gtest/gtest.h>

#include "device/device_contract.hpp"
#include "placement/mirrored/replica_rig.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using Status = ReplicaLaunch::Status;

class ReplicaOnDevice : public testing::TestWithParam<DeviceKind> {};
INSTANTIATE_TEST_SUITE_P(All, ReplicaOnDevice, testing::ValuesIn(device_kinds()),
                         [](const auto& p) { return p.param.name; });

TEST_P(ReplicaOnDevice, EqualsTheTableAfterEveryDrain) {
  ReplicaRig<ReplicaRules, Device> rig({.cells = 512}, GetParam().make());
  for (std::uint64_t n = 0; n < 200; ++n) rig.set(key_of(n));
  ASSERT_EQ(rig.upload(), ReplicaState::current);
  std::uint64_t random = 5;
  for (int i = 0; i < 400 * effort; ++i) {
    for (int writes = 0; writes < 8; ++writes) {
      random = mix_bits(random + 1);
      const std::string key = key_of(random % 4000);
      if ((random >> 32) % 4 == 0) {
        rig.worker.erase(key);
      } else {
        rig.worker.set(key, random);
      }
    }
    if (rig.store.index.wants_growth()) {
      ASSERT_TRUE(rig.worker.grow());
    }
    ReplicaLaunch launch = rig.drain();
    if (!launch.ready()) {
      ASSERT_EQ(launch.status, Status::not_current);
      ASSERT_EQ(rig.finish_upload(), ReplicaState::current);
      launch = rig.drain();
    }
    ASSERT_EQ(rig.compare(launch), "") << i;
  }
  const ReplicaStats stats = rig.replica.stats();
  EXPECT_GT(stats.uploads, 2u) << "the table has grown";
  EXPECT_GT(rig.worker.rooms, 0u) << "cells were displaced";
  EXPECT_EQ(stats.failures + stats.overflows, 0u);
  EXPECT_GT(stats.cells, 0u);
}

// Writers and growth continue between two steps of an upload.
TEST(Replica, UploadsWhileTheTableChanges) {
  ReplicaRig rig({.cells = 1 << 12});
  std::uint64_t n = 0;
  for (; n < 2000; ++n) rig.set(key_of(n));
  rig.replica.start();
  for (bool grown = false; rig.replica.step(1 << 10) == ReplicaState::uploading;) {
    for (int writes = 0; writes < 5; ++writes) rig.set(key_of(n++));
    rig.worker.erase(key_of(n % 2000));
    ASSERT_EQ(rig.replica.drain().status, Status::not_current);
    if (!grown && rig.replica.stats().uploaded_bytes > 10'000) {
      grown = rig.worker.grow();
      ASSERT_TRUE(grown);
    }
  }
  EXPECT_EQ(rig.replica.stats().uploads, 2u);
  EXPECT_GT(rig.replica.stats().cells, 0u) << "some had been read already";
  EXPECT_EQ(rig.compare(rig.drain()), "");
}

TEST_P(ReplicaOnDevice, EveryCompletedWriteIsInTheNextLaunch) {
  ReplicaRig<ReplicaRules, Device> rig({}, GetParam().make());
  ASSERT_EQ(rig.upload(), ReplicaState::current);
  for (std::uint64_t n = 0; n < 300; ++n) {
    const std::string key = key_of(n % 100);
    const Fingerprint f = rig.store.fingerprint(key);
    const ReplicaLaunch before = rig.drain();
    ASSERT_TRUE(rig.set(key, n));
    EXPECT_FALSE(final_miss(rig.store.index, f, before));
    const Item* item = nullptr;
    ItemVersion seen;
    {
      const TestWorker::Batch batch(rig.worker);
      item = rig.store.index.find(f, key, seen);
    }
    const ReplicaLaunch after = rig.drain();
    EXPECT_EQ(rig.find(after, key), rig.store.heap.location_of(item));
    if (n % 3 != 0) continue;
    ASSERT_TRUE(rig.worker.erase(key));
    const ReplicaLaunch erased = rig.drain();
    EXPECT_EQ(rig.find(erased, key), no_location);
    EXPECT_TRUE(final_miss(rig.store.index, f, erased));
  }
}

TEST(Replica, StartsAndStops) {
  ReplicaRig rig;
  const std::uint64_t free_bytes = rig.device->memory_free_bytes();
  EXPECT_EQ(rig.replica.drain().status, Status::not_current);
  EXPECT_EQ(rig.replica.step(1000), ReplicaState::absent);
  EXPECT_EQ(rig.replica.stats().absence, ReplicaAbsence::not_started);
  EXPECT_EQ(rig.upload(), ReplicaState::current);
  EXPECT_TRUE(rig.log.recording());
  EXPECT_LT(rig.device->memory_free_bytes(), free_bytes);
  EXPECT_EQ(rig.replica.stats().uploaded_bytes, (1u << 10) * sizeof(Cell));
  rig.replica.stop(ReplicaAbsence::stopped);
  EXPECT_FALSE(rig.log.recording());
  EXPECT_EQ(rig.replica.stats().absence, ReplicaAbsence::stopped);
  ASSERT_EQ(rig.replica.stream().wait(rig.replica.stream().mark(), rig.long_enough), DeviceStatus::ok);
  EXPECT_EQ(rig.replica.step(1000), ReplicaState::absent);
  EXPECT_EQ(rig.device->memory_free_bytes(), free_bytes);
  rig.set("k");
  EXPECT_EQ(rig.upload(), ReplicaState::current);
  EXPECT_EQ(rig.compare(rig.drain()), "");
}

// --- memory

TEST(Replica, WithoutDeviceMemoryItIsAbsent) {
  ReplicaRig rig({.sim = {.memory_bytes = 4096}});
  EXPECT_EQ(rig.upload(), ReplicaState::absent);
  EXPECT_EQ(rig.replica.stats().absence, ReplicaAbsence::out_of_memory);
  EXPECT_FALSE(rig.log.recording());
  EXPECT_TRUE(rig.set("k"));
}

// The larger table fits only once the previous one is freed, which a launch still holds.
TEST(Replica, TheTableBeforeMakesRoom) {
  constexpr std::uint64_t bytes = (1 << 10) * (sizeof(Cell) + 4);
  ReplicaRig rig({.sim = {.memory_bytes = bytes * 2 + 1024}});
  rig.set("k");
  ASSERT_EQ(rig.upload(), ReplicaState::current);
  ReplicaLaunch launch = rig.drain();
  ASSERT_TRUE(rig.worker.grow());
  EXPECT_EQ(rig.replica.drain().status, Status::not_current);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(rig.replica.step(1 << 12), ReplicaState::uploading);
  EXPECT_NE(rig.find(launch, "k"), no_location) << "it is still there for those who hold it";
  launch = {};
  EXPECT_EQ(rig.finish_upload(), ReplicaState::current);
  EXPECT_EQ(rig.compare(rig.drain()), "");
}

TEST(Replica, ATableThatIsHeldOutlivesAGrowth) {
  ReplicaRig rig;
  rig.set("k");
  ASSERT_EQ(rig.upload(), ReplicaState::current);
  const ReplicaLaunch launch = rig.drain();
  ASSERT_TRUE(rig.worker.grow());
  EXPECT_EQ(rig.replica.drain().status, Status::not_current);
  ASSERT_EQ(rig.finish_upload(), ReplicaState::current);
  const ReplicaLaunch next = rig.drain();
  EXPECT_NE(next.index.shape, launch.index.shape);
  EXPECT_NE(rig.find(launch, "k"), no_location);
  EXPECT_EQ(rig.find(next, "k"), rig.find(launch, "k"));
}

// --- bounds

TEST(Replica, WritersThatRelieveItDoNotOverflow) {
  ReplicaRig rig({.cells = 1 << 12, .log = {.ring_records = 64}});
  ASSERT_EQ(rig.upload(), ReplicaState::current);
  for (std::uint64_t n = 0; n < 1000; ++n) {
    rig.set(key_of(n));
    if (rig.replica.wants_drain()) rig.replica.relieve();
  }
  EXPECT_EQ(rig.log.overflows(), 0u);
  EXPECT_GT(rig.replica.stats().relieved, 0u);
  EXPECT_GT(rig.replica.stats().lag, 900u);
  EXPECT_EQ(rig.compare(rig.drain()), "");
  EXPECT_EQ(rig.drain().status, Status::ready);
  EXPECT_EQ(rig.replica.stats().lag, 0u);
}

TEST(Replica, UploadsAgainAfterAnOverflow) {
  ReplicaRig rig({.log = {.ring_records = 64}});
  ASSERT_EQ(rig.upload(), ReplicaState::current);
  for (std::uint64_t n = 0; n < 200; ++n) rig.set(key_of(n));
  EXPECT_EQ(rig.replica.stats().overflows, 1u);
  EXPECT_EQ(rig.replica.drain().status, Status::not_current);
  EXPECT_EQ(rig.finish_upload(), ReplicaState::current);
  EXPECT_EQ(rig.compare(rig.drain()), "");
}

// A device hangs: launches are refused and memory use stays constant. When the device recovers, the replica does, too.
TEST(Replica, OutlastsADeviceThatHangs) {
  ReplicaRig rig(
      {.cells = 1 << 14, .log = {.ring_records = 256}, .replica = {.queue_cells = 512, .chunk_bytes = 4096}});
  ASSERT_EQ(rig.upload(), ReplicaState::current);
  rig.set("first");  // creates its ring
  ASSERT_EQ(rig.compare(rig.drain()), "");
  const ReplicaStats before = rig.replica.stats();
  rig.device->hang();
  Status status = Status::ready;
  std::uint64_t n = 0;
  for (; n < 10'000; ++n) {
    rig.set(key_of(n));
    rig.replica.relieve();
    if (n % 16 == 0) status = rig.replica.drain().status;
    rig.replica.step(1 << 12);
  }
  EXPECT_EQ(status, Status::not_current);
  ReplicaStats stats = rig.replica.stats();
  EXPECT_GT(stats.busy, 0u);
  EXPECT_EQ(stats.overflows, 1u) << "the log stays off";
  EXPECT_EQ(stats.pinned_bytes, before.pinned_bytes);
  EXPECT_EQ(stats.log_bytes, before.log_bytes);
  EXPECT_LE(stats.lag, 512u + 256u);
  rig.device->resume();
  ASSERT_EQ(rig.finish_upload(), ReplicaState::current);
  rig.set("afterwards");
  EXPECT_EQ(rig.compare(rig.drain()), "");
}

// --- faults

TEST(Replica, LostWithTheDeviceForEver) {
  ReplicaRig rig;
  ASSERT_EQ(rig.upload(), ReplicaState::current);
  rig.set("k");
  const ReplicaLaunch launch = rig.drain();
  ASSERT_TRUE(launch.ready());
  rig.device->lose();
  EXPECT_EQ(rig.replica.poll(launch), DeviceStatus::lost);
  EXPECT_EQ(rig.replica.drain().status, Status::not_current);
  EXPECT_EQ(rig.replica.stats().state, ReplicaState::lost);
  EXPECT_FALSE(rig.log.recording());
  EXPECT_TRUE(rig.set("l"));
  rig.replica.stop(ReplicaAbsence::stopped);
  EXPECT_EQ(rig.replica.start(), ReplicaState::lost);
  EXPECT_EQ(rig.replica.step(1000), ReplicaState::lost);
}

TEST(Replica, LostWhileItHangs) {
  ReplicaRig rig;
  rig.replica.start();
  rig.device->hang();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(rig.replica.step(1000), ReplicaState::uploading);
  rig.device->abandon();
  EXPECT_EQ(rig.replica.step(1000), ReplicaState::lost);
}

TEST(Replica, NothingStartsOnALostDevice) {
  ReplicaRig rig;
  rig.device->lose();
  EXPECT_EQ(rig.replica.start(), ReplicaState::lost);
}

// An apply, or a copy of an upload, fails. Results obtained with it do not count, and the replica is uploaded again.
TEST(Replica, WorkThatFailsIsDoneAgain) {
  for (const bool refused : {false, true}) {
    ReplicaRig rig;
    ASSERT_EQ(rig.upload(), ReplicaState::current);
    ASSERT_EQ(rig.compare(rig.drain()), "");
    rig.set("k");
    if (refused) {
      rig.device->refuse();
      EXPECT_EQ(rig.replica.drain().status, Status::not_current);
    } else {
      rig.device->fail();
      const ReplicaLaunch launch = rig.drain();
      ASSERT_TRUE(launch.ready());
      EXPECT_EQ(rig.find(launch, "k"), no_location);
      EXPECT_EQ(rig.replica.poll(launch), DeviceStatus::failed);
    }
    EXPECT_EQ(rig.replica.stats().state, ReplicaState::uploading);
    EXPECT_EQ(rig.finish_upload(), ReplicaState::current);
    EXPECT_EQ(rig.compare(rig.drain()), "");
    EXPECT_EQ(rig.replica.stats().failures, 1u);

    rig.replica.stop(ReplicaAbsence::stopped);
    rig.replica.start();
    rig.device->fail(3);
    while (rig.replica.stats().failures == 1) rig.replica.step(1 << 12);
    EXPECT_EQ(rig.finish_upload(), ReplicaState::current);
    EXPECT_EQ(rig.compare(rig.drain()), "");
  }
}

// A search on another stream may still read the cells that an upload writes, until its batch ends.
TEST(Replica, AfterAFailureItUploadsWhenTheBatchesBeforeHaveEnded) {
  ReplicaRig rig;
  ASSERT_EQ(rig.upload(), ReplicaState::current);
  EpochDomain::Participant batch(rig.store.epochs);
  batch.enter();
  ASSERT_TRUE(rig.drain().ready());
  rig.set("k");
  rig.device->refuse();
  EXPECT_EQ(rig.replica.drain().status, ReplicaLaunch::Status::not_current);
  const std::uint64_t before = rig.replica.stats().uploaded_bytes;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(rig.replica.step(1 << 20), ReplicaState::uploading);
  EXPECT_EQ(rig.replica.stats().uploaded_bytes, before);
  batch.exit();
  EXPECT_EQ(rig.finish_upload(), ReplicaState::current);
  EXPECT_EQ(rig.compare(rig.drain()), "");
}

TEST(Replica, GivesUpAfterSeveralFailures) {
  ReplicaRig rig;
  ASSERT_EQ(rig.upload(), ReplicaState::current);
  for (std::uint64_t n = 0; rig.replica.stats().state != ReplicaState::absent; ++n) {
    ASSERT_LT(n, 3u);
    ASSERT_EQ(rig.finish_upload(), ReplicaState::current);
    rig.set(key_of(n));
    rig.device->refuse();
    EXPECT_EQ(rig.replica.drain().status, Status::not_current);
  }
  EXPECT_EQ(rig.replica.stats().absence, ReplicaAbsence::failures);
  EXPECT_EQ(rig.replica.stats().failures, 3u);
  EXPECT_FALSE(rig.log.recording());
  EXPECT_EQ(rig.upload(), ReplicaState::current) << "who wants may try again";
}

// --- each rule, and the wrong answer without it

// A batch that began before the log was switched on changes its cell after the upload has read it.
template <class Rules>
std::string upload_during_a_write() {
  ReplicaRig<Rules> rig({.replica = {.chunk_bytes = 1 << 14}});  // one chunk, one step
  rig.stepping.reserved = [&] {
    rig.replica.start();
    rig.replica.step(1 << 20);
  };
  rig.set("k");
  rig.finish_upload();
  return rig.compare(rig.drain());
}
struct UploadsAtOnce : ReplicaRules {
  static constexpr bool waits_for_batches = false;
};
TEST(ReplicaRule, AnUploadWaitsForTheBatchesBeforeTheLog) {
  EXPECT_EQ(upload_during_a_write<ReplicaRules>(), "");
  EXPECT_EQ(upload_during_a_write<UploadsAtOnce>(), "the device's table differs");
}

// The device is slower than the uploader, and then slower than the drains.
template <class Rules>
std::string slow_device() {
  ReplicaRig<Rules> rig({.cells = 1 << 10, .replica = {.queue_cells = 64, .chunk_bytes = 1 << 10, .chunks = 2}});
  for (std::uint64_t n = 0; n < 800; ++n) rig.set(key_of(n));
  rig.replica.start();
  rig.device->hang();
  for (int i = 0; i < 20; ++i) rig.replica.step(1 << 12);
  rig.device->resume();
  rig.finish_upload();
  if (const std::string problem = rig.compare(rig.drain()); !problem.empty()) return "upload: " + problem;
  rig.device->hang();
  for (std::uint64_t n = 0; n < 200; ++n) {
    rig.set(key_of(n), 2);
    rig.replica.drain();
  }
  rig.device->resume();
  return rig.compare(rig.drain());
}
struct UsesMemoryAtOnce : ReplicaRules {
  static constexpr bool waits_for_marks = false;
};
TEST(ReplicaRule, MemoryIsUsedAgainWhenTheDeviceHasReadIt) {
  EXPECT_EQ(slow_device<ReplicaRules>(), "");
  EXPECT_EQ(slow_device<UsesMemoryAtOnce>(), "upload: the device's table differs");
}

}  // namespace
}  // namespace tandem
