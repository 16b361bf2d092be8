// Writers on several threads, growth when it is due, a device of random speed, and one thread that launches searches on
// it. No launch may take a key for absent that was always present.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <thread>

#include "index/set_associative/set_index.hpp"
#include "placement/mirrored/image_fixture.hpp"
#include "placement/mirrored/replica_history.hpp"
#include "placement/mirrored/replica_rig.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

struct Mix {
  std::uint64_t cells, keys;
  double load_grow = 2;
  std::uint32_t ring_records = 1 << 15, ring_granules = 1 << 12;
  std::uint64_t writes = 32;  // of each writer for each launch
  bool relieve = true;
  bool waits = false;  // sometimes nothing is launched until a ring is half full, or full if no worker relieves
  // Searches run beside the applies of later launches, which cells allow, but images do not.
  bool other_stream = false;
  std::uint64_t faults_every = 0;
  std::uint64_t rests_every = 0;
  std::uint32_t first_launch = 1;
  std::uint64_t images_bytes = 0;
  // The device has the last shard. A follower of the first shard, in plain memory, drains the log all the time.
  std::uint32_t shard_bits = 0;
};

struct Result {
  std::string problem;
  KeyHistory::Counts counts;
  std::uint64_t launches = 0, failed = 0;
  ReplicaStats stats;
};

// A batch on the device. Its epoch ends when it is resolved.
struct Flight {
  template <class Rig>
  Flight(Rig& rig, std::uint64_t& random, const KeyHistory& history)
      : f(*rig.device, count), found(*rig.device, count), images(*rig.device, count), epoch(rig.store.epochs) {
    const Shard& shard = rig.replica.shard();
    for (std::size_t i = 0; i < count; ++i) {
      Fingerprint key{};
      do {
        keys[i] = (random = mix_bits(random + 1)) % history.keys();
        key = rig.store.fingerprint(key_of(keys[i]));
      } while (Shard::number_of(key, shard.bits) != shard.number);
      before[i] = history.state(keys[i]);
      f[i] = shard.local(key);
    }
    epoch.enter();
  }
  ~Flight() { epoch.exit(); }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  static constexpr std::uint32_t count = 64;
  std::array<std::uint64_t, count> keys{}, before{};
  PinnedArray<Fingerprint> f;
  PinnedArray<Location> found;
  PinnedArray<FoundImage> images;
  EpochDomain::Participant epoch;
  ReplicaLaunch launch;
  DeviceMark mark = 0;
};

// Returns what is wrong with its launches, or "". Counts in `decided` the answers that had to be correct.
std::string follow_first_shard(ReplicaRig<>& rig, const KeyHistory& history, const std::atomic<bool>& stop,
                               std::atomic<std::uint64_t>& decided) {
  ReplicaFollower<ReplicaLog> replica(rig.log, rig.store);
  replica.restart();
  std::uint64_t random = 5;
  std::string problem;
  while (!stop && problem.empty()) {
    std::array<std::uint64_t, 16> keys{}, before{};
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = (random = mix_bits(random + 1)) % history.keys();
      before[i] = history.state(keys[i]);
    }
    replica.epoch().enter();
    const auto launch = replica.launch();
    KeyHistory::Counts counts;
    for (std::size_t i = 0; launch.usable && problem.empty() && i < keys.size(); ++i) {
      const Fingerprint f = rig.store.fingerprint(key_of(keys[i]));
      if (!replica.has(f)) continue;
      problem =
          history.check(rig.store, keys[i], before[i], {replica.search(f), replica.misses_for_good(f, launch)}, counts);
    }
    decided += counts.decided;
    replica.epoch().exit();
    if (!rig.log.recording()) replica.restart();
    std::this_thread::yield();
  }
  return problem.empty() && decided.load() == 0 ? "the follower decided nothing" : problem;
}

