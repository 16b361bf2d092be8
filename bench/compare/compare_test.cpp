#include "bench/compare/compare.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>

#include "bench/compare/load_child.hpp"
#include "bench/compare/results.hpp"

namespace tandem::bench {
namespace {

// Real servers, which only have to start; their measurements are invented.
Peer server_called(const std::string& name) {
  const std::string user = geteuid() == 0 ? " -u root" : "";
  return parse_peer(name + "=memcached -l 127.0.0.1 -p {port} -U {udp_port} -m {memory} -t {threads}" + user,
                    Dialect::memcached);
}

std::string option_of(const std::vector<std::string>& command, std::string_view name) {
  const auto found = std::ranges::find(command, name);
  return found == command.end() || found + 1 == command.end() ? "" : *(found + 1);
}

struct Answer {
  double ops_per_s = 1000, latency_us = 100, lag_us = 1;
  Json errors = {{"wrong_values", 0}, {"wrong_replies", 0}, {"unexpected_misses", 0},
                 {"timeouts", 0},     {"connection", 0},    {"first", ""}};
  int exit_code = 0;
};

// A load generator that invents its figures, and records its commands.
class FakeLoad {
 public:
  std::vector<std::vector<std::string>> commands;  // without those that set keys
  int preloads = 0;
  std::function<Answer(const std::string& server, double rate)> answer = [](const std::string&, double) {
    return Answer{};
  };

  std::function<ProgramResult(const std::vector<std::string>&, const std::vector<int>&)> function() {
    return [this](const std::vector<std::string>& command, const std::vector<int>&) { return run(command); };
  }

 private:
  ProgramResult run(const std::vector<std::string>& command) {
    if (std::ranges::find(command, "--preload") != command.end()) {
      ++preloads;
      return {};
    }
    commands.push_back(command);
    const std::string rate = option_of(command, "--rate");
    const Answer a = answer(option_of(command, "--connect"), rate.empty() ? 0 : std::stod(rate));
    const Json percentiles{{"p50", a.latency_us}, {"p99", a.latency_us}, {"p99.9", a.latency_us}};
    const Json document{{"runs",
                         {{{"settings", {{"rate", rate.empty() ? 0 : std::stod(rate)}, {"udp", false}}},
                           {"result",
                            {{"ops", 1000},
                             {"ops_per_s", a.ops_per_s},
                             {"errors", a.errors},
                             {"latency_us", percentiles},
                             {"send_lag_us", {{"p99.9", a.lag_us}}},
                             {"server", {{"cpu_us_per_op", 2.0}}}}}}}}};
    return {a.exit_code << 8, document.dump(), a.exit_code == 0 ? "" : "tandem: bench load: something is wrong\n"};
  }
};

class CompareTest : public testing::Test {
 protected:
  CompareTest() {
    options_.peers = {server_called("a"), server_called("b"), server_called("c")};
    options_.cells = choose_cells(named_cells({}), "text-p1");
    options_.rounds = 3;
    options_.tail_rounds = 0;
    options_.server_processors = options_.load_processors = place_here(1).server;
    options_.run_load = load_.function();
  }

  void run() { EXPECT_EQ(failures(), std::vector<std::string>{}); }
  std::vector<std::string> failures() { return compare(options_, document_); }
  // Of a comparison of servers that all fail alike; in the words of the first.
  std::string message_of_failure() {
    const std::vector<std::string> all = failures();
    EXPECT_EQ(all.size(), options_.peers.size());
    EXPECT_EQ(document_["notes"].size(), all.size());
    return all.empty() ? "nothing failed" : all.front();
  }
  std::vector<std::string> subjects() const {
    std::vector<std::string> names;
    for (const Json& run : document_["runs"]) names.push_back(run["subject"]);
    return names;
  }

