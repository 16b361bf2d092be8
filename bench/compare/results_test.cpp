#include "bench/compare/results.hpp"

#include <gtest/gtest.h>

#include "bench/compare/rate_search.hpp"
#include "bench/compare/tables.hpp"

namespace tandem::bench {
namespace {

Json run_of(std::string_view cell, std::string_view subject, int place, int round, double cpu_us, double rate,
            std::string_view phase = phase_closed) {
  return {{"kind", "load"},
          {"cell", cell},
          {"subject", subject},
          {"place", place},
          {"round", round},
          {"phase", phase},
          {"settings", {{"key_bytes", "16"}, {"value_bytes", "64"}, {"keys", 1000}, {"rate", 0}, {"udp", false}}},
          {"result",
           {{"ops_per_s", rate},
            {"latency_us", {{"p50", 10.0}, {"p90", 20.0}, {"p99", 30.0}, {"p99.9", 10 * cpu_us}}},
            {"server", {{"cpu_us_per_op", cpu_us}, {"resident_bytes", 1 << 20}, {"foreign_share", 0.25}}}}}};
}

// Two rounds, the second in reverse order.
Json fixed_document() {
  Json document{{"command", "tandem bench compare --x"},
                {"machine", {{"cpu", "Test"}, {"cores", 2}, {"kernel", "6.1"}}},
                {"notes", {"redis is not installed and was not measured"}}};
  Json& runs = document["runs"] = Json::array();
  runs.push_back(run_of("text-p1", "floor", 0, 0, 2, 100));
  runs.push_back(run_of("text-p1", "memcached 1.6.18", 1, 0, 8, 50));
  runs.push_back(run_of("text-p1", "tandem", 2, 0, 4, 200));
  runs.push_back(run_of("text-p1", "memcached 1.6.18", 1, 1, 30, 40));
  runs.push_back(run_of("text-p1", "tandem", 2, 1, 6, 200));
  runs.push_back(run_of("text-p1", "floor", 0, 1, 2, 100));
  runs.push_back(run_of("text-p1", "tandem", 2, 0, 5, 20, phase_equal_rate));
  runs.push_back(run_of("text-p1", "memcached 1.6.18", 1, 0, 20, 20, phase_equal_rate));
  document["comparisons"] = make_comparisons(runs, {{"text-p1", 2.5}});
  return document;
}

const Json& comparison_of(const Json& document, std::string_view metric, std::string_view base,
                          std::string_view phase = phase_closed) {
  for (const Json& comparison : document["comparisons"])
    if (comparison["metric"] == metric && comparison["subject"] == "tandem" && comparison["base"] == base &&
        comparison["phase"] == phase)
      return comparison;
  throw std::runtime_error("no such comparison");
}

TEST(Results, SpreadIsOfTheMiddle) {
  EXPECT_EQ(spread_of({3, 1, 2}).median, 2);
  const Spread even = spread_of({4, 1, 2, 9});
  EXPECT_EQ(even.median, 3);
  EXPECT_EQ(even.low, 1);
  EXPECT_EQ(even.high, 9);
  EXPECT_THROW(spread_of({}), std::invalid_argument);
}

TEST(Results, RatiosAreTakenWithinARound) {
  const Json document = fixed_document();
  // 4/8 and 6/30, not 5/19.
  const Json& cpu = comparison_of(document, "server_cpu_us_per_op", "memcached 1.6.18");
  EXPECT_DOUBLE_EQ(cpu["ratio"]["median"], (0.5 + 0.2) / 2);
  EXPECT_DOUBLE_EQ(cpu["ratio"]["low"], 0.2);
  EXPECT_DOUBLE_EQ(cpu["ratio"]["high"], 0.5);
  EXPECT_EQ(cpu["rounds"], 2);
  EXPECT_EQ(cpu["better"], "less");
  EXPECT_FALSE(cpu.contains("goal"));
  const Json& rate = comparison_of(document, "ops_per_s", "memcached 1.6.18");
  EXPECT_DOUBLE_EQ(rate["ratio"]["median"], 4.5);
  EXPECT_EQ(rate["better"], "more");
  const Json& floor = comparison_of(document, "server_cpu_us_per_op", "floor");
  EXPECT_DOUBLE_EQ(floor["ratio"]["median"], 2.5);
  EXPECT_EQ(floor["goal"], 2.5);
  const Json& tail = comparison_of(document, "latency_p99.9_us", "memcached 1.6.18", phase_equal_rate);
  EXPECT_DOUBLE_EQ(tail["ratio"]["median"], 0.25);
  // The floor had no run at an equal rate: there is no ratio.
  EXPECT_THROW(comparison_of(document, "latency_p99.9_us", "floor", phase_equal_rate), std::runtime_error);
}

TEST(Results, SubjectsKeepTheirPlaces) {
  const Json document = fixed_document();
  const Results results(document["runs"], phase_closed);
  EXPECT_EQ(results.subjects(), (std::vector<std::string>{"floor", "memcached 1.6.18", "tandem"}));
  EXPECT_EQ(results.cells(), (std::vector<std::string>{"text-p1"}));
}

TEST(Results, Pairs) {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  const std::vector<std::string> all{"floor", "a", "tandem"};
  EXPECT_EQ(pairs_to_compare(all), (Pairs{{"a", "floor"}, {"tandem", "floor"}, {"tandem", "a"}}));
  const std::vector<std::string> others{"a", "b", "c"};
  EXPECT_EQ(pairs_to_compare(others), (Pairs{{"c", "a"}, {"c", "b"}}));
  const std::vector<std::string> one{"tandem"};
  EXPECT_EQ(pairs_to_compare(one), Pairs{});
}

TEST(Results, WhatCouldNotBeMeasuredIsNotThere) {
  Json run = run_of("text-p1", "tandem", 0, 0, 1, 1);
  EXPECT_FALSE(value_of(run, metric("energy_uj_per_op")));
  run["result"]["energy"] = {{"unavailable", "no counter"}};
  EXPECT_FALSE(value_of(run, metric("energy_uj_per_op")));
  run["result"]["energy"] = {{"source", "rapl"}, {"uj_per_op", 7.5}};
  EXPECT_EQ(value_of(run, metric("energy_uj_per_op")), 7.5);
  EXPECT_EQ(value_of(run, metric("latency_p99.9_us")), 10);
  EXPECT_THROW(metric("happiness"), std::invalid_argument);
}

TEST(Results, MergedDocumentsKeepTheirRoundsApart) {
  Json second = fixed_document();
  second["command"] = "tandem bench compare --y";
  second["searches"] = {{{"cell", "text-p1"}, {"subject", "tandem"}, {"tried", {0, 1}}}};
  const Json merged = merge_documents({fixed_document(), second});
  EXPECT_EQ(merged["runs"].size(), 16U);
  EXPECT_EQ(merged["command"], "tandem bench compare --x; tandem bench compare --y");
  EXPECT_EQ(merged["searches"][0]["tried"], Json({8, 9}));
  EXPECT_EQ(merged["notes"].size(), 1U);
  const Json& cpu = comparison_of(merged, "server_cpu_us_per_op", "memcached 1.6.18");
  EXPECT_EQ(cpu["rounds"], 4);
  EXPECT_DOUBLE_EQ(cpu["ratio"]["median"], 0.35);
  EXPECT_EQ(comparison_of(merged, "server_cpu_us_per_op", "floor")["goal"], 2.5);
  EXPECT_THROW(merge_documents({Json{{"runs", {{{"kind", "engine"}}}}}}), std::invalid_argument);
}

TEST(Tables, OfAFixedDocument) {
  const std::string text = render_tables(fixed_document());
  const auto expect_line = [&](std::string_view line) {
    EXPECT_NE(text.find("\n" + std::string(line) + "\n"), std::string::npos) << line << "\nin\n" << text;
  };
  expect_line(
      "| cell | floor, us/op | memcached 1.6.18, us/op | tandem, us/op | memcached 1.6.18 / floor | "
      "tandem / floor | goal | tandem / memcached 1.6.18 |");
  expect_line(
      "| text-p1 | 2.000 (2.000-2.000) | 19.000 (8.000-30.000) | 5.000 (4.000-6.000) | 9.50 | 2.50 | <= 2.50 | "
      "0.35 |");
  expect_line("| text-p1 | 100 (100-100) | 45 (40-50) | 200 (200-200) | 0.45 | 2.00 | 4.50 |");
  expect_line("| text-p1 | 10 / 20 / 30 / 20 | 10 / 20 / 30 / 190 | 10 / 20 / 30 / 50 |");
  expect_line("| text-p1 | 0 | 200 (200-200) | 50 (50-50) | 0.25 |");
  expect_line("Resident memory of the servers, MiB: floor 1, memcached 1.6.18 1, tandem 1.");
  expect_line("Other processes took 25 % of the servers' processors (median of the runs; most: 25 %).");
  expect_line("redis is not installed and was not measured.");
  EXPECT_TRUE(
      text.starts_with("4.5x memcached's throughput, p99 30 us against 30 us (text-p1)\n\n`tandem bench compare --x`: "
                       "16/64 bytes; 1000 keys; 2 rounds; 2 cores Test, Linux 6.1.\n"));
}

TEST(Tables, OfSearches) {
  Json document = fixed_document();
  const auto search_of = [](std::string_view subject, double rate, std::string_view end, int voids) {
    return Json{{"cell", "text-p1"}, {"subject", subject},    {"percentile", 99.9},   {"limit_us", 1000},
                {"tolerance", 0.05}, {"trials", 3},           {"highest_rate", rate}, {"end", end},
                {"void", voids},     {"void_reason", "late"}, {"tried", {1, 2, 3, 4}}};
  };
  document["searches"] = {search_of("memcached 1.6.18", 1000, "found", 2), search_of("tandem", 2500, "found", 0)};
  const std::string text = render_tables(document);
  EXPECT_NE(text.find("percentile 99.9 of latency is at most 1000 us"), std::string::npos) << text;
  EXPECT_NE(text.find("| text-p1 | 1000 | 2500 | 2.50 |\n"), std::string::npos) << text;
  EXPECT_NE(text.find("text-p1, memcached 1.6.18: 2 of 4 runs did not count: late.\n"), std::string::npos) << text;
  // A value known for one side only gives no ratio.
  document["searches"][1]["end"] = to_string(SearchEnd::generator);
  const std::string one_sided = render_tables(document);
  EXPECT_NE(one_sided.find("| text-p1 | 1000 | >= 2500 | - |\n"), std::string::npos) << one_sided;
  EXPECT_NE(one_sided.find("text-p1, tandem: the load generator or errors set the limit.\n"), std::string::npos);
}

}  // namespace
}  // namespace tandem::bench
