#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "bench/engine/engine.hpp"
#include "bench/engine/tape.hpp"
#include "bench/engine/test_support.hpp"
#include "bench/engine/wire.hpp"
#include "device/sim/sim_device.hpp"

namespace tandem::bench {
namespace {

TEST(BenchEngine, BatchesByTheCycle) {
  EngineSettings settings = quick({"K8-G95-U"});
  settings.plan = "mega-kv-sim";
  settings.threads = {1};
  settings.ops = 2000;
  settings.cycles_us = {50, 100};
  settings.batches_per_us = {1, 4};
  Json document = new_document();
  const Json cells = run_engine(settings, document);
  EXPECT_EQ(errors_of(document), "");
  std::vector<std::string> names;
  for (const Json& cell : cells) names.push_back(cell["cell"]);
  EXPECT_EQ(names, (std::vector<std::string>{"K8-G95-U b50 t1 c50", "K8-G95-U b200 t1 c50", "K8-G95-U b100 t1 c100",
                                             "K8-G95-U b400 t1 c100"}));
  EXPECT_NE(command_line(settings).find("--batch-per-us 1,4"), std::string::npos);
}

// --- plans that take turns

TEST(BenchPlans, AreReadWithTheirThreadsAndBatch) {
  EXPECT_EQ(parse_plan_choice("frames:15x16384"), (PlanChoice{"frames", 15, 16384}));
  EXPECT_EQ(parse_plan_choice("auto:16"), (PlanChoice{"auto", 16, 0}));
  EXPECT_EQ(parse_plan_choice("auto:16x2048").text(), "auto:16x2048");
  const PlanChoice with_range = parse_plan_choice("CPU[RV PP MM] GPU[S]{0:4} CPU[S]{4:} CPU[I D KC RD WR SD]:2x512");
  EXPECT_EQ(with_range.plan, "CPU[RV PP MM] GPU[S]{0:4} CPU[S]{4:} CPU[I D KC RD WR SD]");
  EXPECT_EQ(with_range.batch, 512U);
  for (const char* const text : {"", "cpu", "cpu:", "cpu:2", "cpu:0x64", "cpu:2x0", "cpu:2x", "cpu:x64", "cpu:-1x64",
                                 "cpu:2x64x3", "cpu:2 x64", "cpu:4294967296x1", ":1x64", "auto:", "auto:0", "auto:1x"})
    EXPECT_THROW(parse_plan_choice(text), std::invalid_argument) << text;
}

EngineSettings quick_plans(const std::vector<std::string>& plans) {
  EngineSettings settings = quick({"K8-G95-S"});
  const EngineSettings usual;
  settings.threads = usual.threads;
  settings.batches = usual.batches;
  settings.simulate = true;
  for (const std::string& plan : plans) settings.plans.push_back(parse_plan_choice(plan));
  return settings;
}

// Every reply is compared by the run itself.
TEST(BenchPlans, TakeTurnsAndAreComparedWithTheBestConstantOne) {
  const std::vector<std::string> plans = {"cpu:2x64",     "mirrored:1x64", "located:1x256",
                                          "frames:1x512", "mega-kv:1x64",  "auto:1"};
  EngineSettings settings = quick_plans(plans);
  settings.workloads = {"K8-G95-U", "K128-G50-S"};
  settings.rounds = 2;
  Json document = new_document();
  const Json cells = run_engine(settings, document);
  EXPECT_EQ(errors_of(document), "");
  ASSERT_EQ(cells.size(), 2U);
  for (const Json& cell : cells) {
    ASSERT_EQ(cell["subjects"].size(), plans.size());
    double most = 0;
    std::string best;
    for (const Json& subject : cell["subjects"]) {
      const double median = subject["ops_per_s"]["median"];
      if (subject["subject"] != "auto:1" && median > most) {
        best = subject["subject"];
        most = median;
      }
    }
    EXPECT_EQ(cell["best"], best);
    EXPECT_EQ(cell["comparisons"].size(), plans.size() - 1);
    for (const Json& comparison : cell["comparisons"]) EXPECT_EQ(comparison["base"], best);
  }
  std::vector<std::string> order;
  for (const Json& run : document["runs"]) {
    if (!run["cell"].get<std::string>().ends_with(" plans")) continue;
    const std::string name = run["subject"];
    const Json &s = run["settings"], &result = run["result"];
    order.push_back(name);
    EXPECT_EQ(fmt::format("{}:{}x{}", s["plan"].get<std::string>(), s["threads"].get<int>(), s["batch"].get<int>()),
              name == "auto:1" ? "auto:1x512" : name);
    EXPECT_EQ(result["ops"], s["threads"].get<int>() * 3000);
    EXPECT_EQ(result["hits"], result["gets"]);
    EXPECT_EQ(result.contains("device"), name != "cpu:2x64") << name;
    ASSERT_EQ(result.contains("planner"), name == "auto:1") << name;
    if (name == "auto:1") {
      EXPECT_NE(std::ranges::find(plan_reason_names, result["planner"]["reason"].get<std::string>()),
                plan_reason_names.end());
    }
    // Of keys that are located or read whole, those of the reads alone.
    if (name != "cpu:2x64" && name != "auto:1" && s["workload"] == "K8-G95-U") {
      EXPECT_GT(result["device"]["searched"], result["gets"].get<int>() / 2) << name;
    }
  }
  ASSERT_EQ(order.size(), 4 * plans.size());
  const auto half = order.begin() + static_cast<std::ptrdiff_t>(plans.size());
  EXPECT_TRUE(std::equal(plans.begin(), plans.end(), order.begin()));
  EXPECT_TRUE(std::equal(plans.rbegin(), plans.rend(), half));
  EXPECT_NE(command_line(settings).find(" --plans cpu:2x64,mirrored:1x64,"), std::string::npos);
  EXPECT_NE(plans_rows(cells[0]).find("| best |"), std::string::npos);
  EXPECT_NE(plans_rows(cells[0]).find(" turns "), std::string::npos);
  EXPECT_NE(plans_means(cells).find("over 2 workloads"), std::string::npos);
}

TEST(BenchPlans, ThatCannotTakeTurnsAreRefused) {
  const auto refused = [](const EngineSettings& settings) {
    EXPECT_THROW(validate(settings), std::invalid_argument) << command_line(settings);
  };
  EXPECT_NO_THROW(validate(quick_plans({"cpu:1x64", "auto:1"})));
  refused(quick_plans({"auto:1"}));
  refused(quick_plans({"cpu:1x64", "cpu:1x64", "auto:1"}));
  refused(quick_plans({"frames:1x64", "auto:1", "auto:2"}));
  refused(quick_plans({"cpu:1x64"}));  // with nothing to simulate
  refused(quick_plans({"frames:129x64"}));
  refused(quick_plans({"frames:1x16385"}));
  refused(quick_plans({"gpu:1x64"}));
  EngineSettings settings = quick_plans({"cpu:1x64", "frames:1x64"});
  settings.threads = {2};
  refused(settings);
  settings = quick_plans({"cpu:1x64", "frames:1x64"});
  settings.rates = {1e6};
  refused(settings);
  settings = quick_plans({"cpu:1x64", "frames:1x64"});
  settings.subjects = {"wire", "embedded"};
  refused(settings);
}

// A connection has no two batches under way, one with a device and one with the host.
TEST(BenchPlans, TheHostAnswersWhatADeviceHasFirst) {
  Engine engine({.memory_bytes = std::uint64_t{16} << 20,
                 .devices = {make_sim_device()},
                 .scheduler = {.queries_min = 64},
                 .device_values = {.bytes = std::uint64_t{1} << 20}});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!engine.schedulers()->serves() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  workload::Spec spec = workload::preset("K8-G100-U");
  spec.keys = 256;
  const workload::KeySpace keys(spec);
  const Tape sets(keys, WireProtocol::text, 0, 256, 256);
  const Tape large(spec, keys, WireProtocol::text, 0, 1, 128, {.ops = 128}),
      small(spec, keys, WireProtocol::text, 0, 1, 16, {.ops = 16});
  WireDriver driver(engine, automatic_plan({}, true), WireProtocol::text, 256,
                    std::max(sets.batch_bytes_max(), large.batch_bytes_max()));
  std::string replies;
  driver.keep_replies(&replies);
  driver.run(sets.batch(0));
  driver.finish();
  replies.clear();
  EXPECT_FALSE(driver.asks_device(63));
  ASSERT_TRUE(driver.asks_device(64));
  EXPECT_EQ(driver.run(large.batch(0)).queries, 0U);
  EXPECT_EQ(driver.run(small.batch(0)).queries, 144U);
  ReplyErrors errors;
  std::vector<WireOp> all(large.ops().begin(), large.ops().end());
  all.insert(all.end(), small.ops().begin(), small.ops().end());
  large.format().check(all, replies, errors);
  EXPECT_EQ(errors.count(), 0U) << errors.first;
}

}  // namespace
}  // namespace tandem::bench