template <IndexKind I = CuckooIndex>
Result run(const Mix& mix, int launches) {
  constexpr std::uint64_t writers = 3;
  ReplicaRig<ReplicaRules, SimDevice, I> rig({.cells = mix.cells,
                                              .load_grow = mix.load_grow,
                                              .log = {.ring_records = mix.ring_records,
                                                      .ring_granules = mix.ring_granules,
                                                      .first_launch = mix.first_launch,
                                                      .shard_bits = mix.shard_bits},
                                              .sim = {.latency = 5us, .lanes = 64, .lane_time = 1us},
                                              .replica = {.queue_cells = 1 << 12,
                                                          .chunk_bytes = 1 << 12,
                                                          .failures_max = 1000,
                                                          .images = {.bytes = mix.images_bytes},
                                                          .shard = (1u << mix.shard_bits) - 1}});
  KeyHistory history(mix.keys);
  {
    // Most items are to be in the first page, where some have images. Threads that start together may take three pages
    // first.
    BasicTestWorker<I> first(rig.store);
    const std::string key = key_of(mix.keys - 1);
    EXPECT_EQ(first.set(key, 1), BasicTestWorker<I>::Outcome::done);
    EXPECT_TRUE(first.erase(key));
  }
  Result result;
  std::array<std::string, writers> problems;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> allowed{0};  // writes of each writer
  std::vector<std::thread> threads;
  for (std::uint64_t w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] {
      BasicTestWorker<I> worker(rig.store);
      std::uint64_t random = w;
      for (std::uint64_t writes = 0; !stop && problems[w].empty();) {
        if (writes == allowed.load(std::memory_order_relaxed)) {
          std::this_thread::yield();
          continue;
        }
        ++writes;
        problems[w] = history.write(worker, random = mix_bits(random + 1), w, writers);
        if (mix.relieve) rig.replica.relieve();
      }
    });
  }
  threads.emplace_back([&] {
    BasicTestWorker<I> worker(rig.store);
    while (!stop) {
      if (rig.store.index.wants_growth()) worker.grow();
      std::this_thread::sleep_for(1ms);
    }
  });

  std::string follower_problem;
  std::atomic<std::uint64_t> follower_decided{0};
  if (mix.shard_bits != 0) {
    if constexpr (std::is_same_v<I, CuckooIndex>)
      threads.emplace_back([&] { follower_problem = follow_first_shard(rig, history, stop, follower_decided); });
  }

  rig.replica.start();
  const std::unique_ptr<Stream> own = rig.device->make_stream();
  Stream& stream = mix.other_stream ? *own : rig.replica.stream();
  std::uint64_t random = 99;
  std::deque<Flight> flights;
  std::uint64_t waits_at = 16;
  const auto resolve = [&] {
    Flight& flight = flights.front();
    const DeviceStatus status = stream.wait(flight.mark, rig.long_enough);
    const DeviceStatus copy = rig.replica.poll(flight.launch);
    if (status == DeviceStatus::ok && copy == DeviceStatus::ok) {
      for (std::uint32_t i = 0; i < Flight::count && result.problem.empty(); ++i) {
        const bool final = flight.found[i] == no_location && final_miss(rig.store.index, flight.f[i], flight.launch);
        result.problem =
            history.check(rig.store, flight.keys[i], flight.before[i], {flight.found[i], final}, result.counts);
        const Item* const image = flight.launch.images.count != 0 ? flight.images[i].item() : nullptr;
        if (image == nullptr || !result.problem.empty()) continue;
        result.problem = history.check_image(rig.store, flight.keys[i], image, flight.launch.number, result.counts);
      }
    } else if (status != DeviceStatus::failed && copy != DeviceStatus::failed) {
      result.problem = "a search is neither done nor failed";
    } else {
      ++result.failed;
    }
    flights.pop_front();
  };
  // Runs until every wanted event has occurred. On a busy machine writers are late, so that faults hit only searches,
  // and the few items may be where there are no images.
  const auto all = static_cast<std::uint64_t>(launches);
  const auto unmet = [&] {
    const KeyHistory::Counts& seen = result.counts;
    const bool all_seen = seen.hits != 0 && seen.final_misses != 0 && seen.decided != 0 &&
                          (mix.images_bytes == 0 || (seen.images != 0 && seen.images_changed != 0)) &&
                          (mix.shard_bits == 0 || follower_decided.load() != 0) &&
                          (mix.faults_every == 0 || rig.replica.stats().failures != 0) &&
                          (!mix.waits || !mix.relieve || rig.replica.stats().relieved != 0) &&
                          (mix.rests_every == 0 || rig.replica.stats().returns_warm != 0);
    return !all_seen && result.launches < 100 * all;
  };
  while ((result.launches < all || unmet()) && result.problem.empty()) {
    random = mix_bits(random + 1);
    rig.device->slow(static_cast<double>(random % 8));
    if (mix.faults_every != 0 && random % mix.faults_every == 0) rig.device->fail(1 + random / 256 % 4);
    if (mix.rests_every != 0 && random / 2 % mix.rests_every == 0) {
      static_cast<void>(rig.replica.rest());
    } else if (const ReplicaState state = rig.replica.stats().state;
               mix.rests_every != 0 && random % 16 == 0 &&
               (state == ReplicaState::leaving || state == ReplicaState::resting || state == ReplicaState::absent)) {
      rig.replica.start();
    }
    rig.replica.step(1 << 13);
    allowed.fetch_add(mix.writes, std::memory_order_relaxed);
    if (mix.waits && result.launches >= waits_at) {
      waits_at = result.launches + 16;
      const std::uint64_t relieved = rig.replica.stats().relieved;
      // A ring may fill although workers relieve: a reliever may have been preempted. Then the log is off.
      while (rig.log.recording() && (!mix.relieve || rig.replica.stats().relieved == relieved)) {
        allowed.fetch_add(1, std::memory_order_relaxed);
        std::this_thread::yield();
      }
    }
    flights.emplace_back(rig, random, history);
    Flight& flight = flights.back();
    flight.launch = rig.replica.drain();
    if (!flight.launch.ready()) {
      flights.pop_back();
      while (!flights.empty()) resolve();  // an upload, a rest and a return wait for their epochs
      std::this_thread::yield();
      continue;
    }
    ++result.launches;
    if (mix.other_stream) {
      EXPECT_EQ(stream.after(rig.replica.stream(), flight.launch.mark), DeviceStatus::ok);
    }
    EXPECT_EQ(stream.launch(search_table,
                            SearchArguments::of(flight.launch.index, flight.f.at(), flight.found.at(), Flight::count)),
              DeviceStatus::ok);
    if (flight.launch.images.count != 0) {
      EXPECT_EQ(
          stream.launch(read_images, {flight.launch.images, flight.found.at(), flight.images.at(), Flight::count}),
          DeviceStatus::ok);
    }
    flight.mark = stream.mark();
    if (flights.size() > 3) resolve();
  }
  while (!flights.empty()) resolve();
  stop = true;
  for (std::thread& t : threads) t.join();
  for (const std::string& p : problems) {
    if (result.problem.empty()) result.problem = p;
  }
  if (result.problem.empty()) result.problem = follower_problem;
  rig.device->slow(0);
  rig.device->fail(0);
  for (ReplicaLaunch launch; result.problem.empty();) {
    rig.replica.start();
    rig.finish_upload();
    launch = rig.drain();
    if (!launch.ready()) continue;
    result.problem = rig.compare(launch);
    if (rig.replica.poll(launch) == DeviceStatus::ok) break;
    result.problem.clear();  // left by an earlier fault: try again
  }
  result.stats = rig.replica.stats();
  return result;
}

