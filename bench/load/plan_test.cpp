#include "bench/load/plan.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>

#include "bench/load/codec_test_support.hpp"
#include "bench/load/recorder.hpp"
#include "bench/load/schedule.hpp"

namespace tandem::load {
namespace {

using workload::OpKind;

std::string bytes_of(const Options& options, std::uint32_t connection, int batches) {
  const Plan plan(options);
  RequestMaker maker(plan, connection);
  std::string all;
  Batch batch;
  for (int i = 0; i < batches; ++i) {
    maker.make(batch, 0);
    all += batch.bytes();
  }
  return all;
}

TEST(RequestMaker, TheSameSeedMakesTheSameBytes) {
  for (const Protocol protocol : {Protocol::text, Protocol::meta, Protocol::binary}) {
    Options options;
    options.protocol = protocol;
    options.pipeline = 16;
    options.connections = 3;
    for (const std::uint32_t multiget : {1U, 10U}) {
      options.multiget = multiget;
      const std::string once = bytes_of(options, 1, 50);
      EXPECT_EQ(once, bytes_of(options, 1, 50));
      EXPECT_NE(once, bytes_of(options, 2, 50));
      Options other = options;
      other.workloads.front().seed = 2;
      EXPECT_NE(once, bytes_of(other, 1, 50));
    }
  }
}

TEST(RequestMaker, BatchesAreFullAndTheirRequestsFillThem) {
  Options options;
  options.pipeline = 7;
  options.udp = true;
  for (const std::uint32_t multiget : {1U, 5U}) {
    options.multiget = multiget;
    const Plan plan(options);
    RequestMaker maker(plan, 0);
    Batch batch;
    for (int i = 0; i < 100; ++i) {
      maker.make(batch, 0);
      std::size_t bytes = 0, ops = 0;
      for (const Request& request : batch.requests) {
        bytes += plan.frame_bytes + request.bytes;
        ops += request.key_count;
      }
      EXPECT_EQ(bytes, batch.size);
      EXPECT_EQ(ops, batch.ops);
      EXPECT_GE(batch.requests.size(), 7U);
    }
  }
}

TEST(RequestMaker, KeysAreReadAndWrittenInTheAskedRatio) {
  for (const std::uint32_t multiget : {1U, 6U}) {
    Options options;
    options.multiget = multiget;
    options.pipeline = 100;
    options.workloads.front().mix = workload::Mix::get_set(0.7);
    const Plan plan(options);
    RequestMaker maker(plan, 0);
    Batch batch;
    double gets = 0, ops = 0, batches = 0;
    for (; ops < 200'000; ++batches) {
      maker.make(batch, 0);
      ops += static_cast<double>(batch.ops);
      for (const Request& request : batch.requests) gets += request.kind == RequestKind::set ? 0 : request.key_count;
    }
    EXPECT_NEAR(gets / ops, 0.7, 5 * std::sqrt(0.7 * 0.3 / 200'000));
    EXPECT_NEAR(ops / batches / plan.ops_per_batch(), 1, 0.02);
  }
}

TEST(RequestMaker, OperationsAreSharedOutToTheLast) {
  Options options;
  options.connections = 7;
  options.ops = 1003;
  options.pipeline = 10;
  options.multiget = 3;
  const Plan plan(options);
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < 7; ++i) {
    RequestMaker maker(plan, i);
    Batch batch;
    for (maker.make(batch, 0); batch.ops != 0; maker.make(batch, 0)) total += batch.ops;
    EXPECT_TRUE(batch.requests.empty());
  }
  EXPECT_EQ(total, 1003U);
}

TEST(RequestMaker, SequentialSetsVisitEveryKeyOnce) {
  Options options;
  options.connections = 3;
  options.ops = options.workloads.front().keys = 1000;
  options.pipeline = 64;
  options.workloads.front().popularity = workload::Popularity::sequential;
  options.workloads.front().mix = workload::Mix::get_set(0);
  const Plan plan(options);
  std::map<std::uint64_t, int> seen;
  for (std::uint32_t i = 0; i < 3; ++i) {
    RequestMaker maker(plan, i);
    Batch batch;
    for (maker.make(batch, 0); batch.ops != 0; maker.make(batch, 0))
      for (const Request& request : batch.requests) ++seen[request.key];
  }
  EXPECT_EQ(seen.size(), 1000U);
  for (const auto& [key, times] : seen) EXPECT_EQ(times, 1) << key;
}

Options alternating() {
  Options options;
  options.workloads = {workload::preset("K8-G50-U"), workload::preset("K16-G95-S")};
  return options;
}

TEST(RequestMaker, WorkloadsTakeTurnsByOperations) {
  Options options = alternating();
  options.alternation.every_ops = 30;
  options.pipeline = 10;
  const Plan plan(options);
  RequestMaker maker(plan, 0);
  Batch batch;
  for (int i = 0; i < 30; ++i) {
    maker.make(batch, 0);
    for (const Request& request : batch.requests) EXPECT_EQ(request.phase, i / 3 % 2);
  }
}

TEST(RequestMaker, WorkloadsTakeTurnsByTime) {
  Options options = alternating();
  options.alternation.every_ns = 2'000'000;
  Plan plan(options);
  plan.start_ns = 1'000'000'000;
  RequestMaker maker(plan, 0);
  Batch batch;
  for (const auto& [ms, phase] : {std::pair{0, 0}, {1, 0}, {2, 1}, {3, 1}, {4, 0}, {255, 1}, {256, 0}}) {
    maker.make(batch, plan.start_ns + static_cast<std::uint64_t>(ms) * 1'000'000);
    EXPECT_EQ(batch.requests.front().phase, phase) << ms;
  }
}

TEST(RequestMaker, AReadModifyWriteIsAReadAndThenAWriteOfItsKey) {
  Options options;
  options.workloads.front().mix = {};
  options.workloads.front().mix[OpKind::read_modify_write] = 1;
  const Plan plan(options);
  RequestMaker maker(plan, 0);
  Batch batch;
  maker.make(batch, 0);
  const Request read = batch.requests.front();
  EXPECT_EQ(read.kind, RequestKind::get);
  maker.make_follow_ups(batch, {{read.key, 123, read.value_bytes, read.ttl_s, read.phase}});
  ASSERT_EQ(batch.requests.size(), 1U);
  EXPECT_EQ(batch.requests[0].kind, RequestKind::set);
  EXPECT_EQ(batch.requests[0].key, read.key);
  EXPECT_EQ(batch.requests[0].start_ns, 123U);
  EXPECT_EQ(batch.bytes().substr(0, 4), "set ");
}

TEST(RequestMaker, ATraceIsReplayedInOrderByKeyAndByItsTimes) {
  const std::string path = testing::TempDir() + "/load_trace.csv";
  std::ofstream(path)
      << "op,key,value_bytes,ttl_s,time_us\nset,a,3,60,1000\nget,a,,,1500\nget,b,,,2000\ndelete,a,,,4000\n";
  Options options;
  options.trace = path;
  options.replay_speed = 2;
  const Plan plan(options);
  RequestMaker maker(plan, 0);
  Batch batch;
  std::string all;
  for (const std::uint64_t due : {0U, 250'000U, 500'000U, 1'500'000U}) {
    EXPECT_EQ(maker.next_due_ns(), due);
    maker.make(batch, 0);
    all += batch.bytes();
  }
  EXPECT_EQ(maker.next_due_ns(), UINT64_MAX);
  EXPECT_EQ(all.substr(0, 14), "set a 0 60 3\r\n");
  EXPECT_EQ(all.substr(19), "get a\r\nget b\r\ndelete a\r\n");
  std::remove(path.c_str());
}

TEST(Schedule, UniformArrivalsAreExactWhateverTheNumber) {
  Options options;
  options.rate_per_s = 3000;
  options.threads = 1;
  Schedule schedule(options, 0, 1, 500);
  std::uint64_t within = 0;
  for (; schedule.next_ns() < 500 + 2'000'000'000; schedule.advance(1)) ++within;
  EXPECT_EQ(within, 6000U);
  for (int i = 0; i < 1'000'000; ++i) schedule.advance(3);
  EXPECT_EQ(schedule.next_ns(), 500U + 1'002'000'000'000);
}

TEST(Schedule, ThreadsShareTheRateAndTakeTurns) {
  Options options;
  options.rate_per_s = 1000;
  options.threads = 4;
  for (std::uint32_t thread = 0; thread < 4; ++thread) {
    Schedule schedule(options, thread, 2, 0);
    for (std::uint64_t i = 0; i < 100; ++i, schedule.advance(2))
      EXPECT_EQ(schedule.next_ns(), (thread + 4 * i) * 2'000'000) << thread;
  }
}

TEST(Schedule, PoissonArrivalsHaveTheRateAndTheSpread) {
  Options options;
  options.rate_per_s = 1e6;
  options.arrivals = Arrivals::poisson;
  Schedule schedule(options, 0, 1, 0);
  constexpr int count = 200'000;
  double sum = 0, squares = 0;
  std::uint64_t last = schedule.next_ns();
  for (int i = 0; i < count; ++i) {
    schedule.advance(1);
    const auto gap = static_cast<double>(schedule.next_ns() - last);
    last = schedule.next_ns();
    sum += gap;
    squares += gap * gap;
  }
  // An exponential distribution's deviation is its mean; the mean of n gaps deviates by mean / sqrt(n).
  const double mean = sum / count;
  EXPECT_NEAR(mean, 1000, 5 * 1000 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean), mean, 20);
}

class RecorderTest : public testing::Test {
 protected:
  static constexpr Window window{1'000'000, 3'000'000, 500'000};

  Options options_;
  std::unique_ptr<Plan> plan_;
  std::vector<bool> edges_;

  std::unique_ptr<Recorder> recorder() {
    plan_ = std::make_unique<Plan>(options_);
    auto one = std::make_unique<Recorder>(*plan_, [this](bool opens) { edges_.push_back(opens); });
    one->begin(window);
    return one;
  }
  static Request get(std::uint64_t start_ns, std::uint32_t keys) {
    Request request{};
    request.start_ns = start_ns;
    request.key_count = keys;
    request.kind = keys > 1 ? RequestKind::multiget : RequestKind::get;
    request.op = OpKind::get;
    return request;
  }
};

TEST_F(RecorderTest, CountsOperationsOfTheWindowAndLatenciesOfRequestsThatStartedInIt) {
  const auto recorder = this->recorder();
  const auto reply = [&](std::uint64_t start_ns, std::uint64_t now) {
    recorder->tick(now);
    recorder->reply(get(start_ns, 2), {ReplyStatus::complete, 1, 10}, "", now);
  };
  recorder->tick(0);
  EXPECT_TRUE(edges_.empty());
  reply(100'000, 900'000);      // warm-up
  reply(900'000, 1'100'000);    // counts, but started before the window
  reply(1'100'000, 1'200'000);  // 100 us
  reply(1'200'000, 2'900'000);  // 1700 us
  reply(2'900'000, 3'200'000);  // its latency counts, but not its operation: answered after the window
  EXPECT_FALSE(recorder->tick(3'300'000));
  recorder->close(3'300'000);
  EXPECT_EQ(edges_, (std::vector<bool>{true, false}));
  const Counts counts = recorder->window_counts();
  EXPECT_EQ(counts.gets, 6U);
  EXPECT_EQ(counts.hits, 3U);
  EXPECT_EQ(counts.all_ops(), 6U);
  const Histogram* latency = recorder->latency(OpKind::get);
  ASSERT_NE(latency, nullptr);
  EXPECT_EQ(latency->total(), 6U);
  EXPECT_EQ(latency->min(), 100'000U);
  EXPECT_EQ(latency->max(), 1'700'000U);
  EXPECT_EQ(recorder->latency(OpKind::set), nullptr);
  EXPECT_TRUE(recorder->errors().none());
}

TEST_F(RecorderTest, MissesAreErrorsOnlyWhereHitsAreRequired) {
  for (const bool required : {false, true}) {
    options_.require_hits = required;
    const auto recorder = this->recorder();
    recorder->tick(1'000'000);
    recorder->reply(get(1'000'000, 5), {ReplyStatus::complete, 3, 10}, "END\r\n", 1'100'000);
    EXPECT_EQ(recorder->errors().unexpected_misses, required ? 2U : 0U);
    EXPECT_EQ(recorder->errors().none(), !required);
    EXPECT_EQ(recorder->errors().first.find("a miss") == 0, required) << recorder->errors().first;
  }
}

TEST_F(RecorderTest, TheFirstErrorIsToldWithItsBytes) {
  const auto recorder = this->recorder();
  recorder->tick(1'000'000);
  Request request = get(1'000'000, 1);
  request.key = 0xabc;
  recorder->wrong_reply(&request, "not this", "VALUE \x01\xff\"\r\n");
  recorder->wrong_reply(&request, "nor this", "x");
  recorder->timed_out(request, 2'000'000, "late");
  recorder->connection_failed("closed");
  const Errors& errors = recorder->errors();
  EXPECT_EQ(errors.first, R"(not this; asked "get 0000000000000abc\r\n"; got "VALUE \x01\xff\"\r\n")");
  EXPECT_EQ(errors.wrong_replies, 2U);
  EXPECT_EQ(errors.timeouts, 1U);
  EXPECT_EQ(errors.connection, 1U);
  EXPECT_EQ(recorder->latency(OpKind::get)->max(), 1'000'000U);
}

TEST_F(RecorderTest, AReadModifyWriteCountsOnceWhenItIsWritten) {
  const auto recorder = this->recorder();
  recorder->tick(1'000'000);
  Request request = get(1'000'000, 1);
  request.op = OpKind::read_modify_write;
  recorder->reply(request, {ReplyStatus::complete, 1, 10}, "", 1'200'000);
  EXPECT_EQ(recorder->latency(OpKind::read_modify_write), nullptr);
  request.kind = RequestKind::set;
  recorder->reply(request, {ReplyStatus::complete, 0, 8}, "", 1'400'000);
  recorder->close(2'000'000);
  EXPECT_EQ(recorder->latency(OpKind::read_modify_write)->max(), 400'000U);
  const Counts counts = recorder->window_counts();
  EXPECT_EQ(counts.all_ops(), 1U);
  EXPECT_EQ(counts.gets, 1U);
  EXPECT_EQ(counts.sets, 1U);
}

TEST_F(RecorderTest, IntervalsHoldWhatEndedInThem) {
  const auto recorder = this->recorder();
  const auto reply = [&](std::uint64_t now) {
    recorder->tick(now);
    recorder->reply(get(1'000'001, 1), {ReplyStatus::complete, 1, 10}, "", now);
  };
  recorder->tick(1'000'000);
  reply(1'100'000);
  reply(1'200'000);
  reply(1'600'000);
  reply(2'900'000);
  recorder->tick(3'000'000);
  std::vector<std::uint64_t> counts;
  for (const Interval& interval : recorder->intervals()) {
    std::uint64_t sum = 0;
    for (const auto& [bucket, n] : interval) sum += n;
    counts.push_back(sum);
  }
  EXPECT_EQ(counts, (std::vector<std::uint64_t>{2, 1, 0, 1}));
}

TEST(Options, MissesAreErrorsUnlessSomethingMayTakeKeysAway) {
  Options options;
  EXPECT_TRUE(misses_are_errors(options));
  options.workloads.front().ttl_s = 5;
  EXPECT_FALSE(misses_are_errors(options));
  options = {};
  options.workloads.front().mix = {};
  options.workloads.front().mix[OpKind::get] = 0.9;
  options.workloads.front().mix[OpKind::remove] = 0.1;
  EXPECT_FALSE(misses_are_errors(options));
  options = {};
  options.workloads = {workload::preset("ycsb-d")};
  EXPECT_TRUE(misses_are_errors(options));
  options.udp = true;
  EXPECT_FALSE(misses_are_errors(options));
  options = {};
  options.trace = "x.csv";
  EXPECT_FALSE(misses_are_errors(options));
}

TEST(Options, WhatNoRunCanDoIsRefused) {
  const auto refused = [](const std::function<void(Options&)>& change) {
    Options options;
    change(options);
    try {
      validate(options);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused([](Options&) {}), "");
  EXPECT_NE(refused([](Options& o) { o.threads = 2; }), "");
  EXPECT_NE(refused([](Options& o) { o.getk = true; }), "");
  EXPECT_EQ(refused([](Options& o) {
              o.getk = true;
              o.protocol = Protocol::meta;
            }),
            "");
  EXPECT_NE(refused([](Options& o) {
              o.getk = true;
              o.protocol = Protocol::meta;
              o.multiget = 2;
            }),
            "");
  EXPECT_NE(refused([](Options& o) { o.connections = 0; }), "");
  EXPECT_NE(refused([](Options& o) { o.pipeline = 0; }), "");
  EXPECT_NE(refused([](Options& o) { o.rate_per_s = -1; }), "");
  EXPECT_NE(refused([](Options& o) { o.timeout_s = 0; }), "");
  EXPECT_NE(refused([](Options& o) { o.seconds = 0; }), "");
  EXPECT_NE(refused([](Options& o) { o.processors = {-1}; }), "");
  EXPECT_NE(refused([](Options& o) { o.replay_speed = 1; }), "");
  EXPECT_NE(refused([](Options& o) { o.workloads = alternating().workloads; }), "");  // no time given
  EXPECT_NE(refused([](Options& o) {
              o.udp = true;
              o.pipeline = 3000;
            }),
            "");
  EXPECT_NE(refused([](Options& o) {
              o.udp = true;
              o.workloads.front().value_bytes = workload::Sizes::fixed(65'000);
            }),
            "");
  for (const Protocol protocol : {Protocol::text, Protocol::binary, Protocol::resp}) {
    EXPECT_NE(refused([&](Options& o) {
                o.workloads = {workload::preset("ycsb-e")};
                o.protocol = protocol;
              }).find("the workload ycsb-e has scans, which only --protocol meta"),
              std::string::npos);
  }
  const auto scans_refused = [&](const std::function<void(Options&)>& change) {
    return refused([&](Options& o) {
      o.workloads = {workload::preset("ycsb-e")};
      o.protocol = Protocol::meta;
      change(o);
    });
  };
  EXPECT_EQ(scans_refused([](Options&) {}), "");
  EXPECT_NE(scans_refused([](Options& o) { o.udp = true; }).find("TCP"), std::string::npos);
  EXPECT_NE(scans_refused([](Options& o) { o.workloads.front().scan_keys_max = 1025; }).find("1024"),
            std::string::npos);
  EXPECT_NE(scans_refused([](Options& o) { o.workloads.front().scan_keys_min = 0; }).find("one key"),
            std::string::npos);
  EXPECT_EQ(scans_refused([](Options& o) {
              o.workloads.push_back(workload::preset("ycsb-b"));
              o.alternation.every_ops = 1;
            }),
            "");
  EXPECT_NE(scans_refused([](Options& o) {
              o.workloads.push_back(workload::preset("K8-G50-U"));
              o.alternation.every_ops = 1;
            }).find("same sizes"),
            std::string::npos);
  EXPECT_NE(refused([](Options& o) {
              o.workloads = {workload::preset("K16-G95-S"), workload::preset("K16-G50-U")};
              o.workloads[1].value_bytes = workload::Sizes::fixed(65);
              o.alternation.every_ops = 1;
            }).find("different sizes"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem::load
