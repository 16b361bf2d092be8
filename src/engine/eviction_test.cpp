// Hit ratios of a full store, by policy: a client's look-aside traffic.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "engine/engine_fixture.hpp"

namespace tandem {
namespace {

class EvictionTest : public testing::TestWithParam<const char*> {
 public:
  EvictionTest() : engine_(options(GetParam())), context_(engine_.make_context()) {}

  static EngineOptions options(const char* eviction) {
    EngineOptions o;
    o.memory_bytes = std::uint64_t{8} << 20;
    o.huge_pages = false;
    o.crawl = false;
    o.hash_seed = 1;
    o.eviction = eviction;
    return o;
  }
  void SetUp() override {
    if (TD_THREAD_SANITIZER != 0) GTEST_SKIP() << "one thread asks: nothing to find, and minutes to do it in";
  }
  // Gets the key; stores it when it is absent. True: it was present.
  bool ask(std::uint64_t key) {
    const std::string text = name(key);
    const bool hit = run(Opcode::get, text) == Status::hit;
    if (!hit) {
      EXPECT_EQ(run(Opcode::store, text), Status::stored);
    }
    return hit;
  }
  Status run(Opcode opcode, const std::string& key) {
    return run_alone(*context_, batch_, query_of(opcode, key, value_));
  }
  // All of one length: other rules govern the memory of different size classes.
  static std::string name(std::uint64_t key) {
    const std::string digits = std::to_string(key);
    return std::string(16 - digits.size(), '0') + digits;
  }
  // Number of keys that fit: until the first eviction.
  std::uint64_t fill() {
    std::uint64_t key = std::uint64_t{1} << 40;
    while (engine_.stats().counters.evictions == 0) {
      for (int i = 0; i < 100; ++i) ask(key++);
    }
    return engine_.stats().items;
  }

 protected:
  Engine engine_;
  Engine::ContextPtr context_;
  Batch batch_{1};
  const std::string value_ = std::string(100, 'v');
};

// Requests a fixed part of what fits again and again; each request is followed by a number of one-time keys. Returns
// the hit ratio of the former.
double hits_beside_a_scan(EvictionTest& test, std::uint64_t hot, int scanned_each) {
  constexpr int rounds_before = 10;
  constexpr int rounds = 8;
  for (int round = 0; round < rounds_before; ++round) {
    for (std::uint64_t k = 0; k < hot; ++k) test.ask(k);
  }
  std::uint64_t scanned = std::uint64_t{2} << 40;
  std::uint64_t hits = 0;
  for (int round = 0; round < rounds; ++round) {
    for (std::uint64_t k = 0; k < hot; ++k) {
      hits += test.ask(k) ? 1u : 0u;
      for (int i = 0; i < scanned_each; ++i) test.ask(scanned++);
    }
  }
  return static_cast<double>(hits) / static_cast<double>(rounds * hot);
}

TEST_P(EvictionTest, WhatIsAskedForOftenOutlivesAScan) { EXPECT_GT(hits_beside_a_scan(*this, fill() / 4, 1), 0.99); }

// Measured figures of a policy, for which AddressSanitizer would need half a minute.
#if defined(TANDEM_SANITIZED)
#define TD_SKIP_FIGURES() GTEST_SKIP()
#else
#define TD_SKIP_FIGURES() static_cast<void>(0)
#endif

// Between two requests for a key come more other keys than fit: pure recency would have evicted all.
TEST_P(EvictionTest, AScanLongerThanTheMemory) {
  TD_SKIP_FIGURES();
  const double hits = hits_beside_a_scan(*this, fill() / 2, 4);
  if (GetParam() == std::string("s3-fifo")) {
    EXPECT_GT(hits, 0.95);
  } else {
    EXPECT_LT(hits, 0.5) << "then the other policy is not worth its memory";
  }
}

// Formerly popular keys are evicted when other keys become popular.
TEST_P(EvictionTest, PopularityMayChange) {
  TD_SKIP_FIGURES();
  const std::uint64_t capacity = fill();
  const std::uint64_t hot = capacity / 2;
  for (std::uint64_t generation = 0; generation < 6; ++generation) {
    std::uint64_t late_hits = 0;
    for (int round = 0; round < 12; ++round) {
      for (std::uint64_t k = 0; k < hot; ++k) {
        const bool hit = ask(generation * hot + k);
        if (round == 11) late_hits += hit ? 1u : 0u;
      }
    }
    EXPECT_GT(static_cast<double>(late_hits), 0.95 * static_cast<double>(hot)) << generation;
  }
}

// Deleting and storing the same keys neither loses slots nor grows the bookkeeping.
TEST_P(EvictionTest, DeletesAndReplacementsKeepTheMemoryUsable) {
  const std::uint64_t capacity = fill();
  for (int round = 0; round < 20; ++round) {
    for (std::uint64_t k = 0; k < 5000; ++k) {
      const std::string key = name(k);
      ASSERT_EQ(run(Opcode::store, key), Status::stored);
      const Opcode next = k % 3 == 0 ? Opcode::remove : Opcode::store;
      ASSERT_EQ(run(next, key), next == Opcode::remove ? Status::removed : Status::stored);
    }
  }
  std::uint64_t key = std::uint64_t{3} << 40;
  for (std::uint64_t i = 0; i < 2 * capacity; ++i) ask(key++);
  EXPECT_GT(static_cast<double>(engine_.stats().items), 0.9 * static_cast<double>(capacity));
  EXPECT_EQ(engine_.stats().counters.store_no_memory, 0u);
}

INSTANTIATE_TEST_SUITE_P(Policies, EvictionTest, testing::Values("clock", "s3-fifo"),
                         [](const auto& policy) { return policy.index == 0 ? "Clock" : "S3Fifo"; });

TEST(EvictionPolicyTest, UnknownPoliciesAreRefused) {
  EngineOptions o;
  o.eviction = "lru";
  EXPECT_THROW(Engine{o}, std::invalid_argument);
}

}  // namespace
}  // namespace tandem
