// History, JSON, metrics and the HTTP server's checks, without sockets where possible.
#include "monitor/monitor.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/ticks.hpp"
#include "monitor/metrics.hpp"
#include "monitor/page.hpp"
#include "monitor/status_json.hpp"

namespace tandem::monitor {
namespace {

using std::chrono::seconds;
using Json = nlohmann::json;

constexpr History::Time begin{};

net::ServerSnapshot snapshot_with(std::uint64_t gets, std::uint64_t hits, std::uint64_t evictions = 0) {
  net::ServerSnapshot s;
  s.engine.counters.cmd_get = gets;
  s.engine.counters.get_hits = hits;
  s.engine.counters.evictions = evictions;
  s.worker_connections = {3, 4};
  s.hot_keys_enabled = true;
  return s;
}

Json status_of(const History& history, std::uint64_t since = 0, const HotKeys& hot = {}) {
  return Json::parse(status_json(history, hot, {}, since, "9.9"));
}

TEST(History, RatesAreBetweenTwoLooks) {
  History history;
  history.add(snapshot_with(1000, 900), begin, 100);
  EXPECT_TRUE(history.points().empty());
  history.add(snapshot_with(5000, 2900, 10), begin + seconds(2), 102);
  ASSERT_EQ(history.points().size(), 1u);
  const Point& p = history.points().back();
  EXPECT_DOUBLE_EQ(p.gets_per_s, 2000);
  EXPECT_DOUBLE_EQ(p.hits_per_s, 1000);
  EXPECT_DOUBLE_EQ(p.evictions_per_s, 5);
  EXPECT_DOUBLE_EQ(p.time_s, 102);
}

TEST(History, HotAndColdAreOfTheWindow) {
  const auto with_hot = [](unsigned hot, unsigned cold) {
    net::ServerSnapshot s = snapshot_with(0, 0);
    Histogram fast, slow;
    for (unsigned i = 0; i < hot; ++i) fast.record(1000);
    for (unsigned i = 0; i < cold; ++i) slow.record(9000);
    s.hot.emplace().table.keys = 7;
    s.hot->latency.hot.add(fast);
    s.hot->latency.cold.add(slow);
    return s;
  };
  History history;
  history.add(with_hot(1000, 1000), begin, 0);
  EXPECT_EQ(status_of(history)["hot_table"], nullptr);
  history.add(with_hot(1030, 1010), begin + seconds(1), 1);
  const auto recent = history.recent_hot();
  ASSERT_TRUE(recent);
  EXPECT_EQ(recent->share, 0.75);
  EXPECT_EQ(recent->latency.cold.count(), 10u);
  const Json told = status_of(history)["hot_table"];
  EXPECT_EQ(told["keys"], 7);
  EXPECT_EQ(told["share"], 0.75);
  EXPECT_NEAR(told["hot_latency_us"]["p99"].get<double>(), 1000 * ns_per_tick() / 1000, 0.05 * ns_per_tick());
  EXPECT_GT(told["cold_latency_us"]["p50"], told["hot_latency_us"]["max"]);

  for (unsigned s = 2; s < 20; ++s) history.add(with_hot(1030, 1010), begin + seconds(s), s);
  EXPECT_EQ(status_of(history)["hot_table"]["share"], nullptr) << "neither hot nor cold: nothing was asked";
  history.add(snapshot_with(0, 0), begin + seconds(20), 20);
  EXPECT_EQ(status_of(history)["hot_table"], nullptr) << "a server without hot keys has none";
}

TEST(History, AResetOfTheCountersIsNoNegativeRate) {
  History history;
  history.add(snapshot_with(1'000'000, 1'000'000), begin, 0);
  history.add(snapshot_with(40, 30), begin + seconds(1), 1);
  EXPECT_DOUBLE_EQ(history.points().back().gets_per_s, 40);
  EXPECT_DOUBLE_EQ(history.points().back().hits_per_s, 30);
}

TEST(History, KeepsTheLastMinutes) {
  History history;
  for (std::uint64_t i = 0; i <= History::points_max + 50; ++i)
    history.add(snapshot_with(i * i, 0), begin + seconds(i), static_cast<double>(i));
  EXPECT_EQ(history.points().size(), History::points_max);
  EXPECT_EQ(history.points_ever(), History::points_max + 50);
  EXPECT_DOUBLE_EQ(history.points().front().time_s, 51);
}

TEST(History, ACoarsePointIsTheMeanOfTenSeconds) {
  LatencyCounters counters;
  History history;
  const auto second = [&](std::uint64_t i, std::uint64_t gets) {
    net::ServerSnapshot s = snapshot_with(gets, gets / 2);
    s.latency.add(counters);
    history.add(s, begin + seconds(i), 1000 + static_cast<double>(i));
  };
  const auto record_us = [&](double us, std::uint64_t times) {
    counters.of(Command::get).record(static_cast<std::uint64_t>(us * 1000 / ns_per_tick()), times);
  };
  second(0, 0);
  for (std::uint64_t i = 1; i <= 9; ++i) {
    record_us(10, 11);
    second(i, i * 100);
  }
  EXPECT_TRUE(history.coarse_points().empty());
  record_us(500, 1);
  second(19, 2900);  // a late one: it covers ten seconds
  ASSERT_EQ(history.coarse_points().size(), 1u);
  const Point& p = history.coarse_points().back();
  EXPECT_DOUBLE_EQ(p.time_s, 1019);
  EXPECT_DOUBLE_EQ(p.interval_s, 19);
  EXPECT_DOUBLE_EQ(p.gets_per_s, 2900.0 / 19);
  EXPECT_DOUBLE_EQ(p.hits_per_s, 1450.0 / 19);
  EXPECT_NEAR(p.p50_us, 10, 10 * histogram::error_max + 0.01);
  EXPECT_NEAR(p.p999_us, 500, 500 * histogram::error_max + 0.01);
  for (std::uint64_t i = 20; i < 20 + 10 * (History::coarse_points_max + 5); ++i) second(i, 3000);
  EXPECT_EQ(history.coarse_points().size(), History::coarse_points_max);
  EXPECT_DOUBLE_EQ(history.coarse_points().back().gets_per_s, 0);
}

TEST(History, LatenciesAreThoseOfTheInterval) {
  LatencyCounters counters;
  net::ServerSnapshot s = snapshot_with(0, 0);
  const auto ticks_of_us = [](double us) { return static_cast<std::uint64_t>(us * 1000 / ns_per_tick()); };
  counters.of(Command::get).record(ticks_of_us(900), 1000);
  s.latency.add(counters);
  History history;
  history.add(s, begin, 0);
  counters.of(Command::get).record(ticks_of_us(10), 99);
  counters.of(Command::get).record(ticks_of_us(200), 1);
  s.latency = {};
  s.latency.add(counters);
  history.add(s, begin + seconds(1), 1);
  EXPECT_NEAR(history.points().back().p50_us, 10, 10 * histogram::error_max + 0.01);
  EXPECT_NEAR(history.points().back().p999_us, 200, 200 * histogram::error_max + 0.01);
  const Json status = status_of(history);
  ASSERT_EQ(status["commands"].size(), 1u);
  EXPECT_EQ(status["commands"][0]["name"], "get");
  EXPECT_DOUBLE_EQ(status["commands"][0]["per_s"], 100);
  EXPECT_NEAR(status["commands"][0]["latency_us"]["p99"].get<double>(), 10, 1);
}

TEST(Status, SaysTheLastPointsAfterSince) {
  History history;
  for (std::uint64_t i = 0; i <= 5; ++i)
    history.add(snapshot_with(i * 10, 0), begin + seconds(i), static_cast<double>(i));
  EXPECT_EQ(status_of(history)["points"].size(), 5u);
  EXPECT_EQ(status_of(history, 3)["points"].size(), 2u);
  EXPECT_EQ(status_of(history, 3)["points"][0]["time_s"], 4);
  EXPECT_EQ(status_of(history, 5)["points"].size(), 0u);
  // A page that asks for points beyond the last one talks to a restarted server.
  EXPECT_EQ(status_of(history, std::numeric_limits<std::uint64_t>::max())["points"].size(), 5u);
}

TEST(Status, SaysTheCoarsePointsThatEndedAfterSince) {
  History history;
  for (std::uint64_t i = 0; i <= 35; ++i)
    history.add(snapshot_with(i * 10, 0), begin + seconds(i), static_cast<double>(i));
  const auto told = [&history](std::uint64_t since) {
    std::vector<double> times;
    const Json status = status_of(history, since);
    for (const Json& point : status["points_10s"]) times.push_back(point["time_s"]);
    return times;
  };
  EXPECT_EQ(told(0), (std::vector<double>{10, 20, 30}));
  EXPECT_EQ(told(9), (std::vector<double>{10, 20, 30}));
  EXPECT_EQ(told(10), (std::vector<double>{20, 30}));
  EXPECT_EQ(told(29), (std::vector<double>{30}));
  EXPECT_EQ(told(30), (std::vector<double>{}));
  EXPECT_EQ(told(36).size(), 3u) << "a page that has seen more talks to a server that was started anew";
}

TEST(Status, PutsTheClassWithTheMostMemoryFirst) {
  net::ServerSnapshot s = snapshot_with(0, 0);
  const auto size_class = [](std::uint32_t slot_bytes, std::uint64_t pages) {
    ClassStats c{};
    c.slot_bytes = slot_bytes;
    c.pages = pages;
    return c;
  };
  s.engine.classes = {size_class(64, 1), size_class(96, 7), size_class(128, 0), size_class(192, 1), size_class(256, 2)};
  History history;
  history.add(s, begin, 0);
  std::vector<int> slots;
  const Json status = status_of(history);
  for (const Json& c : status["memory"]["classes"]) slots.push_back(c["slot_bytes"]);
  EXPECT_EQ(slots, (std::vector<int>{96, 256, 192, 64}));
}

TEST(Status, ShowsAllTasksAndTheirProcessors) {
  History history;
  net::ServerSnapshot s = snapshot_with(0, 0);
  s.ran.queries[index_of(Task::search)] = {90, 5};  // before the window
  history.add(s, begin, 0);
  s.task_costs[static_cast<std::size_t>(Task::send)] = {.cycles = 3000, .queries = 10};
  s.task_costs[static_cast<std::size_t>(Task::search)] = {.cycles = 1000, .queries = 10};
  s.ran.queries[index_of(Task::search)] = {91, 14};
  s.ran.queries[index_of(Task::key_compare)] = {10, 0};
  history.add(s, begin + seconds(1), 1);
  const Json tasks = status_of(history)["tasks"];
  EXPECT_DOUBLE_EQ(tasks[index_of(Task::search)]["device_share"], 0.9);
  EXPECT_DOUBLE_EQ(tasks[index_of(Task::key_compare)]["device_share"], 0);
  ASSERT_EQ(tasks.size(), task_count);
  for (std::size_t t = 0; t < task_count; ++t) {
    EXPECT_EQ(tasks[t]["name"], task_names[t]);
    EXPECT_EQ(tasks[t]["processor"], static_cast<Task>(t) == Task::search ? "device" : "cpu");
  }
  EXPECT_DOUBLE_EQ(tasks[static_cast<std::size_t>(Task::send)]["share"], 0.75);
  EXPECT_NEAR(tasks[static_cast<std::size_t>(Task::send)]["ns_per_query"].get<double>(), 300 * ns_per_tick(), 0.01);
}

TEST(Status, KeysOfAnyBytesAreSafe) {
  History history;
  history.add(snapshot_with(0, 0), begin, 0);
  const HotKeys hot{.keys = {{.key = "<b>\"\\\x01\xff é", .share = 0.5, .share_error = 0.1}}, .samples = 3};
  EXPECT_EQ(status_of(history, 0, hot)["hot_keys"]["keys"][0]["key"], "%3Cb%3E%22%5C%01%FF%20%C3%A9");
}

TEST(Since, IsANumberOrNothing) {
  EXPECT_EQ(since_of(""), 0u);
  EXPECT_EQ(since_of("since=17"), 17u);
  EXPECT_EQ(since_of("a=b&since=17&c"), 17u);
  EXPECT_EQ(since_of("&&&x"), 0u);
  for (const char* bad : {"since=", "since=x", "since=-1", "since=1x", "since=99999999999999999999", "since=%31"})
    EXPECT_EQ(since_of(bad), std::nullopt) << bad;
}

TEST(Hosts, OfLoopback) {
  for (const char* good :
       {"localhost", "localhost:9150", "127.0.0.1", "127.0.0.1:80", "127.9.9.9", "[::1]", "[::1]:9150"})
    EXPECT_TRUE(is_host_of_loopback(good)) << good;
  for (const char* bad : {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:9150", "128.0.0.1",
                          "127.0.0", "[::2]", "[::1", "[", ":", "xlocalhost"})
    EXPECT_FALSE(is_host_of_loopback(bad)) << bad;
}

TEST(HttpServer, SaysWhatIsWrongWithAnAddress) {
  const auto nothing = [](std::string_view, std::string_view) { return HttpReply{}; };
  HttpServer first("127.0.0.1:0", nothing);
  ASSERT_GT(first.port(), 0);
  const std::string taken = "127.0.0.1:" + std::to_string(first.port());
  try {
    const HttpServer second(taken, nothing);
    ADD_FAILURE() << "two servers on " << taken;
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find(taken), std::string::npos) << error.what();
  }
  EXPECT_THROW(HttpServer("127.0.0.1:70000", nothing), std::invalid_argument);
  EXPECT_THROW(HttpServer("127.0.0.1:x", nothing), std::invalid_argument);
  EXPECT_THROW(HttpServer("no.such.host.invalid:1", nothing), std::runtime_error);
}

TEST(Page, HasItsFiles) {
  for (const char* path : {"/", "/index.html", "/style.css", "/script.js", "/charts.js"}) {
    const auto file = page_file(path);
    ASSERT_TRUE(file) << path;
    EXPECT_GT(file->text.size(), 500u);
    // It works offline: no resource is loaded from elsewhere.
    EXPECT_EQ(file->text.find("https://"), std::string_view::npos) << path;
    EXPECT_EQ(file->text.find("src=\"http"), std::string_view::npos) << path;
  }
  EXPECT_FALSE(page_file("/../etc/passwd"));
  EXPECT_FALSE(page_file(""));
}

TEST(Metrics, CountersAndHistograms) {
  net::ServerSnapshot s = snapshot_with(7, 5);
  s.engine.counters.get_misses = 2;
  LatencyCounters counters;
  counters.of(Command::mg).record(static_cast<std::uint64_t>(40'000 / ns_per_tick()), 16);
  s.latency.add(counters);
  const HotKeys hot{.keys = {{.key = "k", .share = 0.25, .share_error = 0}}, .samples = 4};
  const std::string text = metrics_text(s, hot, "9.9", "abc");
  for (const char* line :
       {"tandem_commands_total{command=\"get\",result=\"hit\"} 5\n",
        "tandem_commands_total{command=\"get\",result=\"miss\"} 2\n",
        "tandem_command_duration_seconds_count{command=\"mg\"} 16\n",
        "tandem_command_duration_seconds_bucket{command=\"mg\",le=\"2.5e-05\"} 0\n",
        "tandem_command_duration_seconds_bucket{command=\"mg\",le=\"5e-05\"} 16\n",
        "tandem_task_processor{task=\"Search\",processor=\"cpu\"} 1\n",
        "tandem_build_info{version=\"9.9\",commit=\"abc\"} 1\n", "tandem_hot_key_share{rank=\"1\"} 0.25\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  const std::string exported = exporter_metrics_text(s, "1.6.18");
  for (const char* line : {"memcached_commands_total{command=\"get\",status=\"hit\"} 5\n",
                           "memcached_commands_total{command=\"get\",status=\"miss\"} 2\n",
                           "memcached_version{version=\"1.6.18\"} 1\n", "memcached_up 1\n"})
    EXPECT_NE(exported.find(line), std::string::npos) << line << exported;
  s.hot_keys_enabled = false;
  EXPECT_EQ(metrics_text(s, {}, "9.9", "abc").find("hot_key"), std::string::npos);
}

}  // namespace
}  // namespace tandem::monitor
