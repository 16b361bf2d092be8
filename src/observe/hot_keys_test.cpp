#include "observe/hot_keys.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <thread>

namespace tandem {
namespace {

using Truth = std::map<std::string, double>;

std::string name(std::uint64_t i) { return "key-" + std::to_string(i); }

// Space-Saving's two bounds, for every key.
void expect_bounds(const KeySketch& sketch, const Truth& truth) {
  double total = 0;
  for (const auto& [key, weight] : truth) total += weight;
  const double slack = 1e-9 * total;
  EXPECT_NEAR(sketch.total(), total, slack);
  const double error_max = total / KeySketch::keys_max;
  std::map<std::string, KeySketch::Counted> counted;
  for (const KeySketch::Counted& c : sketch.counted()) EXPECT_TRUE(counted.emplace(c.key, c).second) << c.key;
  EXPECT_LE(counted.size(), KeySketch::keys_max);
  EXPECT_LE(sketch.absent_max(), error_max + slack);
  for (const auto& [key, weight] : truth) {
    const auto found = counted.find(key);
    if (found == counted.end()) {
      EXPECT_LE(weight, sketch.absent_max() + slack) << key;
      continue;
    }
    const KeySketch::Counted& c = found->second;
    EXPECT_GE(c.count, weight - slack) << key;
    EXPECT_LE(c.count - c.error, weight + slack) << key;
    EXPECT_LE(c.error, error_max + slack) << key;
  }
}

struct Both {
  void offer(const std::string& key, double weight) {
    sketch.offer(key, weight, 0);
    truth[key] += weight;
  }
  KeySketch sketch{1};
  Truth truth;
};

TEST(KeySketch, ExactWhileThereAreFewKeys) {
  Both both;
  for (std::uint64_t i = 0; i < 10'000; ++i) both.offer(name(i % KeySketch::keys_max), 1 + static_cast<double>(i % 3));
  expect_bounds(both.sketch, both.truth);
  for (const KeySketch::Counted& c : both.sketch.counted()) {
    EXPECT_EQ(c.error, 0);
    EXPECT_EQ(c.count, both.truth[c.key]);
  }
}

TEST(KeySketch, BoundsHoldOnZipf) {
  for (const double skew : {0.7, 0.99, 1.2}) {
    constexpr std::uint64_t keys = 20'000;
    std::vector<double> weights(keys);
    for (std::uint64_t i = 0; i < keys; ++i) weights[i] = 1 / std::pow(static_cast<double>(i + 1), skew);
    std::discrete_distribution<std::uint64_t> zipf(weights.begin(), weights.end());
    std::mt19937_64 random(3);
    Both both;
    for (int i = 0; i < 200'000; ++i) both.offer(name(zipf(random)), 1);
    expect_bounds(both.sketch, both.truth);
  }
}

TEST(KeySketch, BoundsHoldWhenAnAdversaryPushesKeysOut) {
  Both both;
  // Heavy keys once each round, and between them new keys in runs as long as the sketch.
  for (std::uint64_t round = 0; round < 200; ++round) {
    for (std::uint64_t heavy = 0; heavy < 8; ++heavy) both.offer("heavy-" + std::to_string(heavy), 10);
    for (std::uint64_t i = 0; i < KeySketch::keys_max; ++i) both.offer(name(round * KeySketch::keys_max + i), 1);
  }
  expect_bounds(both.sketch, both.truth);
  // Each has 10 / (8 * 10 + 512) = 1.7 % of the weight, the bound is 0.2 %: none may be missing.
  for (std::uint64_t heavy = 0; heavy < 8; ++heavy) {
    const auto counted = both.sketch.counted();
    EXPECT_NE(std::ranges::find(counted, "heavy-" + std::to_string(heavy), &KeySketch::Counted::key), counted.end());
  }
}

TEST(KeySketch, BoundsSurviveScaling) {
  Both both;
  std::mt19937_64 random(5);
  for (int turn = 0; turn < 10; ++turn) {
    for (int i = 0; i < 3000; ++i) both.offer(name(random() % (1 + random() % 2000)), 1);
    both.sketch.scale(0.5);
    for (auto& [key, weight] : both.truth) weight *= 0.5;
  }
  expect_bounds(both.sketch, both.truth);
}

TEST(KeySketch, KeysOfAnyBytesAndLength) {
  KeySketch sketch(9);
  const std::string longest(KeySketch::key_bytes_kept, '\xff'), binary("\0\r\n ", 4);
  sketch.offer(longest, 1, 0);
  sketch.offer(binary, 2, 0);
  sketch.offer("", 3, 0);
  sketch.offer(longest + "more", 1, 0);  // cut to what is kept
  std::map<std::string, double> counts;
  for (const KeySketch::Counted& c : sketch.counted()) counts[c.key] = c.count;
  EXPECT_EQ(counts, (std::map<std::string, double>{{longest, 2}, {binary, 2}, {"", 3}}));
  sketch.clear();
  EXPECT_TRUE(sketch.counted().empty());
  EXPECT_EQ(sketch.total(), 0);
}

void record(HotKeyCounter& counter, std::uint32_t now_s, const std::string& key, int times) {
  counter.record(now_s, [&](HotKeyCounter& c) {
    for (int i = 0; i < times; ++i) c.offer(key, 1);
  });
}

TEST(HotKeys, HotMeansNow) {
  HotKeyCounter counter(1);
  record(counter, 1000, "old", 32);
  record(counter, 1060, "new", 10);  // two half-lives later
  const HotKeys hot = merge_hot_keys({counter.read(1060)}, 10);
  ASSERT_EQ(hot.keys.size(), 2u);
  EXPECT_EQ(hot.keys[0].key, "new");
  EXPECT_NEAR(hot.keys[0].share, 10 / (10 + 32.0 / 4), 1e-9);
}

std::vector<std::string> told(const std::vector<HotKeyCounter::Snapshot>& workers) {
  std::vector<std::string> keys;
  for (const HotKey& key : merge_hot_keys(workers, 10).keys) keys.push_back(key.key);
  return keys;
}

TEST(HotKeys, AKeyThatCoolsLeaves) {
  constexpr std::uint32_t unseen_s = HotKeyCounter::unseen_max_s;
  HotKeyCounter one(1), two(2);
  record(one, 1000, "cools", 1'000'000);
  record(two, 1000, "cools", 10);
  record(two, 1000 + unseen_s, "warm", 1);  // the only other key: it cannot push the first one out
  EXPECT_EQ(told({one.read(1000 + unseen_s), two.read(1000 + unseen_s)}), (std::vector<std::string>{"cools", "warm"}));
  EXPECT_EQ(told({one.read(1001 + unseen_s), two.read(1001 + unseen_s)}), (std::vector<std::string>{"warm"}));
  // It is enough that one worker sees it.
  record(two, 1001 + unseen_s, "cools", 1);
  EXPECT_EQ(told({one.read(1001 + unseen_s), two.read(1001 + unseen_s)}), (std::vector<std::string>{"cools", "warm"}));
  // Without any traffic nothing is hot.
  EXPECT_EQ(told({one.read(1500), two.read(1500)}), std::vector<std::string>{});
}

TEST(HotKeys, YearsOfSilenceOverflowNothing) {
  HotKeyCounter counter(1);
  record(counter, 10, "a", 5);
  for (std::uint32_t now_s : {2'000u, 100'000u, 2'000'000'000u, 4'294'967'295u}) record(counter, now_s, "b", 1);
  record(counter, 5, "c", 1);  // a clock that went back
  const HotKeys hot = merge_hot_keys({counter.read(4'294'967'295u)}, 10);
  ASSERT_FALSE(hot.keys.empty());
  for (const HotKey& key : hot.keys) {
    EXPECT_TRUE(std::isfinite(key.share) && key.share >= 0 && key.share <= 1);
    EXPECT_TRUE(std::isfinite(key.share_error));
  }
}

TEST(HotKeys, WorkersAddUpAndErrorsAreHonest) {
  // Zipf over three workers, each with a different order of popularity.
  constexpr std::uint64_t keys = 30'000;
  std::vector<double> weights(keys);
  for (std::uint64_t i = 0; i < keys; ++i) weights[i] = 1 / static_cast<double>(i + 1);
  std::discrete_distribution<std::uint64_t> zipf(weights.begin(), weights.end());
  std::mt19937_64 random(11);
  HotKeyCounter workers[3] = {HotKeyCounter(1), HotKeyCounter(2), HotKeyCounter(3)};
  Truth truth;
  constexpr int draws = 60'000;
  for (int i = 0; i < draws; ++i) {
    const std::uint64_t key = zipf(random);
    const auto worker = (key + random() % 2) % 3;
    record(workers[worker], 100, name(key), 1);
    truth[name(key)] += 1.0 / draws;
  }
  std::vector<HotKeyCounter::Snapshot> snapshots;
  for (HotKeyCounter& w : workers) snapshots.push_back(w.read(100));
  const HotKeys hot = merge_hot_keys(snapshots, 50);
  EXPECT_NEAR(hot.samples, draws, 1);
  ASSERT_EQ(hot.keys.size(), 50u);
  for (std::size_t i = 0; i < hot.keys.size(); ++i) {
    EXPECT_NEAR(hot.keys[i].share, truth[hot.keys[i].key], hot.keys[i].share_error) << hot.keys[i].key;
    EXPECT_GE(hot.keys[i == 0 ? 0 : i - 1].share, hot.keys[i].share);
  }
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(hot.keys[i].key, name(i));
}

TEST(HotKeys, NothingOfferedNothingTold) {
  HotKeyCounter counter(1);
  EXPECT_TRUE(merge_hot_keys({counter.read(5)}, 10).keys.empty());
  record(counter, 5, "k", 1);
  EXPECT_EQ(merge_hot_keys({counter.read(5)}, 0).keys.size(), 0u);
  counter.clear();
  EXPECT_TRUE(merge_hot_keys({counter.read(5)}, 10).keys.empty());
}

TEST(HotKeys, ReadersAndTheWorkerMeet) {
  HotKeyCounter counter(1);
  std::atomic<bool> stopping{false};
  std::thread worker([&] {
    for (std::uint32_t i = 0; !stopping.load(); ++i) record(counter, 10 + i / 1000, name(i % 2000), 4);
  });
  for (int i = 0; i < 200; ++i) {
    for (const HotKey& key : merge_hot_keys({counter.read(10)}, 10).keys) EXPECT_EQ(key.key.substr(0, 4), "key-");
  }
  stopping = true;
  worker.join();
}

}  // namespace
}  // namespace tandem