  CompareOptions options_;
  FakeLoad load_;
  Json document_;
};

TEST_F(CompareTest, EachRoundBeginsWithAnother) {
  run();
  EXPECT_EQ(subjects(), (std::vector<std::string>{"a", "b", "c", "b", "c", "a", "c", "a", "b"}));
  EXPECT_EQ(load_.preloads, 3);
  EXPECT_EQ(document_["runs"][3]["round"], 1);
  // The tables keep the given order.
  EXPECT_EQ(Results(document_["runs"], phase_closed).subjects(), (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(CompareTest, TheLoadIsTheSameForAll) {
  options_.cells = choose_cells(named_cells({}), "text-p16,meta-mget50,udp-p16");
  run();
  std::map<std::string, std::vector<std::string>> of_cell;
  for (std::size_t i = 0; i < load_.commands.size(); ++i) {
    std::vector<std::string> words = load_.commands[i];
    const std::string cell = document_["runs"][i]["cell"];
    EXPECT_EQ(shell_line(words), document_["runs"][i]["command"].get<std::string>());
    // Only the server differs.
    EXPECT_NE(option_of(words, "--connect"), "");
    EXPECT_NE(option_of(words, "--server-pid"), "");
    for (auto at = words.begin(); at != words.end();)
      at = *at == "--connect" || *at == "--server-pid" ? words.erase(at, at + 2) : at + 1;
    const auto [first, is_new] = of_cell.try_emplace(cell, words);
    EXPECT_EQ(first->second, words);
  }
  EXPECT_EQ(of_cell.size(), 3U);
  EXPECT_EQ(option_of(of_cell["meta-mget50"], "--multiget"), "50");
  EXPECT_EQ(option_of(of_cell["meta-mget50"], "--protocol"), "meta");
  EXPECT_EQ(option_of(of_cell["text-p16"], "--pipeline"), "16");
  EXPECT_NE(std::ranges::find(of_cell["udp-p16"], "--udp"), of_cell["udp-p16"].end());
}

TEST_F(CompareTest, ServersStartAnewForOtherData) {
  CellLists lists;
  lists.value_bytes = {"64", "1024"};
  options_.cells = product(lists, {});
  options_.rounds = 1;
  run();
  EXPECT_EQ(load_.preloads, 6);
  EXPECT_EQ(document_["runs"].size(), 6U);
  EXPECT_NE(document_["runs"][0]["server_command"], document_["runs"][3]["server_command"]);
}

TEST_F(CompareTest, TheEqualRateFollowsTheSlowest) {
  std::string slow;
  load_.answer = [&](const std::string& server, double) {
    if (slow.empty()) slow = server;
    return Answer{.ops_per_s = server == slow ? 500.0 : 8000.0};
  };
  options_.tail_rounds = 2;
  run();
  const Results tails(document_["runs"], phase_equal_rate);
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_EQ(tails.runs_of("text-p1", name).size(), 2U);
    EXPECT_EQ((*tails.runs_of("text-p1", name)[0])["settings"]["rate"], 250);
  }
}

TEST_F(CompareTest, ASweepGoesUpToTheClosedLoop) {
  load_.answer = [&](const std::string&, double rate) { return Answer{.ops_per_s = rate > 0 ? rate : 4000}; };
  options_.sweep_points = 4;
  options_.rounds = 1;
  run();
  std::vector<double> rates;
  for (const Json* sweep : Results(document_["runs"], phase_sweep).runs_of("text-p1", "b"))
    rates.push_back((*sweep)["settings"]["rate"]);
  EXPECT_EQ(rates, (std::vector<double>{1000, 2000, 3000, 4000}));
}

TEST_F(CompareTest, FindsTheRateOfEach) {
  // `b` reaches half of the other servers' rate.
  std::vector<std::string> servers;
  load_.answer = [&](const std::string& server, double rate) {
    if (std::ranges::find(servers, server) == servers.end()) servers.push_back(server);
    const double capacity = servers.size() > 1 && server == servers[1] ? 5000 : 10'000;
    return Answer{.ops_per_s = 12'000, .latency_us = rate > capacity ? 9000.0 : 200.0};
  };
  options_.limit_us = 1000;
  options_.rounds = 1;
  run();
  ASSERT_EQ(document_["searches"].size(), 3U);
  for (const Json& search : document_["searches"]) {
    const double capacity = search["subject"] == "b" ? 5000 : 10'000;
    EXPECT_LE(search["highest_rate"], capacity);
    EXPECT_GE(search["highest_rate"], capacity / 1.05);
    EXPECT_EQ(search["end"], "found");
    EXPECT_EQ(search["percentile"], 99.9);
    // Each trial is a run.
    for (const Json& index : search["tried"]) {
      const Json& tried = document_["runs"][index.get<std::size_t>()];
      EXPECT_EQ(tried["phase"], phase_search);
      EXPECT_EQ(tried["subject"], search["subject"]);
      EXPECT_GT(tried["settings"]["rate"], 0);
    }
  }
}

TEST_F(CompareTest, AGeneratorThatWasLateVoidsATrial) {
  options_.peers = {server_called("a")};
  int runs = 0;
  load_.answer = [&](const std::string&, double rate) {
    const bool is_late = ++runs % 4 == 0;
    const double latency_us = rate > 10'000 ? 9000.0 : 200.0;
    return Answer{.ops_per_s = 12'000, .latency_us = latency_us + (is_late ? 5000 : 0), .lag_us = is_late ? 5000.0 : 1};
  };
  options_.limit_us = 1000;
  options_.rounds = 1;
  run();
  const Json& search = document_["searches"][0];
  EXPECT_EQ(search["end"], "found");
  EXPECT_NEAR(search["highest_rate"].get<double>(), 10'000, 500);
  EXPECT_GT(search["void"], 0);
  EXPECT_EQ(search["void_reason"], "the load generator itself was 5000 us late (p99.9 of its lag)");
}

TEST_F(CompareTest, TimeoutsVoidATrial) {
  options_.peers = {server_called("a")};
  load_.answer = [&](const std::string&, double rate) {
    Answer a{.ops_per_s = 12'000};
    if (rate > 7000) {
      a.errors["timeouts"] = 3;
      a.errors["first"] = "no reply within 5 s";
      a.exit_code = 1;
    }
    return a;
  };
  options_.limit_us = 1000;
  options_.rounds = 1;
  run();
  const Json& search = document_["searches"][0];
  EXPECT_EQ(search["end"], "the load generator or errors set the limit");
  EXPECT_NEAR(search["highest_rate"].get<double>(), 7000, 350);
  EXPECT_EQ(search["void_reason"], "no reply within 5 s");
}

TEST_F(CompareTest, WrongAnswersAreFailures) {
  options_.peers.resize(1);
  for (const char* error : {"wrong_values", "wrong_replies", "unexpected_misses", "timeouts", "connection"}) {
    load_.answer = [&](const std::string&, double) {
      Answer a;
      a.errors[error] = 1;
      a.exit_code = 1;
      return a;
    };
    const std::string message = message_of_failure();
    EXPECT_TRUE(message.starts_with("text-p1: a: ")) << message;
    EXPECT_NE(message.find("command: tandem bench load --connect 127.0.0.1:"), std::string::npos) << message;
    EXPECT_EQ(document_["runs"].size(),
              error == std::string("timeouts") || error == std::string("connection") ? 1U : 0U);
    document_ = {};
  }
}

TEST_F(CompareTest, AWrongAnswerEndsASearchToo) {
  options_.peers.resize(1);
  options_.limit_us = 1000;
  load_.answer = [&](const std::string&, double rate) {
    Answer a;
    if (rate > 0) a.errors["wrong_values"] = 1;
    a.exit_code = rate > 0 ? 1 : 0;
    return a;
  };
  EXPECT_EQ(message_of_failure().substr(0, 51), "text-p1: a: tandem: bench load: something is wrong\n");
  EXPECT_EQ(document_["runs"].size(), 3U);  // closed loops
}

TEST_F(CompareTest, LostDatagramsAreShown) {
  options_.cells = choose_cells(named_cells({}), "udp-p1");
  load_.answer = [&](const std::string&, double) {
    Answer a;
    a.errors["timeouts"] = 2;
    a.exit_code = 1;
    return a;
  };
  run();
  EXPECT_EQ(document_["runs"].size(), 9U);
}

TEST_F(CompareTest, AServerThatEndsIsShown) {
  options_.peers = {server_called("a")};
  load_.answer = [&](const std::string&, double) -> Answer {
    const std::string process = option_of(load_.commands.back(), "--server-pid");
    if (!process.empty()) kill(std::stoi(process), SIGKILL);
    Answer a;
    a.errors["connection"] = 1;
    a.exit_code = 1;
    return a;
  };
  const std::string message = message_of_failure();
  EXPECT_TRUE(message.starts_with("text-p1: a ended by signal 9 (Killed)")) << message;
}

TEST_F(CompareTest, AServerThatDoesNotStartIsShown) {
  options_.peers.push_back(parse_peer("d=echo cannot >&2; exit 7 # {port}", Dialect::memcached));
  options_.cells = choose_cells(named_cells({}), "text-p1,text-p16");
  const std::vector<std::string> all = failures();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_TRUE(
      all[0].starts_with("text-p1, text-p16: d ended with exit code 7; the end of its output:\ncannot\n  command: "))
      << all[0];
  EXPECT_EQ(document_["runs"].size(), 18U);
}

TEST_F(CompareTest, WhatTheGeneratorSaysIsShown) {
  options_.peers.resize(1);
  options_.run_load = [](const std::vector<std::string>& command, const std::vector<int>&) {
    const bool is_preload = std::ranges::find(command, "--preload") != command.end();
    return is_preload ? ProgramResult{} : ProgramResult{69 << 8, "", "tandem: bench load: no such thing\n"};
  };
  EXPECT_TRUE(message_of_failure().starts_with("text-p1: a: tandem: bench load: no such thing\n  command: "));
}

// One server fails once, in the second round of the first cell.
TEST_F(CompareTest, AFailureEndsOnlyWhatItsServerDoesInThatCell) {
  options_.cells = choose_cells(named_cells({}), "text-p1,text-p16");
  options_.tail_rounds = 1;
  load_.answer = [&](const std::string&, double) {
    Answer a;
    if (load_.commands.size() == 4) a.errors["wrong_values"] = a.exit_code = 1;  // b begins the second round
    return a;
  };
  const std::vector<std::string> all = failures();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_TRUE(all[0].starts_with("text-p1: b: tandem: bench load: something is wrong")) << all[0];
  EXPECT_EQ(document_["notes"], Json::array({"failed: " + all[0]}));
  const Results closed(document_["runs"], phase_closed), tails(document_["runs"], phase_equal_rate);
  const std::map<std::string, std::size_t> rounds = {{"a", 3}, {"b", 1}, {"c", 3}};
  for (const auto& [name, count] : rounds) {
    EXPECT_EQ(closed.runs_of("text-p1", name).size(), count) << name;
    EXPECT_EQ(tails.runs_of("text-p1", name).size(), count / 3) << name;
    EXPECT_EQ(closed.runs_of("text-p16", name).size(), 3U) << name;
    EXPECT_EQ(tails.runs_of("text-p16", name).size(), 1U) << name;
  }
  EXPECT_FALSE(document_["comparisons"].empty());
  EXPECT_EQ(load_.preloads, 3);  // no server had ended
}

TEST_F(CompareTest, AServerThatEndedStartsAgainForTheNextCell) {
  options_.cells = choose_cells(named_cells({}), "text-p1,text-p16");
  options_.peers = {server_called("a")};
  load_.answer = [&](const std::string&, double) {
    Answer a;
    if (load_.commands.size() == 2) {
      kill(std::stoi(option_of(load_.commands.back(), "--server-pid")), SIGKILL);
      a.errors["connection"] = a.exit_code = 1;
    }
    return a;
  };
  EXPECT_EQ(failures().size(), 1U);
  EXPECT_EQ(load_.preloads, 2);
  EXPECT_EQ(Results(document_["runs"], phase_closed).runs_of("text-p16", "a").size(), 3U);
}

TEST_F(CompareTest, WhatWasDoneBeforeAnInterruptIsKept) {
  load_.answer = [&](const std::string&, double) -> Answer {
    if (load_.commands.size() == 5) throw Interrupted(SIGINT);
    return {};
  };
  EXPECT_THROW(compare(options_, document_), Interrupted);
  EXPECT_EQ(document_["runs"].size(), 4U);
  EXPECT_FALSE(document_["comparisons"].empty());
}

TEST_F(CompareTest, CellsThatNobodySpeaksAreNoted) {
  options_.peers = {Peer{"x", Dialect::memcached, true, false, server_called("x").command}};
  options_.cells = choose_cells(named_cells({}), "text-p1,udp-p1");
  run();
  EXPECT_EQ(document_["notes"][0], "no server speaks what udp-p1 needs");
  EXPECT_EQ(document_["runs"].size(), 3U);
}

}  // namespace
}  // namespace tandem::bench
