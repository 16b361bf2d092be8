#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "bench/load/canned.hpp"
#include "bench/load/codec_test_support.hpp"
#include "bench/load/recorder.hpp"

namespace tandem::load {
namespace {

using workload::OpKind;
using workload::Sizes;

constexpr std::uint64_t key_count = 20;

Options options_with(const Sizes& key_sizes, const Sizes& value_sizes, bool verify = true) {
  Options options;
  options.protocol = Protocol::meta;
  options.verify = verify;
  options.pipeline = 5;
  workload::Spec& spec = options.workloads.front();
  spec.keys = key_count;
  spec.key_bytes = key_sizes;
  spec.value_bytes = value_sizes;
  spec.mix = {};
  spec.mix[OpKind::scan] = 0.9;
  spec.mix[OpKind::insert] = 0.1;
  spec.scan_keys_max = 7;
  return options;
}

Request scan_of(std::uint64_t key, std::uint32_t items) {
  Request request{};
  request.key = key;
  request.key_count = 1;
  request.scan_items = items;
  request.kind = RequestKind::scan;
  request.op = OpKind::scan;
  return request;
}

class ScanCheck : public testing::Test {
 protected:
  const Plan plan_{options_with(Sizes::fixed(16), {workload::SizeModel::uniform, 0, 40})};
  const Plan light_{options_with(Sizes::fixed(16), {workload::SizeModel::uniform, 0, 40}, false)};
  RightReplies right_{plan_};

  static ReplyCheck check_in(const Plan& plan, const Request& request, std::string_view data) {
    // An exact-size copy: bytes past the end must not be read.
    const std::vector<char> bytes(data.begin(), data.end());
    return plan.codec_of(request).check(request, &request.key, {bytes.data(), bytes.size()});
  }
  ReplyCheck check(const Request& request, std::string_view data) const { return check_in(plan_, request, data); }

  std::string items(const Request& request, const std::vector<std::uint64_t>& numbers) const {
    std::string out;
    for (const std::uint64_t number : numbers) out += right_.item(request, number);
    return out;
  }
  // The complaint about these items and this end; empty: none.
  std::string complaint(const Request& request, const std::vector<std::uint64_t>& numbers,
                        const std::string& end) const {
    const ReplyCheck checked = check(request, items(request, numbers) + end);
    EXPECT_EQ(checked.status == ReplyStatus::wrong, !checked.what.empty());
    return std::string(checked.what);
  }
};

TEST_F(ScanCheck, AcceptsRightRepliesHoweverTheyAreCut) {
  RequestMaker maker(plan_, 0);
  Batch batch;
  int to_the_end = 0, scans = 0;
  for (int round = 0; round < 20; ++round) {
    maker.make(batch, 0);
    for (const Request& request : batch.requests) {
      if (request.kind != RequestKind::scan) continue;
      ++scans;
      const std::string whole = right_.reply(request, &request.key);
      to_the_end += whole.find(" m k") == whole.npos;
      for (const Plan* plan : {&plan_, &light_}) {
        for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
          ASSERT_EQ(check_in(*plan, request, whole.substr(0, bytes)).status, ReplyStatus::partial)
              << bytes << " of " << whole;
        }
        for (const char* more : {"", "VA 3 k", "EN n0\r\n"}) {
          const ReplyCheck checked = check_in(*plan, request, whole + more);
          ASSERT_EQ(checked.status, ReplyStatus::complete) << checked.what << whole;
          EXPECT_EQ(checked.bytes, whole.size());
          EXPECT_EQ(checked.hits, std::min<std::uint64_t>(request.scan_items, key_count - request.key));
          EXPECT_EQ(checked.missing_keys, 0U);
          EXPECT_FALSE(checked.is_cut);
        }
      }
    }
  }
  EXPECT_GT(scans, 60);
  EXPECT_GT(to_the_end, 0);
  EXPECT_LT(to_the_end, scans);
}

TEST_F(ScanCheck, RefusesEveryChangedByte) {
  for (const Request& request : {scan_of(3, 4), scan_of(18, 5), scan_of(0, 1)}) {
    const std::string whole = right_.reply(request, &request.key);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (const int change : {1, 4, 32}) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ change);
        const ReplyCheck checked = check(request, changed);
        const bool is_last_key = at > whole.rfind(" m k");
        EXPECT_TRUE(checked.status != ReplyStatus::complete || is_last_key) << at << " of " << changed;
      }
    }
  }
}

