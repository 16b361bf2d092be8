#include "bench/workload/sizes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/workload/random.hpp"

namespace tandem::workload {
namespace {

std::vector<Sizes> all_models() {
  std::vector<Sizes> all{parse_key_sizes("8-99"), parse_value_sizes("0-3")};
  for (const char* name : {"etc", "usr", "app", "var", "sys"}) {
    all.push_back(parse_key_sizes(name));
    all.push_back(parse_value_sizes(name));
  }
  return all;
}

// Maximum distance of the drawn sizes' distribution from the stated one (Kolmogorov and Smirnov); 1 of 10^6 correct
// generators exceeds 2.7 / sqrt(n).
TEST(Sizes, DrawnSizesHaveTheStatedDistributionAndMean) {
  constexpr int n = 200'000;
  for (const Sizes& sizes : all_models()) {
    Random random(11);
    std::map<std::uint32_t, int> counts;
    for (int i = 0; i < n; ++i) ++counts[sizes.of(random.next())];
    EXPECT_GE(counts.begin()->first, sizes.least());
    EXPECT_LE(counts.rbegin()->first, sizes.most());
    double up_to = 0, sum = 0;
    for (const auto& [bytes, count] : counts) {
      const double stated_below = bytes > 0 ? sizes.share_up_to(bytes - 1) : 0;
      EXPECT_NEAR(up_to / n, stated_below, 2.7 / std::sqrt(n)) << to_string(sizes) << ' ' << bytes;
      up_to += count;
      sum += static_cast<double>(bytes) * count;
      EXPECT_NEAR(up_to / n, sizes.share_up_to(bytes), 2.7 / std::sqrt(n)) << to_string(sizes) << ' ' << bytes;
    }
    EXPECT_NEAR(sum / n, sizes.mean(), 0.03 * sizes.mean() + 0.05) << to_string(sizes);
  }
}

// "MemcachedGPU" (Hetherington et al., SoCC 2015, section 4) counts ETC's keys by the table that they fall into.
TEST(Sizes, EtcKeysFallIntoTheTablesThatMemcachedGpuCounts) {
  const Sizes keys = parse_key_sizes("etc");
  EXPECT_NEAR(keys.share_up_to(16), 0.0014, 0.0002);
  EXPECT_NEAR(keys.share_up_to(32) - keys.share_up_to(16), 0.4417, 0.0002);
  EXPECT_NEAR(keys.share_up_to(64) - keys.share_up_to(32), 0.5288, 0.0002);
  EXPECT_NEAR(keys.share_up_to(128) - keys.share_up_to(64), 0.0279, 0.0002);
  EXPECT_NEAR(1 - keys.share_up_to(128), 0.0002, 0.0002);
  // The mean of the distribution: mu + sigma / k * (gamma(1 - k) - 1).
  EXPECT_NEAR(keys.mean(), 30.7984 + 8.20449 / 0.078688 * (std::tgamma(1 - 0.078688) - 1), 0.01);
}

TEST(Sizes, EtcValuesStartAsTable5AndEndAsThePareto) {
  const Sizes values = parse_value_sizes("etc");
  EXPECT_NEAR(values.share_up_to(0), 0.00536, 1e-9);
  EXPECT_NEAR(values.share_up_to(2) - values.share_up_to(1), 0.17820, 1e-9);
  EXPECT_NEAR(values.share_up_to(11) - values.share_up_to(10), 0.08989, 1e-9);
  EXPECT_NEAR(values.share_up_to(14), 0.44155, 1e-9);  // as HomaSimulation's table of the same workload sums up
  // "requests with 2-, 3-, or 11-byte values add up to 40% of the total" (section 3.2); the model's are 36 %.
  EXPECT_NEAR(0.17820 + 0.09239 + 0.08989, 0.36, 0.01);
  // The Pareto's own median, from 15 bytes on: sigma / k * (2^k - 1).
  const auto median = static_cast<std::uint32_t>(15 + 214.476 / 0.348238 * (std::exp2(0.348238) - 1));
  EXPECT_NEAR((values.share_up_to(median - 1) - 0.44155) / (1 - 0.44155), 0.5, 0.002);
  // Its mean: sigma / (1 - k), minus the effect of whole bytes and the cut.
  double small = 0;
  for (std::uint32_t b = 1; b < 15; ++b) small += b * (values.share_up_to(b) - values.share_up_to(b - 1));
  EXPECT_NEAR(values.mean(), small + (1 - 0.44155) * (15 + 214.476 / (1 - 0.348238) - 0.5), 0.5);
}

TEST(Sizes, UsrIsTwoKeySizesAndOneValueSize) {
  const Sizes keys = parse_key_sizes("usr"), values = parse_value_sizes("usr");
  Random random(1);
  std::map<std::uint32_t, int> counts;
  for (int i = 0; i < 10'000; ++i) {
    ++counts[keys.of(random.next())];
    EXPECT_EQ(values.of(random.next()), 2U);
  }
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_NEAR(counts[16], 5000, 250);
  EXPECT_EQ(counts[16] + counts[21], 10'000);
}

TEST(Sizes, TheModesOfAppAndVarAreTheTexts) {
  const auto share_of = [](const Sizes& s, std::uint32_t bytes) {
    return s.share_up_to(bytes) - s.share_up_to(bytes - 1);
  };
  EXPECT_GT(share_of(parse_key_sizes("app"), 31), 0.9);
  EXPECT_GT(share_of(parse_value_sizes("app"), 270), 0.3);
  EXPECT_GT(share_of(parse_key_sizes("var"), 31), 0.9);
  for (const char* name : {"usr", "app", "var", "sys"}) EXPECT_LE(parse_value_sizes(name).most(), 500U) << name;
}

TEST(Sizes, TheEndsOfTheWordsAreInBounds) {
  for (const Sizes& sizes : all_models()) {
    for (const std::uint64_t word : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
      EXPECT_GE(sizes.of(word), sizes.least());
      EXPECT_LE(sizes.of(word), sizes.most());
    }
  }
  EXPECT_EQ(parse_value_sizes("0-3").of(0), 0U);
  EXPECT_EQ(parse_value_sizes("0-3").of(~std::uint64_t{0}), 3U);
  EXPECT_EQ(parse_value_sizes("0-1073741824").of(~std::uint64_t{0}), value_bytes_limit);
}

TEST(Sizes, TextGoesBothWays) {
  for (const char* text : {"8", "250", "16-128", "etc", "usr", "app", "var", "sys"}) {
    EXPECT_EQ(to_string(parse_key_sizes(text)), text);
  }
  for (const char* text : {"0", "1073741824", "0-1048576", "etc", "app", "var", "sys"}) {
    EXPECT_EQ(to_string(parse_value_sizes(text)), text);
  }
  EXPECT_EQ(parse_key_sizes("20-20"), Sizes::fixed(20));
}

TEST(Sizes, WrongTextIsRefusedWithAReason) {
  const auto refusal = [](auto parse, std::string_view text) -> std::string {
    try {
      parse(text);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  struct Wrong {
    const char *text, *reason;
  };
  for (const Wrong& w : {Wrong{"7", "8 to 250"},
                         {"251", "8 to 250"},
                         {"4-16", "8 to 250"},
                         {"16-300", "8 to 250"},
                         {"64-16", "is empty"},
                         {"", "must be a number"},
                         {"x", "must be a number"},
                         {"16-", "must be a number"},
                         {"-16", "must be a number"},
                         {"16-32-64", "must be a number"},
                         {"16 ", "must be a number"},
                         {"ETC", "must be a number"},
                         {"99999999999", "too large"},
                         {"8-99999999999", "too large"}}) {
    EXPECT_NE(refusal(parse_key_sizes, w.text).find(w.reason), std::string::npos)
        << w.text << ": " << refusal(parse_key_sizes, w.text);
  }
  EXPECT_NE(refusal(parse_value_sizes, "1073741825").find("0 to 1073741824"), std::string::npos);
  EXPECT_NE(refusal(parse_value_sizes, "-1").find("value size"), std::string::npos);
}

}  // namespace
}  // namespace tandem::workload
