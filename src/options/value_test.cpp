#include "options/value.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::cli {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint64_t gib = std::uint64_t{1} << 30;

TEST(Value, SizesHaveBinaryUnitsInAnyCase) {
  const std::vector<std::pair<std::string_view, std::uint64_t>> cases = {
      {"0", 0},
      {"1", 1},
      {"4096", 4096},
      {"17B", 17},
      {"1k", 1024},
      {"512KiB", 524288},
      {"2m", 2 * mib},
      {"1 GiB", gib},
      {"1.5GiB", gib + gib / 2},
      {"0.5k", 512},
      {"1T", 1024 * gib},
      {"1tib", 1024 * gib},
      {"1GB", gib},
      {"1gb", gib},
      {"1g", gib},
      {"1kB", 1024},
      {"64MB", 64 * mib},
      {"1TB", 1024 * gib},
      {"18446744073709551615", UINT64_MAX},
  };
  for (const auto& [text, bytes] : cases) EXPECT_EQ(parse_size(text), bytes) << text;
}

TEST(Value, SizesRefuseWhatIsNone) {
  for (const std::string_view text : {"",          " ",   "k",       "GiB",  "-1",    "+1",
                                      "1GBB",      "1bk", "1GIBB",   "1x",   "1 k b", "1.k",
                                      ".5k",       "0.3", "1.0001k", "1,5k", "0x10",  "18446744073709551616",
                                      "16777216T", "1.5", "1k ",     " 1k",  "1e3",   "1.0000000000000k"}) {
    EXPECT_THROW(parse_size(text), ValueError) << text;
  }
  EXPECT_THROW(parse_size(std::string_view("1\0k", 3)), ValueError);
}

TEST(Value, SizesPrintExactly) {
  EXPECT_EQ(format_size(0), "0");
  EXPECT_EQ(format_size(1), "1B");
  EXPECT_EQ(format_size(1025), "1025B");
  EXPECT_EQ(format_size(1536 * 1024), "1536KiB");
  EXPECT_EQ(format_size(64 * mib), "64MiB");
  EXPECT_EQ(format_size(gib), "1GiB");
  EXPECT_EQ(format_size(2048 * gib), "2TiB");
  for (unsigned shift = 0; shift < 64; ++shift) {
    for (const std::uint64_t n :
         {std::uint64_t{1} << shift, (std::uint64_t{1} << shift) - 1, std::uint64_t{3} << shift}) {
      EXPECT_EQ(parse_size(format_size(n)), n);
    }
  }
}

TEST(Value, SizesPrintRounded) {
  EXPECT_EQ(format_size_rounded(0), "0 B");
  EXPECT_EQ(format_size_rounded(1023), "1023 B");
  EXPECT_EQ(format_size_rounded(64 * mib), "64.0 MiB");
  EXPECT_EQ(format_size_rounded(gib), "1.0 GiB");
  EXPECT_EQ(format_size_rounded(gib + gib / 2), "1.5 GiB");
  EXPECT_EQ(format_size_rounded(1024 * 1024 * gib), "1024.0 TiB");
}

TEST(Value, Seconds) {
  EXPECT_EQ(parse_seconds("0"), 0u);
  EXPECT_EQ(parse_seconds("90"), 90u);
  EXPECT_EQ(parse_seconds("90s"), 90u);
  EXPECT_EQ(parse_seconds("15m"), 900u);
  EXPECT_EQ(parse_seconds("1.5h"), 5400u);
  EXPECT_EQ(parse_seconds("2d"), 172800u);
  for (const std::string_view text : {"", "s", "-1", "1w", "1.5", "1ms"})
    EXPECT_THROW(parse_seconds(text), ValueError) << text;
  for (const std::uint64_t n : {0u, 1u, 59u, 60u, 61u, 3600u, 86400u, 86401u, 90000u}) {
    EXPECT_EQ(parse_seconds(format_seconds(n)), n);
  }
  EXPECT_EQ(format_seconds(900), "15m");
}

TEST(Value, Numbers) {
  EXPECT_EQ(parse_integer("-1"), -1);
  EXPECT_EQ(parse_integer("9223372036854775807"), INT64_MAX);
  for (const std::string_view text : {"", "1x", " 1", "1 ", "+1", "9223372036854775808", "1.0"}) {
    EXPECT_THROW(parse_integer(text), ValueError) << text;
  }
  EXPECT_DOUBLE_EQ(parse_real("1.25"), 1.25);
  for (const std::string_view text : {"", "x", "1.25x", "nan", "inf", "1e999"}) {
    EXPECT_THROW(parse_real(text), ValueError) << text;
  }
  EXPECT_EQ(parse_mode("700"), 0700u);
  EXPECT_EQ(parse_mode("0660"), 0660u);
  for (const std::string_view text : {"", "8", "1000", "-1", "rwx"}) EXPECT_THROW(parse_mode(text), ValueError) << text;
}

TEST(Value, Flags) {
  for (const std::string_view text : {"true", "yes", "on", "1"}) EXPECT_TRUE(parse_flag(text)) << text;
  for (const std::string_view text : {"false", "no", "off", "0"}) EXPECT_FALSE(parse_flag(text)) << text;
  for (const std::string_view text : {"", "True", "2", "maybe"}) EXPECT_THROW(parse_flag(text), ValueError) << text;
}

TEST(Value, QuotedIsPrintableAndShort) {
  EXPECT_EQ(in_quotes("a b"), "\"a b\"");
  EXPECT_EQ(in_quotes("\"\\"), "\"\\\"\\\\\"");
  EXPECT_EQ(in_quotes(std::string_view("\0\x1b\xff", 3)), "\"\\x00\\x1b\\xff\"");
  EXPECT_EQ(in_quotes(std::string(100, 'x')), "\"" + std::string(60, 'x') + "...\"");
}

TEST(Value, ErrorsSayWhatWasWantedAndGot) {
  try {
    parse_size("1Mb/s");
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_STREQ(error.what(), "expected a size in bytes, KiB, MiB, GiB or TiB such as 512MiB, got \"1Mb/s\"");
  }
}

}  // namespace
}  // namespace tandem::cli