TEST_F(ScanCheck, AWrongValueIsToldFromAWrongReply) {
  const Request request = scan_of(2, 4);
  std::uint64_t number = 3;
  while (right_.value(request, number).empty()) ++number;
  ASSERT_LT(number, 6U);
  const std::string whole = right_.reply(request, &request.key);
  const std::string item = right_.item(request, number);
  std::string changed = whole;
  const std::size_t at = whole.find(item) + item.size() - 3;
  changed[at] = static_cast<char>(changed[at] ^ 1);
  const ReplyCheck checked = check(request, changed + "next");
  EXPECT_EQ(checked.status, ReplyStatus::wrong_value);
  EXPECT_EQ(checked.bytes, whole.size());
  EXPECT_EQ(checked.hits, 4U);
  EXPECT_EQ(checked.fault_at, whole.find(item));
  EXPECT_FALSE(checked.what.empty());
}

TEST_F(ScanCheck, TheFaultIsShownWithItsPlace) {
  const Request request = scan_of(2, 4);
  const std::string right = items(request, {2, 3}), whole = right + items(request, {3}) + "EN n3\r\n";
  const ReplyCheck checked = check(request, whole);
  EXPECT_EQ(checked.status, ReplyStatus::wrong);
  EXPECT_EQ(checked.fault_at, right.size());
  Recorder recorder(plan_, nullptr);
  recorder.wrong_reply(&request, checked.what, whole, checked.fault_at);
  const std::string& first = recorder.errors().first;
  EXPECT_EQ(
      first.find("a key that is not behind the one before it; asked \"mr 0000000000000002 v L4\\r\\n\"; got \"VA "), 0U)
      << first;
  EXPECT_TRUE(first.ends_with(", " + std::to_string(right.size()) + " bytes into the reply")) << first;
}

TEST_F(ScanCheck, AnotherSizeOfAnyItemIsNamed) {
  const Plan plan(options_with(Sizes::fixed(16), Sizes::fixed(5)));
  const RightReplies right(plan);
  const Request request = scan_of(2, 4);
  const std::string first = right.item(request, 2);
  const std::string whole = first + "VA 3 k" + right.key(request, 3) + "\r\nabc\r\nEN n2\r\n";
  const ReplyCheck checked = check_in(plan, request, whole);
  Recorder recorder(plan, nullptr);
  recorder.wrong_reply(&request, checked.what, whole, checked.fault_at);
  EXPECT_EQ(recorder.errors().first.find("a value of 3 bytes, where this run's has 5; asked "), 0U);
  EXPECT_EQ(recorder.errors().other_bytes, 3U);

  Recorder other(plan, nullptr);
  const std::string foreign = first + "VA 3 kuser:1\r\nabc\r\nEN n2\r\n";
  other.wrong_reply(&request, check_in(plan, request, foreign).what, foreign, first.size());
  EXPECT_EQ(other.errors().first.find("a key that is none of the workload's"), 0U) << other.errors().first;
  EXPECT_EQ(other.errors().other_bytes, 0U);
}

