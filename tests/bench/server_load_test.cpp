// The parts of the load generator and of the bare servers: what they draw, write, check and count.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "../../bench/server/canned.hpp"
#include "../../bench/server/histogram.hpp"
#include "../../bench/server/recorder.hpp"
#include "../../bench/server/udp_frame.hpp"
#include "../../bench/server/wire.hpp"
#include "../../bench/server/workload.hpp"

namespace tandem::bench {
namespace {

// Pearson's statistic of `counts` against probabilities proportional to (rank + 1)^-theta.
double chi_square(const std::vector<uint64_t>& counts, double theta, double draws) {
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) sum += std::pow(static_cast<double>(i) + 1, -theta);
  double statistic = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * std::pow(static_cast<double>(i) + 1, -theta) / sum;
    const double difference = static_cast<double>(counts[i]) - expected;
    statistic += difference * difference / expected;
  }
  return statistic;
}

std::vector<uint64_t> draw_counts(uint32_t n, double theta, uint32_t draws) {
  const ZipfSampler sampler(n, theta);
  Random random(7);
  std::vector<uint64_t> counts(n);
  for (uint32_t i = 0; i < draws; ++i) ++counts.at(sampler.draw(random));
  return counts;
}

TEST(ZipfSampler, FollowsTheExactDistribution) {
  constexpr uint32_t n = 1000;
  constexpr uint32_t draws = 4'000'000;
  // n - 1 degrees of freedom: mean 999, standard deviation 44.7. Five of them above is chance once in a million.
  const double limit = 999 + 5 * std::sqrt(2.0 * 999);
  for (const double theta : {0.0, 0.5, 0.99, 1.3})
    EXPECT_LT(chi_square(draw_counts(n, theta, draws), theta, draws), limit) << theta;
  // The test itself can tell 0.99 from 0.98.
  EXPECT_GT(chi_square(draw_counts(n, 0.98, draws), 0.99, draws), limit);
}

TEST(ZipfSampler, OneKey) { EXPECT_EQ(draw_counts(1, 0.99, 100), std::vector<uint64_t>{100}); }

TEST(Workload, ZipfStepsKeepTheSharesOfTheRanks) {
  const WorkloadOptions options{.key_count = 500, .get_ratio = 0.9, .step_count = 1'000'000};
  const Workload workload(options);
  std::vector<uint64_t> counts(options.key_count);
  double sets = 0;
  for (uint32_t i = 0; i < workload.step_count(); ++i) {
    ++counts.at(workload.step(i).key());
    sets += workload.step(i).is_set() ? 1 : 0;
  }
  EXPECT_NEAR(sets / options.step_count, 0.1, 0.002);
  // Popular keys are spread over the indexes, so the ranks have to be found again by sorting.
  EXPECT_FALSE(std::is_sorted(counts.begin(), counts.begin() + 10, std::greater<>()));
  std::sort(counts.begin(), counts.end(), std::greater<>());
  EXPECT_LT(chi_square(counts, options.theta, options.step_count), 499 + 5 * std::sqrt(2.0 * 499));
}

TEST(Workload, SequentialStepsVisitEveryKeyOnce) {
  const Workload workload({.key_count = 1000, .distribution = Distribution::sequential, .get_ratio = 0});
  ASSERT_EQ(workload.step_count(), 1000U);
  for (uint32_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(workload.step(i).key(), i);
    EXPECT_TRUE(workload.step(i).is_set());
  }
  EXPECT_EQ(workload.step(1001).key(), 1U);
}

TEST(Workload, KeysAreTheIndexInHexadecimal) {
  const Workload workload({.key_bytes = 11, .step_count = 1});
  char key[11];
  for (const auto& [index, text] :
       {std::pair{0U, "kkk00000000"}, {0x12abcdefU, "kkk12abcdef"}, {0x79f09aU, "kkk0079f09a"}}) {
    workload.write_key(index, key);
    EXPECT_EQ(std::string_view(key, 11), text);
  }
}

TEST(Workload, ValuesFollowFromTheKeyAlone) {
  for (const uint32_t bytes : {1U, 7U, 8U, 64U, 509U}) {
    const Workload workload({.value_bytes = bytes, .step_count = 1});
    std::set<std::string> seen;
    for (uint32_t key = 0; key < 50; ++key) {
      std::string value(bytes, '\0');
      EXPECT_EQ(workload.write_value(key, value.data()), value.data() + bytes);
      EXPECT_TRUE(workload.value_matches(key, value.data()));
      seen.insert(value);
      for (uint32_t at : {0U, bytes / 2, bytes - 1}) {
        std::string changed = value;
        changed[at] = static_cast<char>(changed[at] ^ 1);
        EXPECT_FALSE(workload.value_matches(key, changed.data())) << bytes << " " << at;
      }
    }
    if (bytes > 1) {
      EXPECT_EQ(seen.size(), 50U);
    }
  }
}

