#include "bench/compare/headline.hpp"

#include <gtest/gtest.h>

#include "bench/compare/results.hpp"

namespace tandem::bench {
namespace {

Json comparison(const char* cell, const char* subject, const char* base, const char* metric, double ratio,
                std::string_view phase = phase_closed) {
  return {{"cell", cell},     {"subject", subject}, {"base", base},
          {"metric", metric}, {"phase", phase},     {"ratio", {{"median", ratio}}}};
}

Json latency_run(const char* cell, const char* subject, double p99_us, std::string_view phase) {
  return {{"cell", cell}, {"subject", subject}, {"place", 0},
          {"round", 0},   {"phase", phase},     {"result", {{"latency_us", {{"p99", p99_us}}}}}};
}

Json document_of(Json comparisons, Json runs = Json::array()) {
  return {{"comparisons", std::move(comparisons)}, {"runs", std::move(runs)}};
}

TEST(Headline, OfOneLoadTellsTheTail) {
  const Json document =
      document_of({comparison("text-p16", "memcached 1.6.18", "floor", "ops_per_s", 0.2),
                   comparison("text-p16", "tandem", "floor", "ops_per_s", 0.9),
                   comparison("text-p16", "tandem", "redis 7", "ops_per_s", 2.5),
                   comparison("text-p16", "tandem", "memcached 1.6.18", "ops_per_s", 4.2),
                   comparison("text-p16", "tandem", "memcached 1.6.18", "latency_p99_us", 0.4),
                   comparison("text-p16", "tandem", "memcached 1.6.18", "latency_p99_us", 0.5, phase_equal_rate)},
                  {latency_run("text-p16", "tandem", 40, phase_closed),
                   latency_run("text-p16", "memcached 1.6.18", 100, phase_closed),
                   latency_run("text-p16", "tandem", 120, phase_equal_rate),
                   latency_run("text-p16", "memcached 1.6.18", 240, phase_equal_rate)});
  EXPECT_EQ(headline(document), "4.2x memcached's throughput, p99 120 us against 240 us (text-p16)");
}

TEST(Headline, OfSeveralLoadsIsTheGeometricMean) {
  const Json document = document_of({comparison("a", "tandem", "memcached 1.6.18", "ops_per_s", 2),
                                     comparison("b", "tandem", "memcached 1.6.18", "ops_per_s", 8),
                                     comparison("a", "tandem", "memcached 1.6.18", "latency_p99_us", 0.25),
                                     comparison("b", "tandem", "memcached 1.6.18", "latency_p99_us", 1)});
  EXPECT_EQ(headline(document), "4.0x memcached's throughput, p99 0.50x (geometric means of 2 loads)");
}

TEST(Headline, WithoutTandemOrMemcachedTellsWhatIsThere) {
  EXPECT_EQ(headline(document_of({comparison("a", "mine", "floor", "ops_per_s", 0.51),
                                  comparison("a", "mine", "redis 7", "ops_per_s", 12.3)})),
            "mine: 12x redis's throughput (a)");
  EXPECT_EQ(headline(document_of({comparison("a", "tandem", "floor", "ops_per_s", 0.51)})),
            "0.51x floor's throughput (a)");
  EXPECT_EQ(headline(document_of({comparison("a", "tandem", "memcached 1", "server_cpu_us_per_op", 0.5)})), "");
  EXPECT_EQ(headline(document_of(Json::array())), "");
  EXPECT_EQ(headline(Json::object()), "");
}

TEST(Headline, FitsATerminal) {
  const std::string name(90, 'n');
  const Json document = document_of({comparison("a", name.c_str(), "memcached 1", "ops_per_s", 1)});
  EXPECT_EQ(headline(document).size(), headline_bytes_max);
}

}  // namespace
}  // namespace tandem::bench