TEST(Scan, OnesThatWereNeverSentAreScans) {
  Options options = options_with(Sizes::fixed(16), Sizes::fixed(5));
  const Plan plan(options);
  Recorder recorder(plan, nullptr);
  recorder.begin({1'000'000, 3'000'000, 500'000});
  recorder.never_sent(10, 2'000'000, 4'000'000);
  EXPECT_EQ(recorder.latency(OpKind::scan)->total(), 10U);
  EXPECT_EQ(recorder.latency(OpKind::get), nullptr);
}

TEST_F(ScanCheck, ItemsMustBeInOrderKnownAndNotTooMany) {
  const Request request = scan_of(5, 4);
  const auto end = [&](std::size_t n, std::optional<std::uint64_t> more = std::nullopt) {
    return right_.end_of_scan(request, n, more);
  };
  EXPECT_EQ(complaint(request, {5, 6, 7, 8}, end(4, 8)), "");
  EXPECT_EQ(complaint(request, {5, 6, 7, 8}, end(4)), "");
  EXPECT_EQ(complaint(request, {}, end(0)), "");
  const std::string order = "a key that is not behind the one before it";
  EXPECT_EQ(complaint(request, {4, 5}, end(2)), order);     // before what was asked for
  EXPECT_EQ(complaint(request, {5, 7, 6}, end(3)), order);  // swapped
  EXPECT_EQ(complaint(request, {5, 6, 6}, end(3)), order);  // twice
  EXPECT_EQ(complaint(request, {5, 6}, end(2, 5)), order);  // goes on before its last
  EXPECT_EQ(complaint(request, {}, end(0, 4)), order);      // goes on before its begin
  EXPECT_EQ(complaint(request, {5, 6, 7, 8, 9}, end(5)), "more items than were asked for");
  for (const std::size_t count : {0U, 1U, 3U, 20U, 22U, 200U})
    EXPECT_EQ(complaint(request, {5, 6}, end(count)), "not the number of items") << count;
  // Keys of the workload's form, with the value of their number: other runs may have set them.
  EXPECT_EQ(complaint(request, {5, 6, 7, 1'000'000}, end(4, 1'000'000)), "");
  for (const char* key : {"user:1", "0000000000000g06", "0000000000000FF6", "006", "00000000000000006", ""}) {
    const std::string foreign = std::string(" k") + key;
    EXPECT_NE(complaint(request, {5}, "VA 3" + foreign + "\r\nabc\r\nEN n2\r\n"), "") << key;
    EXPECT_NE(complaint(request, {5}, "EN n1 m" + foreign + "\r\n"), "") << key;
  }
}

TEST_F(ScanCheck, LinesMustBeThoseOfTheProtocol) {
  const Request request = scan_of(5, 4);
  const std::string key = right_.key(request, 5);
  const std::string length = std::to_string(right_.value(request, 5).size());
  const std::string value = "\r\n" + right_.value(request, 5) + "\r\n";
  for (const std::string& text : {std::string("ERROR\r\n"),
                                  std::string("CLIENT_ERROR ranges need an ordered index (option ordered)\r\n"),
                                  std::string("SERVER_ERROR out of memory writing get response\r\n"),
                                  std::string("EN\r\n"),
                                  std::string("END\r\n"),
                                  std::string("EN n\r\n"),
                                  std::string("EN n0 \r\n"),
                                  std::string("EN n0 m\r\n"),
                                  std::string("EN n0 m k\r\n"),
                                  std::string("EN n0 b\r\n"),
                                  "EN n0 m k" + key + " b\r\n",
                                  "EN n0 m k" + key + " Oabc\r\n",
                                  "EN n0 m k" + key + "\rx",
                                  "EN n0 m k" + std::string(251, '0'),
                                  std::string("HD k") + key + "\r\nEN n1\r\n",
                                  std::string("\r\n"),
                                  std::string("\n"),
                                  std::string("VA \n"),
                                  std::string("VA x k" + key + "\r\n"),
                                  std::string(400, 'V'),
                                  std::string(24, '\x81'),
                                  std::string("VA 3 p\r\nabc\r\nEN n1\r\n"),
                                  "VALUE " + key + " 0 " + length + value + "EN n1\r\n",
                                  "VA " + length + value + "EN n1\r\n",
                                  "VA " + length + " k" + key + " f0" + value + "EN n1\r\n",
                                  "VA " + length + " k" + key + " b" + value + "EN n1\r\n",
                                  "VA " + length + " f0 k" + key + value + "EN n1\r\n",
                                  "VA 41 k" + key + "\r\n" + std::string(41, 'v') + "\r\nEN n1\r\n",
                                  "VA 4294967295 k" + key + "\r\n"})
    EXPECT_EQ(check(request, text).status, ReplyStatus::wrong) << text;
  // Without verification lengths, line ends and the number of items.
  EXPECT_EQ(check_in(light_, request, "VA 3 kx\r\nabc\r\nVA 3 ka\r\nabc\r\nEN n2 m kz\r\n").status,
            ReplyStatus::complete);
  for (const char* text : {"VA 3 kx\r\nabc\r\nEN n2\r\n", "VA 3\r\nabc\r\nEN n1\r\n", "VA 3 kx\r\nabcd\r\nEN n1\r\n",
                           "VA 41 kx\r\n", "VALUE x k 3\r\nabc\r\nEN n1\r\n", "EN\r\n", "ERROR\r\n"})
    EXPECT_EQ(check_in(light_, request, text).status, ReplyStatus::wrong) << text;
}

TEST_F(ScanCheck, AServerWithoutScansIsExplained) {
  for (const char* text : {"ERROR\r\n", "CLIENT_ERROR ranges need an ordered index (option ordered)\r\n"})
    EXPECT_NE(complaint(scan_of(0, 3), {}, text).find("--ordered"), std::string::npos) << text;
}

TEST_F(ScanCheck, KeysThatBelongIntoAScanAreMissed) {
  const auto missing = [&](const Request& request, const std::vector<std::uint64_t>& numbers,
                           std::optional<std::uint64_t> more = std::nullopt) {
    const ReplyCheck checked =
        check(request, items(request, numbers) + right_.end_of_scan(request, numbers.size(), more));
    EXPECT_EQ(checked.status, ReplyStatus::complete) << checked.what;
    EXPECT_EQ(checked.is_cut, more.has_value() && numbers.size() < request.scan_items);
    return checked.missing_keys;
  };
  const Request four = scan_of(5, 4);
  EXPECT_EQ(missing(four, {5, 6, 7, 8}, 8), 0U);
  EXPECT_EQ(missing(four, {6, 7, 8, 9}, 9), 1U);  // the first
  EXPECT_EQ(missing(four, {5, 7, 8, 9}, 9), 1U);  // a gap
  EXPECT_EQ(missing(four, {5, 6, 7}), 1U);        // an end before the last key
  EXPECT_EQ(missing(four, {}), 4U);
  EXPECT_EQ(missing(four, {5, 6}, 6), 0U);  // cut
  EXPECT_EQ(missing(four, {5}, 6), 1U);     // cut behind a key that is not there
  EXPECT_EQ(missing(four, {}, 5), 1U);
  EXPECT_EQ(missing(four, {12, 13, 14, 15}, 15), 4U);
  // Behind the last key there are only inserted ones.
  EXPECT_EQ(missing(scan_of(18, 4), {18, 19}), 0U);
  EXPECT_EQ(missing(scan_of(18, 4), {18, 19, 20, 25}, 25), 0U);
  EXPECT_EQ(missing(scan_of(18, 4), {19, 20}), 1U);
  EXPECT_EQ(missing(scan_of(20, 4), {20, 25}), 0U);
  EXPECT_EQ(missing(scan_of(20, 4), {25}), 1U);
}

// Where sizes vary, the order is not the numbers'.
TEST_F(ScanCheck, KeysOfSeveralSizes) {
  const Plan plan(options_with({workload::SizeModel::uniform, 8, 40}, Sizes::fixed(5)));
  const RightReplies right(plan);
  std::vector<std::pair<std::string, std::uint64_t>> sorted;
  const Request any = scan_of(0, 1);
  for (std::uint64_t number = 0; number < key_count; ++number) sorted.emplace_back(right.key(any, number), number);
  std::ranges::sort(sorted);
  const Request request = scan_of(sorted[3].second, 10);
  std::string whole;
  for (std::size_t i = 3; i < 13; ++i) whole += right.item(request, sorted[i].second);
  whole += right.end_of_scan(request, 10, sorted[12].second);
  const ReplyCheck good = check_in(plan, request, whole);
  EXPECT_EQ(good.status, ReplyStatus::complete) << good.what;
  EXPECT_EQ(good.missing_keys, 0U);
  const std::string late = right.item(request, sorted[4].second) + right.end_of_scan(request, 1);
  EXPECT_EQ(check_in(plan, request, late).missing_keys, 1U);
}

TEST_F(ScanCheck, TheFloorsRepliesFitWhereverTheInputIsCut) {
  const Plan plan(options_with(Sizes::fixed(16), Sizes::fixed(24), false));
  const CannedReplies canned(16, 24);
  RequestMaker maker(plan, 0);
  Batch batch;
  maker.make(batch, 0);
  std::vector<char> input(batch.buffer.begin(), batch.buffer.begin() + static_cast<std::ptrdiff_t>(batch.size));
  input.resize(batch.size + CannedReplies::read_margin, '\n');
  for (std::size_t cut = 0; cut <= batch.size; ++cut) {
    std::vector<char> out(1);
    std::size_t out_bytes = 0;
    const char* const middle = canned.answer(input.data(), input.data() + cut, out, out_bytes);
    ASSERT_EQ(canned.answer(middle, input.data() + batch.size, out, out_bytes), input.data() + batch.size);
    std::string_view replies(out.data(), out_bytes);
    for (const Request& request : batch.requests) {
      const ReplyCheck checked = check_in(plan, request, replies);
      ASSERT_EQ(checked.status, ReplyStatus::complete) << checked.what << replies;
      EXPECT_EQ(checked.hits, request.kind == RequestKind::scan ? request.scan_items : 0);
      replies.remove_prefix(checked.bytes);
    }
    EXPECT_TRUE(replies.empty());
  }
}

TEST(Scan, RequestsAreTheProtocols) {
  const Plan plan(options_with(Sizes::fixed(8), Sizes::fixed(3)));
  const Request request = scan_of(255, 100);
  std::vector<char> out(Codec::request_bytes_max(request));
  const char* const end = plan.codec_of(request).write(request, &request.key, out.data());
  EXPECT_EQ(std::string(out.data(), static_cast<std::size_t>(end - out.data())), "mr 000000ff v L100\r\n");
}

TEST(Scan, RequestsAreOfTheWorkloadsKeysAndLengths) {
  Options options;
  options.protocol = Protocol::meta;
  options.pipeline = 16;
  workload::Spec& spec = options.workloads.front();
  spec = workload::preset("ycsb-e");
  spec.keys = 1000;
  spec.scan_keys_min = 3;
  spec.scan_keys_max = 9;
  validate(options);
  const Plan plan(options);
  RequestMaker maker(plan, 0), again(plan, 0);
  Batch batch, same;
  std::map<std::uint32_t, int> lengths;
  double scans = 0, inserts = 0;
  for (int i = 0; i < 1000; ++i) {
    maker.make(batch, 0);
    again.make(same, 0);
    ASSERT_EQ(batch.bytes(), same.bytes());
    for (const Request& request : batch.requests) {
      if (request.kind == RequestKind::scan) {
        ++scans;
        EXPECT_EQ(request.op, OpKind::scan);
        EXPECT_LT(request.key, spec.keys);
        EXPECT_EQ(request.value_bytes, 0U);
        ++lengths[request.scan_items];
      } else {
        ++inserts;
        EXPECT_EQ(request.op, OpKind::insert);
        EXPECT_GE(request.key, spec.keys);
      }
    }
  }
  EXPECT_NEAR(inserts / (scans + inserts), 0.05, 5 * std::sqrt(0.05 * 0.95 / 16'000));
  EXPECT_EQ(lengths.size(), 7U);
  EXPECT_EQ(lengths.begin()->first, 3U);
}

TEST(Scan, OtherProtocolsRefuseTheReplyToOne) {
  for (const Protocol protocol : {Protocol::text, Protocol::binary, Protocol::resp}) {
    Options options;
    options.protocol = protocol;
    const Plan plan(options);
    const Request request = scan_of(0, 3);
    EXPECT_FALSE(can_ask(protocol, OpKind::scan));
    EXPECT_EQ(plan.codec_of(request).check(request, &request.key, "EN n0\r\n").status, ReplyStatus::wrong);
  }
  EXPECT_TRUE(can_ask(Protocol::meta, OpKind::scan));
  std::istringstream csv("op,key,value_bytes\nset,apple,10\n");
  const workload::Trace trace = workload::Trace::parse(csv, "test");
  const Request request = scan_of(0, 3);
  EXPECT_EQ(make_codec(Protocol::meta, Contents(trace), true)->check(request, &request.key, "EN n0\r\n").status,
            ReplyStatus::wrong);
}

TEST(Scan, IsCountedWithItsItemsAndItsOwnLatency) {
  for (const bool required : {false, true}) {
    Options options = options_with(Sizes::fixed(16), Sizes::fixed(5));
    options.require_hits = required;
    const Plan plan(options);
    Recorder recorder(plan, nullptr);
    recorder.begin({1'000'000, 3'000'000, 500'000});
    recorder.tick(1'000'000);
    Request request = scan_of(5, 10);
    request.start_ns = 1'000'000;
    ReplyCheck checked{ReplyStatus::complete, 10, 1};
    recorder.reply(request, checked, "x", 1'100'000);
    checked.hits = 6;
    checked.missing_keys = 3;
    checked.is_cut = true;
    recorder.reply(request, checked, "x", 1'200'000);
    recorder.close(2'000'000);
    const Counts counts = recorder.window_counts();
    EXPECT_EQ(counts.of(OpKind::scan), 2U);
    EXPECT_EQ(counts.all_ops(), 2U);
    EXPECT_EQ(counts.scan_items, 16U);
    EXPECT_EQ(counts.scans_cut, 1U);
    EXPECT_EQ(counts.scan_missing_keys, 3U);
    EXPECT_EQ(counts.gets, 0U);
    EXPECT_EQ(recorder.latency(OpKind::scan)->total(), 2U);
    EXPECT_EQ(recorder.latency(OpKind::get), nullptr);
    EXPECT_EQ(recorder.errors().unexpected_misses, required ? 3U : 0U);
    EXPECT_EQ(recorder.errors().first.find("a miss") == 0, required) << recorder.errors().first;
  }
}

}  // namespace
}  // namespace tandem::load
