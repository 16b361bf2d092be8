// Rates in an open loop, timelines of latencies, and GETs that miss.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "bench/engine/test_support.hpp"
#include "bench/engine/timeline.hpp"
#include "bench/workload/keys.hpp"

namespace tandem::bench {
namespace {

using namespace std::string_literals;

TEST(LatencyTimeline, SortsByTheTimeOfReceipt) {
  LatencyTimeline one(1000, 10), other(1000, 10);
  one.add(1000, 7, 2);
  one.add(1009, 100, 1);  // answered long after its stretch
  one.add(1025, 3, 4);
  other.add(1031, 1, 1);
  other.add(1010, 5, 1);
  std::vector<LatencyTimeline::Stretch> all;
  one.add_to(all);
  other.add_to(all);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].requests, 3U);
  EXPECT_EQ(all[0].ticks, 114U);
  EXPECT_EQ(all[0].ticks_max, 100U);
  EXPECT_EQ(all[1].ticks, 5U);
  EXPECT_EQ(all[2].ticks, 12U);
  EXPECT_EQ(all[3].requests, 1U);
}

// With devices, too: their answers are handed over while the next batch is waited for.
TEST(OpenLoop, OffersTheRateAndNoMore) {
  for (const std::string plan : {"cpu", "frames-sim"}) {
    SCOPED_TRACE(plan);
    EngineSettings settings = quick({"K16-V2-G100-U"});
    settings.plan = plan;
    settings.batches = {16};
    settings.ops = 2000;
    settings.rates = {20'000};  // a batch each 0.8 ms
    settings.timeline_every_s = 0.01;
    Json document = new_document();
    const Json cells = run_engine(settings, document);
    EXPECT_EQ(errors_of(document), "");
    const std::vector<Json> runs = runs_of(document, "tandem");
    ASSERT_EQ(runs.size(), 1U);
    EXPECT_EQ(runs[0]["settings"]["rate"], 20'000);
    EXPECT_NE(runs[0]["command"].get<std::string>().find(" --rate 20000"), std::string::npos);
    const Json& result = runs[0]["result"];
    EXPECT_EQ(result["ops"], 2000);
    // The last batch is received 99.2 ms after the first one, however busy the machine is.
    EXPECT_GE(result["seconds"].get<double>(), 0.099);
    EXPECT_LE(result["ops_per_s"].get<double>(), 20'250);
    double received = 0;
    for (const Json& stretch : result["timeline"]) received += stretch["ops_per_s"].get<double>() * 0.01;
    EXPECT_NEAR(received, 2000, 1e-6);
    EXPECT_EQ(result["latency_us"]["count"], 2000);
    EXPECT_GE(result["latency_us"]["max"], result["latency_us"]["p50"]);
    EXPECT_EQ(cells[0]["rate"], 20'000);
    EXPECT_NE(engine_rates(cells).find("0.02 M ops/s offered, K16-V2-G100-U"), std::string::npos)
        << engine_rates(cells);
  }
}

// Latencies begin when a batch is due: a store that cannot keep up is late by all that has gathered.
TEST(OpenLoop, LateBatchesCountFromWhenTheyWereDue) {
  EngineSettings settings = quick({"K16-V2-G100-U"});
  settings.ops = 100'000;
  settings.rates = {1e12};
  Json document = new_document();
  run_engine(settings, document);
  const Json result = runs_of(document, "tandem")[0]["result"];
  const double all_us = result["seconds"].get<double>() * 1e6;
  EXPECT_GE(result["latency_us"]["max"].get<double>(), 0.9 * all_us);
  const double batch_us = all_us / result["batches"].get<double>();
  EXPECT_GE(result["latency_us"]["p50"].get<double>(), 20 * batch_us);
}

TEST(OpenLoop, HooksAddToTheResultOfTheirTurn) {
  EngineSettings settings = quick({"K16-V2-G100-U"});
  settings.rounds = 3;
  std::vector<unsigned> began, ended;
  EngineHooks hooks;
  hooks.turn = [&](Engine&, unsigned round) {
    EXPECT_EQ(began.size(), ended.size());
    began.push_back(round);
    return [&ended, round] {
      ended.push_back(round);
      return Json{{"energy", {{"joules", round}}}};
    };
  };
  Json document = new_document();
  run_engine(settings, document, hooks);
  EXPECT_EQ(began, (std::vector<unsigned>{0, 1, 2}));
  EXPECT_EQ(ended, began);
  for (const Json& run : runs_of(document, "tandem")) EXPECT_EQ(run["result"]["energy"]["joules"], run["round"]);
}

TEST(Misses, AreTheShareThatWasAskedForInEachProtocol) {
  for (const WireProtocol protocol :
       {WireProtocol::text, WireProtocol::meta, WireProtocol::binary, WireProtocol::udp, WireProtocol::raw}) {
    SCOPED_TRACE(std::string(to_string(protocol)));
    EngineSettings settings = quick({"K16..40-V2-G90-U"});
    settings.protocol = protocol;
    settings.miss_share = 0.15;
    settings.ops = 20'000;
    Json document = new_document();
    run_engine(settings, document);
    EXPECT_EQ(errors_of(document), "");
    const Json run = runs_of(document, "tandem")[0];
    EXPECT_EQ(run["settings"]["miss_share"], 0.15);
    EXPECT_NEAR(run["result"]["misses"].get<double>(), 20'000 * 0.9 * 0.15, 200);
    EXPECT_NE(run["command"].get<std::string>().find(" --misses 0.15"), std::string::npos);
  }
}

TEST(Misses, AValueOfAKeyThatWasNeverStoredIsWrong) {
  workload::Spec spec = workload::preset("K16-V2-G100-U");
  spec.keys = 500;
  const workload::KeySpace keys(spec);
  const WireFormat format(WireProtocol::text, keys);
  std::string key(16, '\0'), value(2, '\0');
  keys.write_key(700, key.data());
  keys.write_value(700, value.data());
  const std::vector<WireOp> ops = {WireOp::miss(700)};
  EXPECT_EQ(format.reply_bytes(ops[0]), "END\r\n"s.size());
  ReplyErrors errors;
  format.check(ops, "END\r\n", errors);
  EXPECT_EQ(errors.count(), 0U);
  format.check(ops, "VALUE " + key + " 0 2\r\n" + value + "\r\nEND\r\n", errors);
  EXPECT_EQ(errors.wrong_values, 1U);
}

TEST(OpenLoop, WhatMakesNoSenseIsRefused) {
  const auto why = [](auto change) -> std::string {
    EngineSettings settings = quick({"K16-V2-G100-U"});
    change(settings);
    try {
      validate(settings);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "nothing";
  };
  EXPECT_EQ(why([](EngineSettings& s) { s.rates = {0, 1e6}; }), "nothing");
  EXPECT_NE(why([](EngineSettings& s) { s.rates = {}; }).find("no rate"), std::string::npos);
  EXPECT_NE(why([](EngineSettings& s) { s.rates = {-1}; }).find("at least 64"), std::string::npos);
  EXPECT_NE(why([](EngineSettings& s) { s.rates = {63}; }).find("at least 64"), std::string::npos);
  EXPECT_NE(why([](EngineSettings& s) {
              s.rates = {1e6};
              s.subjects = {};
            }).find("--subjects wire"),
            std::string::npos);
  EXPECT_NE(why([](EngineSettings& s) { s.miss_share = 1.5; }).find("0 to 1"), std::string::npos);
  EXPECT_NE(why([](EngineSettings& s) {
              s.workloads = {"ycsb-d"};
              s.miss_share = 0.5;
            }).find("inserts"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem::bench
