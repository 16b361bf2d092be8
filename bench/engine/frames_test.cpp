// The in-process mode with requests of many connections and with datagrams, by the host and by a device.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/engine/plan.hpp"
#include "bench/engine/test_support.hpp"
#include "codec/ethernet_builder.hpp"

namespace tandem::bench {
namespace {

void run(const std::string& plan, WireProtocol protocol, std::uint32_t in_flight, const std::string& workload) {
  EngineSettings settings = quick({workload});
  settings.plan = plan;
  settings.protocol = protocol;
  settings.in_flight = in_flight;
  settings.batches = {256};
  Json document = new_document();
  run_engine(settings, document);
  EXPECT_EQ(errors_of(document), "") << plan << " " << to_string(protocol);
}

// Every reply is compared by the run itself.
TEST(BenchFrames, AnswersConnectionsAndDatagrams) {
  for (const WireProtocol protocol : {WireProtocol::text, WireProtocol::meta, WireProtocol::udp, WireProtocol::raw}) {
    for (const std::uint32_t in_flight : {0u, 16u}) {
      run("cpu", protocol, in_flight, "K16-G95-S");
      run("frames-sim", protocol, in_flight, "K16-G95-S");
      run("frames-sim", protocol, in_flight, "K8-G100-U");
    }
  }
}

// Keys of mixed lengths have copies, too.
TEST(BenchFrames, LeaveNoItemThatMayHaveACopy) {
  EngineSettings settings = quick({"K16..128-V2-G100-U"});
  settings.plan = "frames-sim";
  settings.batches = {256};
  Json document = new_document();
  run_engine(settings, document);
  const std::vector<Json> runs = runs_of(document, "tandem");
  ASSERT_FALSE(runs.empty());
  for (const Json& run : runs) {
    const Json& device = run["result"]["device"];
    EXPECT_EQ(device["answered"], run["result"]["ops"]);
    EXPECT_EQ(device["left"]["item"], 0);
  }
}

// Any bit of a frame that is wrong is a wrong reply: its checksums and addresses are a part of what is compared.
TEST(BenchFrames, HeadersOfRawFramesAreCompared) {
  const workload::Spec spec = workload::preset("K16-V2-G100-U");
  const workload::KeySpace keys(spec);
  const WireFormat format(WireProtocol::raw, keys);
  const WireOp ops[] = {{70000, false}, {70001, false}};
  std::string request(format.request_bytes(ops[0]), ' '), key(16, ' '), value(2, ' '), replies;
  ASSERT_EQ(request.size(), 72U);
  for (const WireOp op : ops) {
    ASSERT_EQ(format.write_request(op, request.data()), request.data() + request.size());
    ASSERT_EQ(ethernet::rfc_1071_sum(request.substr(14, 20)), 0xffffU);
    ASSERT_EQ(ethernet::udp_sum(request), 0xffffU);
    keys.write_key(op.key(), key.data());
    keys.write_value(op.key(), value.data());
    const std::string payload = request.substr(42, 8) + "VALUE " + key + " 0 2\r\n" + value + "\r\nEND\r\n";
    replies += ethernet::reply_frame(request, payload);
    ASSERT_EQ(format.reply_bytes(op), 42 + payload.size());
  }
  const auto errors_in = [&](const std::string& all) {
    ReplyErrors errors;
    format.check(ops, all, errors);
    return errors.count();
  };
  EXPECT_EQ(errors_in(replies), 0U);
  for (std::size_t bit = 0; bit < replies.size() * 8; ++bit) {
    std::string changed = replies;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    EXPECT_NE(errors_in(changed), 0U) << bit;
  }
  EXPECT_NE(errors_in(replies.substr(0, replies.size() - 1)), 0U);
  std::string without = replies;
  ethernet::put_big(without, 40, 0);
  EXPECT_NE(errors_in(without), 0U) << "replies have a checksum";
}

TEST(BenchFrames, ValuesThatAreNoFrameAreRefused) {
  EngineSettings settings = quick({"K16-V1025-G95-U"});
  settings.protocol = WireProtocol::raw;
  EXPECT_THROW(validate(settings), std::invalid_argument);
  settings.workloads = {"K16-V1024-G95-U"};
  EXPECT_NO_THROW(validate(settings));
}

// Headers are a part of what is compared.
TEST(BenchFrames, HeadersOfDatagramsAreCompared) {
  workload::Spec spec = workload::preset("K8-G100-U");
  spec.keys = 300;
  const workload::KeySpace keys(spec);
  const WireFormat format(WireProtocol::udp, keys);
  const WireOp ops[] = {{266, false}};
  std::string key(8, ' '), value(8, ' ');
  keys.write_key(266, key.data());
  keys.write_value(266, value.data());
  const std::string reply =
      std::string("\x01\x0a\0\0\0\x01\0\0", 8) + "VALUE " + key + " 0 8\r\n" + value + "\r\nEND\r\n";
  const auto errors_in = [&](const std::string& replies) {
    ReplyErrors errors;
    format.check(ops, replies, errors);
    return errors.count();
  };
  ASSERT_EQ(reply.size(), format.reply_bytes(ops[0]));
  EXPECT_EQ(errors_in(reply), 0U);
  for (std::size_t i = 0; i < 8; ++i) {
    std::string changed = reply;
    changed[i] ^= 1;
    EXPECT_EQ(errors_in(changed), 1U) << i;
  }
}

}  // namespace
}  // namespace tandem::bench
