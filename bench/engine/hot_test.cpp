// Plan kvcg: hot keys are answered by the host ahead of the device, and each class has latencies of its own.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/engine/engine.hpp"
#include "bench/engine/test_support.hpp"
#include "router/hot_model.hpp"

namespace tandem::bench {
namespace {

EngineSettings quick_hot(const std::string& plan) {
  EngineSettings settings = quick({"K8-G95-S"});
  settings.plan = plan;
  settings.protocol = WireProtocol::udp;
  settings.keys = 5000;
  settings.ops = 20'000;
  settings.tape.ops = 20'000;
  return settings;
}

// Fifty of 5,000 keys have more than a third of the requests with theta 0.99.
TEST(BenchHotKeys, GivenOnesHaveLatenciesOfTheirOwn) {
  EngineSettings settings = quick_hot("kvcg-sim=0.01");
  std::uint64_t by_store = 0, by_histograms = 0;
  EngineHooks hooks;
  hooks.turn = [&](Engine& engine, unsigned) {
    const std::uint64_t before = engine.counters().hot_queries;
    return [&, before] {
      by_store = engine.counters().hot_queries - before;
      by_histograms = engine.hot_key_stats()->latency.hot.count();
      return Json();
    };
  };
  Json document = new_document();
  run_engine(settings, document, hooks);
  EXPECT_EQ(errors_of(document), "");
  const std::vector<Json> runs = runs_of(document, subject_wire);
  ASSERT_EQ(runs.size(), 1U);
  const Json &result = runs[0]["result"], &hot = result["hot"], &cold = result["cold"];
  EXPECT_GT(hot["share"], 0.3);
  EXPECT_LT(hot["share"], 0.6);
  EXPECT_NEAR(hot["share"].get<double>() + cold["share"].get<double>(), 1, 1e-9);
  EXPECT_GE(hot["keys"], 45);
  EXPECT_LE(hot["keys"], 50);
  const std::uint64_t hot_count = hot["latency_us"]["count"], cold_count = cold["latency_us"]["count"];
  EXPECT_EQ(hot_count + cold_count, result["latency_us"]["count"]);
  EXPECT_NEAR(static_cast<double>(by_store), static_cast<double>(hot_count), 256);
  EXPECT_GT(by_histograms, 0U);  // by which the router is steered
  for (const char* const value : {"mean", "p50", "p99"}) EXPECT_LT(hot["latency_us"][value], cold["latency_us"][value]);
  std::uint64_t in_buckets = 0;
  for (const Json& count : hot["histogram"]["counts"]) in_buckets += count.get<std::uint64_t>();
  EXPECT_EQ(in_buckets, hot_count);
  // What is hot is not searched for there.
  EXPECT_LT(result["device"]["searched"], result["ops"].get<double>() * 0.7);
}

TEST(BenchHotKeys, AreLearntWithAThresholdUnlessItIsTooHigh) {
  for (const auto& [plan, is_hot] : {std::pair("kvcg-sim@0.005", true), std::pair("kvcg-sim@1", false)}) {
    Json document = new_document();
    run_engine(quick_hot(plan), document);
    EXPECT_EQ(errors_of(document), "");
    const Json hot = runs_of(document, subject_wire)[0]["result"]["hot"];
    EXPECT_EQ(hot.contains("latency_us"), is_hot) << plan;
    EXPECT_EQ(hot["keys"] != 0, is_hot) << plan;
    EXPECT_EQ(hot["share"] > 0.05, is_hot) << plan;
  }
}

TEST(BenchHotKeys, TakeTurnsWithOtherPlans) {
  EngineSettings settings = quick_hot("cpu");
  const EngineSettings usual;
  settings.threads = usual.threads;
  settings.batches = usual.batches;
  settings.simulate = true;
  for (const char* const plan : {"cpu:1x64", "kvcg@1:1x64", "kvcg=0.01:1x64", "mega-kv:1x64"})
    settings.plans.push_back(parse_plan_choice(plan));
  Json document = new_document();
  const Json cells = run_engine(settings, document);
  EXPECT_EQ(errors_of(document), "");
  ASSERT_EQ(cells[0]["subjects"].size(), 4U);
  for (const Json& run : document["runs"]) {
    const std::string subject = run["subject"];
    EXPECT_EQ(run["result"].contains("hot"), subject.starts_with("kvcg")) << subject;
    if (subject == "kvcg=0.01:1x64") {
      EXPECT_GT(run["result"]["hot"]["share"], 0.3);
    } else if (subject == "kvcg@1:1x64") {
      EXPECT_EQ(run["result"]["hot"]["share"], 0);
    }
  }
}

// From the first request on, while the ranks shift.
TEST(BenchHotKeys, HaveATimelineOfBothClasses) {
  EngineSettings settings = quick_hot("kvcg-sim=0.01");
  settings.from_start = true;
  settings.timeline_every_s = 0.002;
  settings.shift_ops = 10'000;
  settings.shift_keys = 2500;
  Json document = new_document();
  run_engine(settings, document);
  EXPECT_EQ(errors_of(document), "");
  const Json run = runs_of(document, subject_wire)[0];
  const Json& result = run["result"];
  EXPECT_EQ(run["settings"]["shift_ops"], 10'000);
  EXPECT_EQ(result["verified"], 20'000);  // once
  const auto requests = [&](const Json& timeline) {
    double sum = 0;
    for (const Json& at : timeline) sum += at["ops_per_s"].get<double>() * settings.timeline_every_s;
    return std::llround(sum);
  };
  EXPECT_EQ(requests(result["timeline"]), result["latency_us"]["count"]);
  EXPECT_EQ(requests(result["hot"]["timeline"]) + requests(result["cold"]["timeline"]), requests(result["timeline"]));
  EXPECT_EQ(result["hot"]["timeline"].size(), result["cold"]["timeline"].size());
  const std::string line = command_line(settings);
  for (const char* const part : {"--shift-ops 10000 --shift-keys 2500", "--from-start", "--timeline 2ms"})
    EXPECT_NE(line.find(part), std::string::npos) << line;
}

TEST(BenchHotKeys, WhatHasNoneOrWouldNotAnswerThemIsRefused) {
  for (const char* const plan : {"kvcg@0", "kvcg@", "kvcg=1.5", "kvcg=x", "kvcg@0.1x", "mega-kv@0.1", "cpu=0.1", "@1"})
    EXPECT_THROW(static_cast<void>(engine_plan(plan)), std::invalid_argument) << plan;
  EXPECT_EQ(engine_plan("kvcg-sim@1.3e-05").hot_threshold, 1.3e-5);
  EXPECT_EQ(engine_plan("kvcg=1", true).hot_share, 1);
  EngineSettings settings = quick_hot("kvcg-sim");
  EXPECT_NO_THROW(validate(settings));
  settings.protocol = WireProtocol::text;
  EXPECT_THROW(validate(settings), std::invalid_argument);
}

}  // namespace
}  // namespace tandem::bench
