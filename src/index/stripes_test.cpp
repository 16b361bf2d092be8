#include "index/stripes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "index/cuckoo/cell.hpp"
#include "index/cuckoo/cuckoo_check.hpp"

namespace tandem {
namespace {

TEST(StripeWord, ChangeUnlocksCountsAndStamps) {
  const StripeWord locked{(std::uint64_t{7} << 32) | (std::uint64_t{41} << 1) | 1};
  EXPECT_TRUE(locked.locked());
  EXPECT_EQ(locked.version(), 41u);
  EXPECT_EQ(locked.changed_at(), 7u);
  const StripeWord after = locked.changed(9);
  EXPECT_FALSE(after.locked());
  EXPECT_EQ(after.version(), 42u);
  EXPECT_EQ(after.changed_at(), 9u);
  const StripeWord last{0xffffffff};  // the version wraps without carry into other fields
  EXPECT_EQ(last.changed(1).version(), 0u);
  EXPECT_EQ(last.changed(1).changed_at(), 1u);
}

// One key, one stripe: whichever of its cells names it, in a table of any size.
TEST(Stripes, GrowthKeepsAKeysStripe) {
  Stripes stripes;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const std::uint64_t h = mix_bits(i);
    const Fingerprint f{static_cast<std::uint32_t>(h >> 32) | 1u, static_cast<std::uint32_t>(h)};
    const Stripe* const mine = &stripes.of(f.signature);
    for (std::uint32_t mask = 1; mask < 1u << 30; mask = mask * 4 + 3) {
      const IndexView view{nullptr, mask};
      // A displacer knows the bucket in which it found the cell, and the cell.
      for (const std::uint32_t b : {view.first(f), view.second(f)}) {
        const Cell c = Cell::of(f.signature, static_cast<std::uint32_t>(i));
        ASSERT_EQ(&stripes.of(c.signature()), mine);
        ASSERT_TRUE(view.other(b, c.signature()) == view.first(f) || view.other(b, c.signature()) == view.second(f));
      }
    }
  }
}

TEST(Stripes, AreUsedEvenly) {
  std::vector<std::uint32_t> uses(Stripes::count);
  constexpr std::uint32_t keys = Stripes::count * 16;
  for (std::uint64_t i = 0; i < keys; ++i) ++uses[Stripes::index_of(static_cast<std::uint32_t>(mix_bits(i) >> 32))];
  EXPECT_GT(*std::min_element(uses.begin(), uses.end()), 0u);
  EXPECT_LT(*std::max_element(uses.begin(), uses.end()), 50u) << "16 are expected, with a deviation of 4";
}

TEST(StripeLock, ExcludesAndCountsChanges) {
  Stripes stripes;
  Stripe& stripe = stripes.of(12345);
  constexpr std::uint32_t threads = 4, each = 20'000;
  std::uint64_t unguarded = 0;  // an inadequate lock shows as a lost update
  std::vector<std::thread> pool;
  for (std::uint32_t t = 0; t < threads; ++t) {
    pool.emplace_back([&] {
      for (std::uint32_t i = 0; i < each; ++i) {
        StripeLock lock(stripe);
        ++unguarded;
        if (i % 2 == 0) {
          lock.unlock_changed(i);
        } else {
          lock.unlock_unchanged();
        }
      }
    });
  }
  for (std::thread& t : pool) t.join();
  EXPECT_EQ(unguarded, threads * each);
  const StripeWord word{stripe.load()};
  EXPECT_FALSE(word.locked());
  EXPECT_EQ(word.version(), threads * each / 2);
}

}  // namespace
}  // namespace tandem