void expect_right(const Result& r) {
  ASSERT_EQ(r.problem, "");
  EXPECT_GT(r.counts.hits, 0u);
  EXPECT_GT(r.counts.final_misses, 0u);
  EXPECT_GT(r.counts.decided, 0u);
}

TEST(ReplicaThreads, DisplacementsAtHighLoad) { expect_right(run({.cells = 1 << 10, .keys = 1300}, 500 * effort)); }

TEST(ReplicaThreads, SearchesBesideLaterApplies) {
  expect_right(run({.cells = 1 << 10, .keys = 1300, .other_stream = true}, 500 * effort));
}

TEST(ReplicaThreads, TheTableGrows) {
  const Result r = run({.cells = 512, .keys = 40'000, .load_grow = 0.9, .writes = 200}, 100 * effort);
  expect_right(r);
  EXPECT_GT(r.stats.uploads, 1u);
}

TEST(ReplicaThreads, OverflowsAndUploads) {
  const Result r =
      run({.cells = 1 << 12, .keys = 5000, .ring_records = 512, .relieve = false, .waits = true}, 30 * effort);
  expect_right(r);
  EXPECT_GT(r.stats.overflows, 0u);
}

TEST(ReplicaThreads, WritersRelieveTheLog) {
  const Result r = run({.cells = 1 << 12, .keys = 5000, .ring_records = 512, .waits = true}, 30 * effort);
  expect_right(r);
  EXPECT_GT(r.stats.relieved, 0u);
}

TEST(ReplicaThreads, WorkFails) {
  const Result r = run({.cells = 1 << 10, .keys = 1200, .other_stream = true, .faults_every = 32}, 100 * effort);
  expect_right(r);
  EXPECT_GT(r.stats.failures, 0u);
}

void expect_images(const Result& r) {
  expect_right(r);
  EXPECT_GT(r.counts.images, 0u);
  EXPECT_GT(r.counts.images_changed, 0u);
  EXPECT_GT(r.stats.granules, 0u);
}

TEST(ReplicaThreads, ImagesAtHighLoad) {
  const Result r = run({.cells = 1 << 10, .keys = 1300, .images_bytes = 64 << 20}, 500 * effort);
  expect_images(r);
  EXPECT_GT(r.stats.rewrites, 0u);
}

TEST(ReplicaThreads, RingsOfFewImages) {
  expect_images(run({.cells = 1 << 10, .keys = 1300, .ring_granules = 16, .images_bytes = 64 << 20}, 300 * effort));
}

TEST(ReplicaThreads, CellsInPlaceOfImages) {
  const Result r = run({.cells = 1 << 10, .keys = 1300, .ring_granules = 0, .images_bytes = 64 << 20}, 100 * effort);
  expect_images(r);
  EXPECT_EQ(r.stats.rewrites, 0u);
}

TEST(ReplicaThreads, ImagesOfSomeItems) {
  expect_images(run({.cells = 1 << 10, .keys = 1300, .images_bytes = page_bytes + (20 << 10)}, 200 * effort));
}

TEST(ReplicaThreads, ImagesWhileTheTableGrows) {
  const Result r =
      run({.cells = 512, .keys = 40'000, .load_grow = 0.9, .writes = 200, .images_bytes = 64 << 20}, 100 * effort);
  expect_images(r);
  EXPECT_GT(r.stats.uploads, 1u);
}

TEST(ReplicaThreads, ImagesWhenWritersRelieveTheLog) {
  const Result r =
      run({.cells = 1 << 12, .keys = 5000, .ring_records = 512, .waits = true, .images_bytes = 64 << 20}, 30 * effort);
  expect_images(r);
  EXPECT_GT(r.stats.relieved, 0u);
}

TEST(ReplicaThreads, ImagesWhenWorkFails) {
  const Result r = run({.cells = 1 << 10, .keys = 1200, .faults_every = 32, .images_bytes = 64 << 20}, 100 * effort);
  expect_images(r);
  EXPECT_GT(r.stats.failures, 0u);
}

TEST(ReplicaThreads, Rests) {
  const Result r = run({.cells = 1 << 12, .keys = 5000, .writes = 4, .rests_every = 32}, 200 * effort);
  expect_right(r);
  EXPECT_GT(r.stats.returns_warm, 0u);
}

TEST(ReplicaThreads, RestsWithImages) {
  const Result r =
      run({.cells = 1 << 12, .keys = 5000, .writes = 4, .rests_every = 32, .images_bytes = 8 << 20}, 200 * effort);
  expect_images(r);
  EXPECT_GT(r.stats.returns_warm, 0u);
}

TEST(ReplicaThreads, RestsWhenWorkFailsAndRingsOverflow) {
  const Result r = run({.cells = 1 << 12,
                        .keys = 5000,
                        .ring_records = 64,
                        .writes = 4,
                        .faults_every = 64,
                        .rests_every = 16,
                        .images_bytes = 8 << 20},
                       200 * effort);
  expect_images(r);
}

TEST(ReplicaThreads, TwoShardsDrainBesideEachOther) {
  expect_right(run({.cells = 1 << 10, .keys = 1300, .shard_bits = 1}, 300 * effort));
}

TEST(ReplicaThreads, ShardsWhileTheTableGrows) {
  const Result r =
      run({.cells = 512, .keys = 40'000, .load_grow = 0.9, .writes = 200, .images_bytes = 64 << 20, .shard_bits = 2},
          50 * effort);
  expect_right(r);
  EXPECT_GT(r.counts.images, 0u);
  EXPECT_GT(r.stats.granules, 0u);
  EXPECT_GT(r.stats.uploads, 1u);
}

// The cells of sets, of which many are full: then a writer waits for an erase.
TEST(ReplicaThreads, SetsAtHighLoad) {
  const Result r = run<SetAssociativeIndex>({.cells = 1 << 10, .keys = 1300}, 500 * effort);
  expect_right(r);
  // The table keeps its size: only a log that has overflowed, as while its reader does not run, has it uploaded
  // again.
  EXPECT_GE(r.stats.uploads, 1u);
  EXPECT_LE(r.stats.uploads, 1 + r.stats.overflows);
}

TEST(ReplicaThreads, SetsWithImages) {
  const Result r = run<SetAssociativeIndex>({.cells = 1 << 10, .keys = 1300, .images_bytes = 64 << 20}, 500 * effort);
  expect_images(r);
  EXPECT_GT(r.stats.rewrites, 0u);
}

TEST(ReplicaThreads, SetsWhenRingsOverflow) {
  const Result r = run<SetAssociativeIndex>(
      {.cells = 1 << 12, .keys = 5000, .ring_records = 512, .relieve = false, .waits = true}, 30 * effort);
  expect_right(r);
  EXPECT_GT(r.stats.overflows, 0u);
}

TEST(ReplicaThreads, SetsWhenWorkFails) {
  const Result r = run<SetAssociativeIndex>({.cells = 1 << 10, .keys = 1200, .other_stream = true, .faults_every = 32},
                                            100 * effort);
  expect_right(r);
  EXPECT_GT(r.stats.failures, 0u);
}

TEST(ReplicaThreads, SetsWithImagesWhenWorkFails) {
  const Result r = run<SetAssociativeIndex>(
      {.cells = 1 << 10, .keys = 1200, .faults_every = 32, .images_bytes = 64 << 20}, 100 * effort);
  expect_images(r);
  EXPECT_GT(r.stats.failures, 0u);
}

TEST(ReplicaThreads, LaunchNumbersWrap) {
  expect_right(run({.cells = 1 << 10, .keys = 1200, .first_launch = 0xffffff80}, 100 * effort));
}

}  // namespace
}  // namespace tandem
