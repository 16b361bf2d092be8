#include <fmt/format.h>
#include <gtest/gtest.h>

#include "monitor/stats_text.hpp"
#include "monitor/top_view.hpp"
#include "plan/task.hpp"
#include "query/opcode.hpp"

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

TEST(Buckets, OfAnInterval) {
  const Buckets before = parse_buckets("10.5:4 900.0:1000");
  EXPECT_EQ(before, (Buckets{{10.5, 4}, {900, 1000}}));
  const Buckets now = parse_buckets("10.5:94 20.0:9 900.0:1001");
  const Buckets interval = interval_of(before, now);
  EXPECT_EQ(interval, (Buckets{{10.5, 90}, {20, 9}, {900, 1}}));
  EXPECT_EQ(count_of(interval), 100);
  EXPECT_NEAR(mean_of(interval), (10.5 * 90 + 20 * 9 + 900) / 100, 1e-9);
  EXPECT_EQ(quantile_of(interval, 0.5), 10.5);
  EXPECT_EQ(quantile_of(interval, 0.99), 20);
  EXPECT_EQ(quantile_of(interval, 0.999), 900);
  EXPECT_EQ(quantile_of(interval, 1), 900);
  EXPECT_EQ(interval_of(now, before), before) << "after a reset all of it is new";
  EXPECT_EQ(interval_of(now, now), Buckets{});
  EXPECT_EQ(quantile_of({}, 0.5), 0);
  EXPECT_EQ(mean_of({}), 0);
}

TEST(Buckets, OfAServerThatSaysAnything) {
  for (const char* bad : {"", "x", "1", "1:", ":1", "nan:1", "1:inf", "-1:2", "1:-2", "1e999:1"})
    EXPECT_TRUE(parse_buckets(bad).empty()) << bad;
  EXPECT_EQ(parse_buckets("1:2 3:4,5:6"), (Buckets{{1, 2}, {3, 4}}));
}

