#include "worker/prefix_stats.hpp"

#include <gtest/gtest.h>

namespace tandem::net {
namespace {

TEST(PrefixStats, SumsOverTables) {
  PrefixStats stats(':');
  PrefixStats::Table& one = stats.make_table();
  PrefixStats::Table& two = stats.make_table();
  one.count("foo:1", {.gets = 1, .hits = 1});
  two.count("foo:2:x", {.gets = 1});
  two.count("foo:3", {.sets = 1});
  one.count("bar:", {.removes = 1});
  one.count(":x", {.sets = 1});
  one.count("none", {.sets = 1});
  EXPECT_EQ(stats.dump(),
            "PREFIX  get 0 hit 0 set 1 del 0\r\nPREFIX bar get 0 hit 0 set 0 del 1\r\n"
            "PREFIX foo get 2 hit 1 set 1 del 0\r\n");
  stats.clear();
  EXPECT_EQ(stats.dump(), "");
}

TEST(PrefixStats, KeepsABoundedNumber) {
  PrefixStats stats('/');
  PrefixStats::Table& table = stats.make_table();
  for (std::size_t i = 0; i < PrefixStats::prefixes_max + 100; ++i) table.count(std::to_string(i) + "/k", {.gets = 1});
  EXPECT_EQ(stats.uncounted(), 100u);
  table.count("0/k", {.gets = 1});
  EXPECT_NE(stats.dump().find("PREFIX 0 get 2 hit 0 set 0 del 0\r\n"), std::string::npos);
  EXPECT_EQ(stats.uncounted(), 100u);
}

}  // namespace
}  // namespace tandem::net
