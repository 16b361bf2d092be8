// Several threads rewrite the items of the same few keys, so that images of one item lie in several rings: each launch
// has every value that was stored before its drain.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "placement/mirrored/image_fixture.hpp"
#include "placement/mirrored/replica_rig.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t key_count = 6;

struct RewriteMix {
  std::uint32_t ring_granules = 1 << 10;
  std::uint64_t beside_one_in = 0;  // of the writes, 0: none
  std::uint64_t writers = 3;
  std::uint32_t rings = 64;  // that writers find
};

// Returns what went wrong, or "".
std::string run_rewrites(const RewriteMix& mix, int launches, ReplicaStats& stats) {
  ReplicaRig rig(
      {.log = {.ring_granules = mix.ring_granules},
       .sim = {.latency = 5us, .lanes = 64, .lane_time = 1us},
       .replica = {
           .queue_cells = 1 << 12, .chunk_bytes = 1 << 12, .images = {.bytes = 64 << 20, .writers = mix.rings}}});
  for (std::uint64_t k = 0; k < key_count; ++k) EXPECT_TRUE(rig.set(key_of(k), 1));
  EXPECT_EQ(rig.upload(), ReplicaState::current);

  std::array<std::atomic<std::uint64_t>, key_count> stored{};  // the largest value of a write that has ended
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (std::uint64_t w = 0; w < mix.writers; ++w) {
    threads.emplace_back([&, w] {
      TestWorker worker(rig.store);
      std::uint64_t random = w;
      while (!stop) {
        random = mix_bits(random + 1);
        const std::uint64_t k = random % key_count;
        std::uint64_t now = 0;
        const bool in_place = mix.beside_one_in == 0 || (random >> 32) % mix.beside_one_in != 0;
        if (!in_place) {
          EXPECT_TRUE(worker.increment(key_of(k)));
        } else {
          EXPECT_TRUE(worker.rewrite(key_of(k), [&now](std::uint64_t value) { return now = value + 1; }));
        }
        for (std::uint64_t was = stored[k]; was < now && !stored[k].compare_exchange_weak(was, now);) {
        }
        rig.replica.relieve();
        if ((random >> 40) % 4 == 0) std::this_thread::yield();
      }
    });
  }
  const PinnedArray<Fingerprint> f(*rig.device, key_count);
  const PinnedArray<Location> found(*rig.device, key_count);
  const PinnedArray<FoundImage> images(*rig.device, key_count);
  for (std::uint64_t k = 0; k < key_count; ++k) f[k] = rig.store.fingerprint(key_of(k));
  std::string problem;
  std::uint64_t seen = 0, random = 7;
  while ((launches > 0 || seen == 0) && problem.empty()) {
    random = mix_bits(random + 1);
    rig.device->slow(static_cast<double>(random % 8));
    rig.replica.step(1 << 13);
    std::array<std::uint64_t, key_count> before{};
    for (std::uint64_t k = 0; k < key_count; ++k) before[k] = stored[k];
    const ReplicaLaunch launch = rig.replica.drain();
    if (!launch.ready()) continue;
    --launches;
    Stream& stream = rig.replica.stream();
    EXPECT_EQ(stream.launch(search_table, SearchArguments::of(launch.index, f.at(), found.at(), key_count)),
              DeviceStatus::ok);
    EXPECT_EQ(stream.launch(read_images, {launch.images, found.at(), images.at(), key_count}), DeviceStatus::ok);
    EXPECT_EQ(stream.wait(stream.mark(), rig.long_enough), DeviceStatus::ok);
    for (std::uint64_t k = 0; k < key_count; ++k) {
      const Item* const image = images[k].item();
      if (image == nullptr) continue;  // dead, or displaced, when it was copied
      std::uint64_t value = 0;
      std::memcpy(&value, image->value(), sizeof value);
      seen += before[k] > 1;
      if (image->key() != key_of(k)) problem = "the image of another key";
      if (value < before[k]) problem = "a launch has an older value than was stored before its drain";
    }
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  rig.device->slow(0);
  rig.finish_upload();
  if (problem.empty()) problem = rig.compare(rig.drain());
  stats = rig.replica.stats();
  return problem;
}

TEST(ReplicaRewrites, OfTheSameItems) {
  ReplicaStats stats;
  EXPECT_EQ(run_rewrites({}, 500 * effort, stats), "");
  EXPECT_GT(stats.rewrites, 0u);
}

TEST(ReplicaRewrites, BesideSetsOfNewItems) {
  ReplicaStats stats;
  EXPECT_EQ(run_rewrites({.beside_one_in = 4}, 500 * effort, stats), "");
  EXPECT_GT(stats.rewrites, 0u);
  EXPECT_GT(stats.records, 0u);
}

// Rings that are often full: the rest is announced by its cell.
TEST(ReplicaRewrites, SomeByImageSomeByCell) {
  ReplicaStats stats;
  EXPECT_EQ(run_rewrites({.ring_granules = 16, .beside_one_in = 16}, 500 * effort, stats), "");
  EXPECT_GT(stats.rewrites, 0u);
  EXPECT_GT(stats.records, 0u);
}

TEST(ReplicaRewrites, WithARingForOneWriterOfThree) {
  ReplicaStats stats;
  EXPECT_EQ(run_rewrites({.rings = 1}, 500 * effort, stats), "");
  EXPECT_GT(stats.rewrites, 0u);
  EXPECT_GT(stats.records, 0u);
}

// While the device has not read the image of one item, sets of another one fill the ring, and go on to announce cells.
struct ReusesRings : ReplicaRules {
  static constexpr bool keeps_rings = false;
};
template <class Rules>
std::string overtake_the_device(ReplicaStats& stats) {
  ReplicaRig<Rules> rig(
      {.log = {.ring_granules = 16}, .replica = {.queue_cells = 1 << 12, .images = {.bytes = 64 << 20}}});
  EXPECT_TRUE(rig.set("k"));
  EXPECT_TRUE(rig.set("other"));
  EXPECT_EQ(rig.upload(), ReplicaState::current);
  EXPECT_EQ(rig.compare(rig.drain()), "");
  const auto add_one = [](std::uint64_t value) { return value + 1; };
  for (int round = 0; round < 20; ++round) {
    EXPECT_TRUE(rig.worker.rewrite("k", add_one));
    rig.device->hang();
    ReplicaLaunch launch = rig.replica.drain();
    for (int i = 0; i < 40; ++i) {
      EXPECT_TRUE(rig.worker.rewrite("other", add_one));
      if (i % 8 == 0) launch = rig.replica.drain();
    }
    rig.device->resume();
    if (const std::string problem = rig.compare(rig.drain()); !problem.empty()) return problem;
  }
  stats = rig.replica.stats();
  return "";
}

TEST(ReplicaRewrites, ARingIsKeptUntilTheDeviceHasReadIt) {
  ReplicaStats stats;
  EXPECT_EQ(overtake_the_device<ReplicaRules>(stats), "");
  EXPECT_GT(stats.rewrites, 20u);
  EXPECT_GT(stats.records, 20u);
  EXPECT_NE(overtake_the_device<ReusesRings>(stats), "") << "the test would not notice";
}

// Where an image's later granules lie an earlier one began. A client may have chosen their bytes so that they look like
// a newer image of that item.
TEST(ReplicaRewrites, OnlyTheFirstGranuleOfAnImageHasALocation) {
  ReplicaRig rig({.log = {.ring_granules = 16}, .replica = {.queue_cells = 1 << 12, .images = {.bytes = 16 << 20}}});
  const std::uint64_t words[] = {
      word::CasHigh::put(static_cast<std::uint64_t>(ItemState::live), word::CasHigh::limit),
      word::CasLow::put(word::KeyBytes::put(word::ValueBytes::put(0, 8), 1), word::CasLow::limit)};
  std::string forged(2 * granule_bytes - sizeof(Item) - sizeof(std::uint64_t), 'x');  // with its value two granules
  std::memcpy(forged.data() + granule_bytes - sizeof(Item), words, sizeof words);
  ASSERT_TRUE(rig.set("k"));
  ASSERT_TRUE(rig.set(forged));
  ASSERT_EQ(rig.upload(), ReplicaState::current);
  const auto add_one = [](std::uint64_t value) { return value + 1; };
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(rig.worker.rewrite("k", add_one));
    ASSERT_EQ(rig.compare(rig.drain()), "");
  }
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(rig.worker.rewrite(forged, add_one));
    ASSERT_EQ(rig.compare(rig.drain()), "");
  }
  EXPECT_GE(rig.replica.stats().rewrites, 45u);
}