TEST(Top, ShowsRatesBetweenTheSamples) {
  TopSample before, now;
  before.general = {{"cmd_get", "1000"}, {"get_hits", "900"}, {"cmd_set", "5"}};
  now.general = {{"cmd_get", "5000"},   {"get_hits", "2900"}, {"cmd_set", "5"},
                 {"version", "1.6.18"}, {"threads", "4"},     {"uptime", "90061"}};
  now.time_s = 2;
  const std::string shown = text(top_lines("here:1", before, now, {}));
  EXPECT_NE(shown.find("memcached 1.6.18 at here:1  "), std::string::npos) << shown;
  EXPECT_NE(shown.find("  up 1 d 1 h, 4 threads"), std::string::npos) << shown;
  EXPECT_NE(shown.find("gets 2.0k"), std::string::npos) << shown;
  EXPECT_NE(shown.find("50.0 %"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("latency"), std::string::npos) << "memcached has none";
}

TEST(Top, ShowsTandemsVersion) {
  TopSample now;
  now.general = {{"version", "1.6.18"}};
  now.own = {{"version", "0.1.0"}, {"passes", "7"}};
  EXPECT_TRUE(text(top_lines("h:1", {}, now, {})).starts_with("Tandem 0.1.0 at h:1  "));
}

TEST(Top, ShowsLatenciesOfTheInterval) {
  TopSample before, now;
  now.time_s = 2;
  // A slow past: a million gets of 5 ms.
  before.histograms = {{"command:get:ns", "5000000.0:1000000"}, {"command:touch:ns", "1000.0:5"}};
  now.histograms = {{"command:get:ns", "11500.0:990 120000.0:10 5000000.0:1000000"},
                    {"command:touch:ns", "1000.0:5"},
                    {"task:RV:ns", "17.5:3"},
                    {"task:SD:ns", "52.5:3"}};
  const std::string shown = text(top_lines("s", before, now, {}));
  EXPECT_NE(shown.find("latency (us)                       per s     p50     p90     p99   p99.9     max\n"
                       "get                                  500    11.5    11.5    11.5   120.0   120.0\n"
                       "touch                                  0       -       -       -       -       -\n"),
            std::string::npos)
      << shown;
  EXPECT_NE(shown.find("RV     receive               17.5  25 %"), std::string::npos) << shown;
  EXPECT_NE(shown.find("KC     compare keys             -   0 %"), std::string::npos) << shown;
  EXPECT_NE(shown.find("SD     send                  52.5  75 %"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("\nset"), std::string::npos) << "no set came";
}

TEST(Top, ShowsHotKeysBesideTheTasks) {
  TopSample now;
  now.histograms = {{"task:RV:ns", "17.5:3"}};
  now.hot_keys = {{"hotkeys:1:key", "user%3A1"},
                  {"hotkeys:1:share", "0.125"},
                  {"hotkeys:1:share_error", "0.01"},
                  {"hotkeys:2:key", "%00%20%7"},
                  {"hotkeys:3:key", std::string(250, 'k')}};
  const std::string shown = text(top_lines("s", {}, now, {}));
  EXPECT_NE(shown.find("  user:1                  12.50 %   1.00\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find("  %00%20%7  "), std::string::npos) << "bytes that no terminal shows stay encoded: " << shown;
  EXPECT_NE(shown.find("  " + std::string(20, 'k') + "..   "), std::string::npos) << shown;
}

// A server with all statistics.
TopSample full_sample(int commands) {
  TopSample now;
  now.time_s = 1;
  now.general = {{"version", "1.6.18"},         {"uptime", "90061"},       {"threads", "128"},
                 {"cmd_get", "18446744073709"}, {"bytes", "1e15"},         {"limit_maxbytes", "1e15"},
                 {"curr_items", "1e15"},        {"evictions", "1e15"},     {"bytes_read", "1e15"},
                 {"bytes_written", "1e15"},     {"max_connections", "1e9"}};
  now.own = {{"version", "10.20.30"}};
  for (int c = 0; c < commands; ++c)
    now.histograms[fmt::format("command:{}:ns", command_names[static_cast<std::size_t>(c)])] =
        fmt::format("1234567890.1:{}", 1000 * (c + 1));
  for (const std::string_view task : task_names) now.histograms[fmt::format("task:{}:ns", task)] = "123456.7:1000";
  for (int k = 1; k <= 10; ++k) {
    now.hot_keys[fmt::format("hotkeys:{}:key", k)] = std::string(100, 'x');
    now.hot_keys[fmt::format("hotkeys:{}:share", k)] = "1";
    now.hot_keys[fmt::format("hotkeys:{}:share_error", k)] = "1";
  }
  return now;
}

TEST(Top, FitsTheTerminal) {
  for (const int commands : {0, 1, 4, 5, 6, 7, 12}) {
    const auto lines = top_lines("a-host-with-a-long-name.example.org:11211", {}, full_sample(commands), {23, 80});
    EXPECT_LE(lines.size(), 23u) << commands;
    for (const TopLine& line : lines) EXPECT_LE(line.text.size(), 80u) << line.text;
    const std::string shown = text(lines);
    // The last task and key, and the figures at the right edge, are not cut off.
    EXPECT_NE(shown.find("\nSD     send              123456.7  10 %  xxxxxxxxxxxxxxxxxxxx.. 100.00 % 100.00"),
              std::string::npos)
        << shown;
    EXPECT_NE(shown.find("up 1 d 1 h, 128 threads"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("of 12 commands") != std::string::npos, commands == 12) << shown;
  }
  // Of twelve, the most requested.
  const std::string shown = text(top_lines("s", {}, full_sample(12), {23, 80}));
  EXPECT_NE(shown.find(fmt::format("\n{} ", command_names[11])), std::string::npos) << shown;
  EXPECT_EQ(shown.find(fmt::format("\n{} ", command_names[0])), std::string::npos) << shown;
  for (const TopSize size : {TopSize{0, 0}, TopSize{1, 5}, TopSize{3, 20}, TopSize{200, 300}}) {
    const auto lines = top_lines("s", {}, full_sample(12), size);
    EXPECT_LE(lines.size(), static_cast<std::size_t>(size.rows));
    for (const TopLine& line : lines) EXPECT_LE(line.text.size(), static_cast<std::size_t>(size.columns));
  }
}

TEST(Top, PutsNothingButPrintableTextOnTheTerminal) {
  TopSample now;
  now.general = {{"version", "\x1b[2J\x07\xff"}, {"uptime", "-1e300"}, {"curr_items", "1e300"}, {"threads", "\r"}};
  now.own = {{"version", "\x1b[2J"}};
  now.histograms = {{"task:RV:ns", "1e300:1e300"}, {"command:get:ns", "0:1e300"}};
  now.hot_keys = {{"hotkeys:1:key", "\x1b]0;x\x07"}};
  for (const TopLine& line : top_lines("s", {}, now, {})) {
    for (const char c : line.text) EXPECT_TRUE(c >= ' ' && c <= '~');
  }
}

}  // namespace
}  // namespace tandem::monitor
