#include <gtest/gtest.h>

#include "monitor/stats_text.hpp"
#include "monitor/top_view.hpp"

namespace tandem::monitor {
namespace {

TEST(StatsText, ReadsLinesToTheEnd) {
  Stats stats;
  EXPECT_EQ(parse_stats("STAT pid 17\r\nSTAT version 1.6.18 beta\r\nSTAT empty\r\nEND\r\nrest", stats), StatsEnd::done);
  EXPECT_EQ(stats, (Stats{{"pid", "17"}, {"version", "1.6.18 beta"}, {"empty", ""}}));
  EXPECT_EQ(number_of(stats, "pid"), 17);
  EXPECT_EQ(number_of(stats, "version"), 0);
  EXPECT_EQ(number_of(stats, "none"), 0);
}

TEST(StatsText, GoesOnUntilAWholeEnd) {
  const std::string reply = "STAT a 1\r\nSTAT b 2\r\nEND\r\n";
  for (std::size_t bytes = 0; bytes < reply.size(); ++bytes) {
    Stats stats;
    EXPECT_EQ(parse_stats(std::string_view(reply).substr(0, bytes), stats), StatsEnd::more) << bytes;
  }
}

TEST(StatsText, RefusesWhatIsNoStatistics) {
  for (const char* reply : {"ERROR\r\n", "SERVER_ERROR x\r\n", "HTTP/1.1 400 Bad Request\r\n", "\r\n", "STATx 1\r\n"}) {
    Stats stats;
    EXPECT_EQ(parse_stats(reply, stats), StatsEnd::refused) << reply;
  }
  Stats stats;
  EXPECT_EQ(parse_stats(std::string(stats_bytes_max + 1, 'x'), stats), StatsEnd::refused);
}

TEST(StatsText, NumbersThatAreNone) {
  const Stats stats{{"a", "1e999"}, {"b", "nan"}, {"c", "inf"}, {"d", "12x"}, {"e", "-3.5"}};
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_EQ(number_of(stats, name), 0) << name;
  EXPECT_EQ(number_of(stats, "e"), -3.5);
}

std::string text(const std::vector<TopLine>& lines) {
  std::string out;
  for (const TopLine& line : lines) out += line.text + "\n";
  return out;
}

TEST(Top, ShowsRatesBetweenTheSamples) {
  TopSample before, now;
  before.general = {{"cmd_get", "1000"}, {"get_hits", "900"}, {"cmd_set", "5"}};
  now.general = {{"cmd_get", "5000"},   {"get_hits", "2900"}, {"cmd_set", "5"},
                 {"version", "1.6.18"}, {"threads", "4"},     {"uptime", "90061"}};
  now.time_s = 2;
  const std::string shown = text(top_lines("here:1", before, now));
  EXPECT_NE(shown.find("here:1  version 1.6.18  up 1 d 1 h  4 threads"), std::string::npos) << shown;
  EXPECT_NE(shown.find("gets 2.0k"), std::string::npos) << shown;
  EXPECT_NE(shown.find("50.0 %"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("latency"), std::string::npos) << "memcached has none";
}

TEST(Top, ShowsLatenciesAndHotKeys) {
  TopSample before, now;
  now.time_s = 1;
  now.latency = {{"command:get:count", "16"},
                 {"command:get:p50_us", "11.5"},
                 {"command:get:p99.9_us", "120.0"},
                 {"task:RV:count", "3"},
                 {"task:RV:p50_ns", "17.5"}};
  now.hot_keys = {{"hotkeys:1:key", "a%20b"}, {"hotkeys:1:share", "0.125"}, {"hotkeys:1:share_error", "0.01"}};
  const std::string shown = text(top_lines("s", before, now));
  EXPECT_NE(shown.find("latency (us)"), std::string::npos);
  EXPECT_NE(shown.find("11.5"), std::string::npos);
  EXPECT_NE(shown.find("120.0"), std::string::npos);
  EXPECT_NE(shown.find("RV"), std::string::npos);
  EXPECT_NE(shown.find("a%20b                    12.50 %    1.00"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("set"), std::string::npos) << "no set came";
}

TEST(Top, PutsNothingButPrintableTextOnTheTerminal) {
  TopSample before, now;
  now.general = {{"version", "\x1b[2J\x07\xff"}, {"uptime", "-1e300"}, {"curr_items", "1e300"}, {"threads", "\r"}};
  now.hot_keys = {{"hotkeys:1:key", "\x1b]0;x\x07"}};
  for (const TopLine& line : top_lines("s", before, now)) {
    for (const char c : line.text) EXPECT_TRUE(c >= ' ' && c <= '~');
  }
}

}  // namespace
}  // namespace tandem::monitor