TEST(Workload, RefusesSizesThatItCannotWrite) {
  EXPECT_THROW(Workload({.key_bytes = 7}), std::invalid_argument);
  EXPECT_THROW(Workload({.key_bytes = 251}), std::invalid_argument);
  EXPECT_THROW(Workload({.key_count = 0}), std::invalid_argument);
}

TEST(Histogram, QuantilesAreAtMostOnePercentAboveTheExactOnes) {
  Histogram histogram;
  std::vector<uint64_t> values;
  Random random(3);
  for (int i = 0; i < 100'000; ++i) {
    values.push_back(random.next() >> (random.next() % 64));
    histogram.add(values.back());
  }
  std::sort(values.begin(), values.end());
  EXPECT_EQ(histogram.total(), values.size());
  EXPECT_EQ(histogram.min(), values.front());
  EXPECT_EQ(histogram.max(), values.back());
  for (const double fraction : {0.0001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
    const auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(values.size())));
    const uint64_t exact = values[rank - 1];
    EXPECT_GE(histogram.quantile(fraction), exact) << fraction;
    EXPECT_LE(static_cast<double>(histogram.quantile(fraction)), static_cast<double>(exact) * 1.01) << fraction;
  }
}

TEST(Histogram, SmallValuesAreExactAndCountsAdd) {
  Histogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), 0U);
  EXPECT_EQ(histogram.min(), 0U);
  histogram.add(3, 99);
  histogram.add(200);
  EXPECT_EQ(histogram.quantile(0.99), 3U);
  EXPECT_EQ(histogram.quantile(0.991), 200U);
  EXPECT_DOUBLE_EQ(histogram.mean(), (3 * 99 + 200) / 100.0);
}

TEST(UdpFrame, IsBigEndian) {
  char bytes[UdpFrame::bytes];
  UdpFrame{0xfe01, 0x0203, 0xa005}.write(bytes);
  EXPECT_EQ(std::string_view(bytes, 8), std::string_view("\xfe\x01\x02\x03\xa0\x05\0\0", 8));
  const UdpFrame frame = UdpFrame::read({bytes, 8});
  EXPECT_EQ(frame.id, 0xfe01);
  EXPECT_EQ(frame.sequence, 0x0203);
  EXPECT_EQ(frame.count, 0xa005);
}

// A store that answers one batch of a Wire as memcached would: the reply to each of its requests.
struct Answers {
  const Workload& workload;
  Protocol protocol;

  std::string value_reply(uint32_t key, bool has_key) const {
    std::string name(workload.options().key_bytes, '\0');
    std::string value(workload.options().value_bytes, '\0');
    workload.write_key(key, name.data());
    workload.write_value(key, value.data());
    const std::string length = std::to_string(value.size());
    const std::string head =
        protocol == Protocol::text ? "VALUE " + name + " 0 " + length : "VA " + length + (has_key ? " k" + name : "");
    return head + "\r\n" + value + "\r\n";
  }

  // `missing`: the position in the request of a key that is not found.
  std::string reply(const Request& request, uint32_t missing = UINT32_MAX) const {
    const bool is_text = protocol == Protocol::text;
    if (request.kind == RequestKind::set) return is_text ? "STORED\r\n" : "HD\r\n";
    std::string reply;
    for (uint32_t i = 0; i < request.key_count; ++i)
      if (i != missing)
        reply += value_reply(workload.step(request.position + i).key(), request.kind == RequestKind::multiget);
    if (is_text) return reply + "END\r\n";
    if (request.kind == RequestKind::multiget) return reply + "MN\r\n";
    return reply.empty() ? "EN\r\n" : reply;
  }
};

struct WireCase {
  Protocol protocol;
  uint32_t multiget;
  bool verify;
};

std::string name_of(const testing::TestParamInfo<WireCase>& info) {
  return (info.param.protocol == Protocol::text ? "text_" : "meta_") + std::to_string(info.param.multiget) +
         (info.param.verify ? "_verify" : "");
}

