// Keys chosen to collide: they can be prepared only for a known seed, and each start has its own.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "engine/engine_fixture.hpp"

namespace tandem {
namespace {

constexpr std::uint32_t bucket_mask = 0xfff;  // of more buckets than the tables here have

EngineOptions options(std::uint64_t hash_seed) {
  EngineOptions o;
  o.memory_bytes = std::uint64_t{8} << 20;
  o.huge_pages = false;
  o.crawl = false;
  o.hash_seed = hash_seed;
  return o;
}

std::uint32_t bucket(const std::string& key, std::uint64_t seed) {
  return fingerprint_of(key, seed).hash & bucket_mask;
}

// Keys of one bucket.
std::vector<std::string> flood(std::size_t count, std::uint64_t seed) {
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; keys.size() < count; ++i) {
    std::string key = "flood" + std::to_string(i);
    if (bucket(key, seed) == 1) keys.push_back(std::move(key));
  }
  return keys;
}

TEST(Flooding, KeysPreparedForOneStartAreSpreadByTheNext) {
  constexpr std::size_t count = 64;
  std::uint64_t seeds[2];
  for (std::uint64_t& seed : seeds) {
    const Engine engine(options(0));  // as every start: no option sets the seed
    seed = engine.shared().hash_seed;
    EXPECT_NE(seed, 0u);
  }
  EXPECT_NE(seeds[0], seeds[1]);
  std::set<std::uint32_t> buckets;
  for (const std::string& key : flood(count, seeds[0])) buckets.insert(bucket(key, seeds[1]));
  EXPECT_GT(buckets.size(), count - 10);  // few or none of 64 keys in 4096 buckets collide
}

// With a known seed, some of the keys would be evicted; the rest, and all other keys, are served.
TEST(Flooding, AFullBucketIsNoFailure) {
  constexpr std::uint64_t seed = 7;
  Engine engine(options(seed));
  const auto context = engine.make_context();
  Batch batch(1);
  const std::string value(10, 'v');
  const auto run = [&](Opcode opcode, const std::string& key) {
    return run_alone(*context, batch, query_of(opcode, key, value));
  };
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(run(Opcode::store, "other" + std::to_string(i)), Status::stored);
  for (const std::string& key : flood(500, seed)) {
    ASSERT_EQ(run(Opcode::store, key), Status::stored);
    ASSERT_EQ(run(Opcode::get, key), Status::hit);
  }
  int hits = 0;
  for (int i = 0; i < 1000; ++i) hits += run(Opcode::get, "other" + std::to_string(i)) == Status::hit ? 1 : 0;
  EXPECT_GT(hits, 950);
}

}  // namespace
}  // namespace tandem
