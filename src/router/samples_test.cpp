#include "router/samples.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "router/router_test_support.hpp"

namespace tandem {
namespace {

TEST(Samples, HaveTheKeyAndWhetherItWasWritten) {
  const Fingerprint f{.signature = 0xffff'ffff, .hash = 0xffff'ffff};
  EXPECT_TRUE(Sample::of(f, true).is_write());
  EXPECT_FALSE(Sample::of(f, false).is_write());
  EXPECT_EQ(Sample::of(f, true).key(), key_word(f));
  EXPECT_EQ(key_word(Sample::of(f, true).fingerprint()), key_word(f));
}

TEST(Samples, NoneWhileOff) {
  Samples samples(1, true);
  for (unsigned i = 0; i < 10'000; ++i) samples.offer({1, i}, false);
  EXPECT_EQ(samples.taken(), 0);
  EXPECT_EQ(samples.offered(), 0);
  samples.set_shift(0);
  for (unsigned i = 0; i < 2048; ++i) samples.offer({1, i}, false);
  EXPECT_GE(samples.taken(), 1024);  // it looks again
}

TEST(Samples, AllInOrderAtShiftZero) {
  Samples samples(1, true);
  samples.set_shift(0);
  for (unsigned i = 0; i < 1000; ++i) samples.offer({1, i}, i % 3 == 0);
  std::array<Sample, 600> some;
  unsigned next = 0;
  for (const std::uint32_t want : {600u, 400u, 0u}) {
    ASSERT_EQ(samples.take(some), want);
    for (std::uint32_t i = 0; i < want; ++i, ++next) {
      ASSERT_EQ(some[i].fingerprint().hash, next);
      ASSERT_EQ(some[i].is_write(), next % 3 == 0);
    }
  }
}

TEST(Samples, OneInTwoToTheShift) {
  Samples samples(7, true);
  samples.set_shift(6);
  std::array<Sample, Samples::capacity> some;
  std::uint64_t taken = 0;
  std::array<unsigned, 64> by_phase{};
  constexpr unsigned queries = 2'000'000;
  for (unsigned i = 0; i < queries; ++i) {
    samples.offer({1, i}, false);
    if (i % 1000 != 0) continue;
    const std::uint32_t count = samples.take(some);
    taken += count;
    for (std::uint32_t s = 0; s < count; ++s) ++by_phase[some[s].fingerprint().hash % 64];
  }
  EXPECT_NEAR(static_cast<double>(taken), queries / 64.0, queries / 64.0 / 50);
  EXPECT_NEAR(static_cast<double>(samples.offered()), queries, 1024 + 128);
  EXPECT_EQ(samples.dropped(), 0);
  const double mean = static_cast<double>(taken) / 64;
  for (const unsigned each : by_phase) EXPECT_NEAR(each, mean, mean / 4);  // no rhythm is preferred
}

TEST(Samples, DropsWhatHasNoRoom) {
  Samples samples(1, true);
  samples.set_shift(0);
  constexpr unsigned more = 100;
  for (unsigned i = 0; i < Samples::capacity + more; ++i) samples.offer({1, i}, false);
  EXPECT_EQ(samples.taken(), Samples::capacity);
  EXPECT_EQ(samples.dropped(), more);
  std::vector<Sample> some(2 * Samples::capacity);
  ASSERT_EQ(samples.take(some), Samples::capacity);
  EXPECT_EQ(some[0].fingerprint().hash, 0);  // the oldest are kept
  EXPECT_EQ(some[Samples::capacity - 1].fingerprint().hash, Samples::capacity - 1);
  samples.offer({1, 5}, false);
  EXPECT_EQ(samples.take(some), 1);
}

TEST(Samples, WithoutARingAllAreDropped) {
  Samples samples(1, false);
  samples.set_shift(0);
  for (unsigned i = 0; i < 10; ++i) samples.offer({1, i}, false);
  EXPECT_EQ(samples.taken(), 0);
  EXPECT_EQ(samples.dropped(), 10);
  std::array<Sample, 4> some;
  EXPECT_EQ(samples.take(some), 0);
}

TEST(Samples, ReachTheTrainerAcrossThreads) {
  Samples samples(1, true);
  samples.set_shift(0);
  constexpr std::uint32_t queries = is_sanitized ? 100'000 : 1'000'000;
  std::atomic<bool> done{false};
  std::thread worker([&] {
    for (std::uint32_t i = 1; i <= queries; ++i) samples.offer({i, i & 0x7fff'ffff}, false);
    done.store(true);
  });
  std::uint64_t seen = 0;
  std::uint32_t last = 0;
  std::array<Sample, 512> some;
  for (;;) {
    const bool ends = done.load();
    const std::uint32_t count = samples.take(some);
    for (std::uint32_t i = 0; i < count; ++i) {
      const Fingerprint f = some[i].fingerprint();
      ASSERT_EQ(f.signature, f.hash);
      ASSERT_GT(f.signature, last);
      last = f.signature;
    }
    seen += count;
    if (ends && count == 0) break;
  }
  worker.join();
  EXPECT_EQ(seen, samples.taken());
  EXPECT_EQ(samples.taken() + samples.dropped(), queries);
}

}  // namespace
}  // namespace tandem