// Threads keep their rings from one replica to the next, not the memory that it lent.
TEST(ReplicaRewrites, EachReplicaLendsItsOwnMemory) {
  ReplicaLog log({.ring_granules = 16});
  const auto device = make_sim_device({});
  TestStore store({.cells = 1 << 10, .log = &log});
  TestWorker worker(store);
  ASSERT_EQ(worker.set("k", 1), TestWorker::Outcome::done);
  const auto rewrite = [&] { ASSERT_TRUE(worker.rewrite("k", [](std::uint64_t value) { return value + 1; })); };
  for (int turn = 0; turn < 3; ++turn) {
    {
      Replica replica(*device, store.index, log, store.epochs, {.images = {.bytes = 1 << 20}}, &store.heap);
      replica.start();
      for (int i = 0; i < 1000 && replica.step(1 << 20) != ReplicaState::current; ++i) std::this_thread::sleep_for(1ms);
      for (int i = 0; i < 5; ++i) ASSERT_NO_FATAL_FAILURE(rewrite());
      ASSERT_TRUE(replica.drain().ready());
      EXPECT_EQ(replica.stats().rewrites, 5u);
    }
    for (int i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(rewrite());
  }
}

// Two records of one item in a drain are one read of it: of two a device might mix granules of two versions.
TEST(ReplicaRewrites, AnItemIsReadOnceInAPart) {
  ReplicaRig rig({.log = {.ring_granules = 16}, .replica = {.queue_cells = 1 << 12, .images = {.bytes = 64 << 20}}});
  ASSERT_TRUE(rig.set("k"));
  ASSERT_TRUE(rig.set("other"));
  ASSERT_EQ(rig.upload(), ReplicaState::current);
  ASSERT_TRUE(rig.drain().ready());
  for (int round = 0; round < 3; ++round) {
    const ReplicaStats before = rig.replica.stats();
    ASSERT_TRUE(rig.worker.touch("k", static_cast<std::uint32_t>(5 + round)));
    ASSERT_TRUE(rig.worker.touch("other", 7));
    ASSERT_TRUE(rig.worker.touch("k", static_cast<std::uint32_t>(50 + round)));
    const ReplicaLaunch launch = rig.drain();
    EXPECT_EQ(rig.compare(launch), "");
    const ReplicaStats after = rig.replica.stats();
    EXPECT_EQ(after.records - before.records, 3u);
    EXPECT_EQ(after.granules - before.granules, 2u) << "of one granule each";
  }
}

// The image of a slot's last item lies in a ring while the slot gets another item, which a growth puts into a table
// that is followed only then: nothing would store that item's image again.
struct KeepsOldImages : ReplicaRules {
  static constexpr bool forgets_images = false;
};
template <class Rules>
std::string upload_beside_an_old_image() {
  ReplicaRig<Rules> rig({.cells = 1 << 18,
                         .log = {.ring_granules = 64},
                         .replica = {.queue_cells = 1 << 12, .chunk_bytes = 1 << 14, .images = {.bytes = 64 << 20}}});
  // Ids of new items go by their values.
  const auto id_of = [&](std::uint64_t value) { return mix_bits(value) % 4; };
  std::uint64_t high = 0, low = 0;
  while (id_of(high) != 3) ++high;
  while (id_of(low) != 0) ++low;
  EXPECT_TRUE(rig.set("k", high));
  rig.replica.start();
  EXPECT_EQ(rig.replica.step(1), ReplicaState::uploading);  // it follows the first table
  EXPECT_TRUE(rig.worker.rewrite("k", [&](std::uint64_t value) { return value; }));
  const auto location_of = [&](const std::string& key) {
    ItemVersion seen;
    const TestWorker::Batch batch(rig.worker);
    return rig.store.heap.location_of(rig.store.index.find(rig.store.fingerprint(key), key, seen));
  };
  const Location at = location_of("k");
  EXPECT_TRUE(rig.worker.erase("k"));
  Location now = no_location;
  for (std::uint64_t n = 0; n < 150'000 && now != at; ++n) {
    EXPECT_TRUE(rig.set(key_of(n), low));
    now = location_of(key_of(n));
  }
  EXPECT_EQ(now, at) << "the slot was not used again";
  EXPECT_TRUE(rig.worker.grow());
  EXPECT_EQ(rig.finish_upload(), ReplicaState::current);
  return rig.compare(rig.drain());
}

TEST(ReplicaRewrites, AnUploadForgetsImagesThatAreOlder) {
  EXPECT_EQ(upload_beside_an_old_image<ReplicaRules>(), "");
  EXPECT_NE(upload_beside_an_old_image<KeepsOldImages>(), "") << "the test would not notice";
}

}  // namespace
}  // namespace tandem