class WireTest : public testing::TestWithParam<WireCase> {
 protected:
  // So few keys that a multiget often names one of them twice.
  Workload workload_{{.key_count = 20, .value_bytes = 24, .get_ratio = 0.7, .step_count = 400}};
  Answers answers_{workload_, GetParam().protocol};
  Wire wire_{
      workload_,
      {.protocol = GetParam().protocol, .pipeline = 5, .multiget = GetParam().multiget, .verify = GetParam().verify}};
  Batch batch_;
};

TEST_P(WireTest, RequestsFillTheBatch) {
  for (int i = 0; i < 100; ++i) {
    wire_.make(batch_);
    size_t bytes = 0;
    for (const Request& request : batch_.requests) bytes += request.bytes;
    EXPECT_EQ(bytes, batch_.size);
    EXPECT_LE(batch_.size, batch_.buffer.size());
    EXPECT_GE(batch_.requests.size(), 5U);
  }
}

TEST_P(WireTest, KeysAreReadAndWrittenInTheAskedRatio) {
  double gets = 0;
  double ops = 0;
  for (int i = 0; i < 400; ++i) {
    wire_.make(batch_);
    for (const Request& request : batch_.requests) {
      ops += request.key_count;
      gets += request.kind == RequestKind::set ? 0 : request.key_count;
    }
  }
  EXPECT_NEAR(gets / ops, 0.7, 0.05);
  EXPECT_NEAR(ops / 400, wire_.ops_per_batch(), 0.1);
}

TEST_P(WireTest, AcceptsRightRepliesHoweverTheyAreCut) {
  for (int round = 0; round < 20; ++round) {
    wire_.make(batch_);
    for (const Request& request : batch_.requests) {
      for (const uint32_t missing : {UINT32_MAX, 0U, request.key_count - 1}) {
        if (request.kind == RequestKind::set && missing != UINT32_MAX) continue;
        const std::string whole = answers_.reply(request, missing);
        const std::string followed = whole + "VALUE STORED HD EN";
        EXPECT_LE(whole.size(), wire_.max_reply_bytes());
        for (size_t bytes = 0; bytes < whole.size(); ++bytes)
          ASSERT_EQ(wire_.check(request, std::string_view(whole).substr(0, bytes)).status, ReplyStatus::partial)
              << bytes << " of " << whole;
        const ReplyCheck checked = wire_.check(request, followed);
        ASSERT_EQ(checked.status, ReplyStatus::complete) << whole;
        EXPECT_EQ(checked.bytes, whole.size());
        const uint32_t found = request.key_count - (missing == UINT32_MAX ? 0 : 1);
        EXPECT_EQ(checked.hits, request.kind == RequestKind::set ? 0 : found);
      }
    }
  }
}

TEST_P(WireTest, RefusesWrongReplies) {
  wire_.make(batch_);
  for (const Request& request : batch_.requests) {
    for (const char* text : {"ERROR\r\n", "SERVER_ERROR out of memory storing object\r\n", "NOT_STORED\r\n", "\r\n",
                             "CLIENT_ERROR bad data chunk\r\n", "VALUE k 0 3\r\nabc\r\nEND\r\n", "VA 3\r\nabc\r\n"})
      EXPECT_EQ(wire_.check(request, text).status, ReplyStatus::wrong) << text;
    const std::string whole = answers_.reply(request);
    std::string longer = whole;
    longer.insert(longer.size() / 2, 1, 'x');
    EXPECT_EQ(wire_.check(request, longer + longer).status, ReplyStatus::wrong) << longer;
  }
}

class VerifyingWireTest : public WireTest {};

TEST_P(VerifyingWireTest, RefusesAnotherKeysValue) {
  for (int round = 0; round < 20; ++round) {
    wire_.make(batch_);
    for (Request request : batch_.requests) {
      if (request.kind == RequestKind::set) continue;
      const std::string reply = answers_.reply(request);
      ++request.position;
      const Request next = request;
      if (answers_.reply(next) == reply) continue;  // the neighbour asks for the same keys
      const ReplyCheck checked = wire_.check(next, reply);
      // The keys of a shifted multiget may still be a valid part of the answer, but not all of them.
      EXPECT_TRUE(checked.status == ReplyStatus::wrong || checked.hits < next.key_count) << reply;
    }
  }
}

TEST_P(VerifyingWireTest, RefusesEveryChangedByte) {
  wire_.make(batch_);
  for (const Request& request : batch_.requests) {
    const std::string whole = answers_.reply(request);
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ 4);
      EXPECT_NE(wire_.check(request, changed).status, ReplyStatus::complete) << at << " of " << whole;
    }
  }
}

