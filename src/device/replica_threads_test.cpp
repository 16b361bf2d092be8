// Writers on several threads, a growth when one is due, a device that is slow at random, and one thread that launches
// searches on it: no launch takes a key for absent that was there all the time.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <thread>

#include "device/replica_rig.hpp"
#include "index/replica_history.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

struct Mix {
  std::uint64_t cells, keys;
  double load_grow = 2;
  std::uint32_t ring_records = 1 << 15;
  std::uint64_t writes = 32;  // of each writer for each launch
  bool relieve = true;
  bool waits = false;         // now and then nothing is launched until a ring is half full, or full if none relieves
  bool other_stream = false;  // searches run beside the applies of later launches
  std::uint64_t faults_every = 0;
  std::uint32_t first_launch = 1;
};

struct Result {
  std::string problem;
  KeyHistory::Counts counts;
  std::uint64_t launches = 0, failed = 0;
  ReplicaStats stats;
};

// A batch on the device: its epoch ends when it is resolved.
struct Flight {
  Flight(ReplicaRig<>& rig, std::uint64_t& random, const KeyHistory& history)
      : f(*rig.device, count), found(*rig.device, count), epoch(rig.store.epochs) {
    for (std::size_t i = 0; i < count; ++i) {
      keys[i] = (random = mix_bits(random + 1)) % history.keys();
      before[i] = history.state(keys[i]);
      f[i] = rig.store.fingerprint(key_of(keys[i]));
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
  EpochDomain::Participant epoch;
  ReplicaLaunch launch;
  DeviceMark mark = 0;
};

Result run(const Mix& mix, int launches) {
  constexpr std::uint64_t writers = 3;
  ReplicaRig rig({.cells = mix.cells,
                  .load_grow = mix.load_grow,
                  .log = {.ring_records = mix.ring_records, .first_launch = mix.first_launch},
                  .sim = {.latency = 5us, .lanes = 64, .lane_time = 1us},
                  .replica = {.queue_cells = 1 << 12, .chunk_bytes = 1 << 12, .failures_max = 1000}});
  KeyHistory history(mix.keys);
  Result result;
  std::array<std::string, writers> problems;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> allowed{0};  // writes of each writer
  std::vector<std::thread> threads;
  for (std::uint64_t w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] {
      TestWorker worker(rig.store);
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
    TestWorker worker(rig.store);
    while (!stop) {
      if (rig.store.index.wants_growth()) worker.grow();
      std::this_thread::sleep_for(1ms);
    }
  });

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
      }
    } else if (status != DeviceStatus::failed && copy != DeviceStatus::failed) {
      result.problem = "a search is neither done nor failed";
    } else {
      ++result.failed;
    }
    flights.pop_front();
  };
  while (result.launches < static_cast<std::uint64_t>(launches) && result.problem.empty()) {
    random = mix_bits(random + 1);
    rig.device->slow(static_cast<double>(random % 8));
    if (mix.faults_every != 0 && random % mix.faults_every == 0) rig.device->fail(1 + random / 256 % 4);
    rig.replica.step(1 << 13);
    allowed.fetch_add(mix.writes, std::memory_order_relaxed);
    if (mix.waits && result.launches >= waits_at) {
      waits_at = result.launches + 16;
      const std::uint64_t relieved = rig.replica.stats().relieved;
      while (mix.relieve ? rig.replica.stats().relieved == relieved : rig.log.recording()) {
        allowed.fetch_add(1, std::memory_order_relaxed);
        std::this_thread::yield();
      }
    }
    flights.emplace_back(rig, random, history);
    Flight& flight = flights.back();
    flight.launch = rig.replica.drain();
    if (!flight.launch.ready()) {
      flights.pop_back();
      while (!flights.empty()) resolve();  // an upload waits for their epochs
      std::this_thread::yield();
      continue;
    }
    ++result.launches;
    if (mix.other_stream) {
      EXPECT_EQ(stream.after(rig.replica.stream(), flight.launch.mark), DeviceStatus::ok);
    }
    EXPECT_EQ(stream.search(flight.launch.index, flight.f.at(), flight.found.at(), Flight::count), DeviceStatus::ok);
    flight.mark = stream.mark();
    if (flights.size() > 3) resolve();
  }
  while (!flights.empty()) resolve();
  stop = true;
  for (std::thread& t : threads) t.join();
  for (const std::string& p : problems) {
    if (result.problem.empty()) result.problem = p;
  }
  rig.device->slow(0);
  rig.device->fail(0);
  for (ReplicaLaunch launch; result.problem.empty();) {
    rig.finish_upload();
    launch = rig.drain();
    if (!launch.ready()) continue;
    result.problem = rig.compare(launch);
    if (rig.replica.poll(launch) == DeviceStatus::ok) break;
    result.problem.clear();  // an earlier fault: once more
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

TEST(ReplicaThreads, LaunchNumbersWrap) {
  expect_right(run({.cells = 1 << 10, .keys = 1200, .first_launch = 0xffffff80}, 100 * effort));
}

}  // namespace
}  // namespace tandem