// Canned replies do not name the keys, so they cannot be verified.
class CannedRepliesTest : public WireTest {};

TEST_P(CannedRepliesTest, FitTheRequestsWhereverTheInputIsCut) {
  const CannedReplies canned(workload_.options().key_bytes, workload_.options().value_bytes);
  for (int round = 0; round < 5; ++round) {
    wire_.make(batch_);
    const std::vector<Request> requests = batch_.requests;
    const size_t size = batch_.size;
    std::vector<char> input = batch_.buffer;
    input.resize(size + CannedReplies::read_margin, '\n');
    for (size_t cut = 0; cut <= size; ++cut) {
      std::vector<char> out(1);
      size_t out_bytes = 0;
      const char* begin = input.data();
      const char* middle = canned.answer(begin, begin + cut, out, out_bytes);
      ASSERT_LE(middle, begin + cut);
      ASSERT_EQ(canned.answer(middle, begin + size, out, out_bytes), begin + size);
      std::string_view replies(out.data(), out_bytes);
      for (const Request& request : requests) {
        const ReplyCheck checked = wire_.check(request, replies);
        ASSERT_EQ(checked.status, ReplyStatus::complete) << replies;
        ASSERT_EQ(checked.hits, request.kind == RequestKind::set ? 0 : request.key_count);
        replies.remove_prefix(checked.bytes);
      }
      EXPECT_TRUE(replies.empty());
    }
  }
}

constexpr WireCase text_get{Protocol::text, 1, false};
constexpr WireCase text_multiget{Protocol::text, 6, false};
constexpr WireCase meta_get{Protocol::meta, 1, false};
constexpr WireCase meta_multiget{Protocol::meta, 6, false};

constexpr WireCase verifying(WireCase one) {
  one.verify = true;
  return one;
}

const auto light_cases = testing::Values(text_get, text_multiget, meta_get, meta_multiget);
const auto verifying_cases =
    testing::Values(verifying(text_get), verifying(text_multiget), verifying(meta_get), verifying(meta_multiget));

INSTANTIATE_TEST_SUITE_P(Light, WireTest, light_cases, name_of);
INSTANTIATE_TEST_SUITE_P(Verifying, WireTest, verifying_cases, name_of);
INSTANTIATE_TEST_SUITE_P(Verifying, VerifyingWireTest, verifying_cases, name_of);
INSTANTIATE_TEST_SUITE_P(Light, CannedRepliesTest, light_cases, name_of);

TEST(Schedule, KeepsItsIntervalsWhateverHappens) {
  Schedule open(1000, 4, 500);
  EXPECT_TRUE(open.is_open_loop());
  EXPECT_EQ(open.next_ns(), 500U);
  for (int i = 0; i < 1'000'000; ++i) open.advance();
  EXPECT_EQ(open.next_ns(), 500U + uint64_t{4'000'000} * 1'000'000);
  EXPECT_FALSE(Schedule(0, 4, 500).is_open_loop());
}

TEST(Recorder, CountsOperationsOfTheWindowAndLatenciesOfRequestsThatStartedInIt) {
  RunOptions options;
  options.warmup_s = 1e-6;  // [1000, 3000) ns after the start
  options.seconds = 2e-6;
  Recorder recorder(options, 0);
  const auto reply = [&](uint64_t start_ns, uint64_t now) {
    EXPECT_EQ(recorder.tick(now), now < 13'000);
    recorder.reply({start_ns, 0, 2, 0, RequestKind::multiget}, 1, now);
  };
  recorder.start(10'000);
  reply(10'000, 10'900);  // warm-up
  reply(10'900, 11'100);  // in the window, started before it
  reply(11'100, 12'100);
  reply(12'900, 19'000);  // started in the window, answered long after
  EXPECT_EQ(recorder.window_ops(), 4U);
  EXPECT_NEAR(recorder.window_s(), 7.9e-6, 1e-9);  // the clock was looked at no earlier
  EXPECT_EQ(recorder.latency().total(), 4U);
  EXPECT_EQ(recorder.latency().min(), 1000U);
  EXPECT_EQ(recorder.latency().max(), 6100U);
  EXPECT_EQ(recorder.gets(), 8U);
  EXPECT_EQ(recorder.misses(), 4U);
}

}  // namespace
}  // namespace tandem::bench
