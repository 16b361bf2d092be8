#include <gtest/gtest.h>

#include <sstream>

#include "bench/load/codecs.hpp"

namespace tandem::load {
namespace {

// codec_test.cpp has the tests for all codecs.
TEST(RespCodec, ATracesValuesMayHaveAnyLength) {
  std::istringstream csv("op,key,value_bytes\nset,apple,10\nget,apple,\nget,pear,\n");
  const workload::Trace trace = workload::Trace::parse(csv, "test");
  const RespCodec codec(Contents(trace), true);
  Request request{};
  request.kind = RequestKind::multiget;
  request.key_count = 2;
  const std::uint64_t numbers[] = {0, 1};
  const auto item = [&](std::uint32_t key, std::uint32_t bytes) {
    std::string value(bytes, '\0');
    workload::Trace::write_value(key, bytes, value.data());
    return "$" + std::to_string(bytes) + "\r\n" + value + "\r\n";
  };
  for (const std::uint32_t bytes : {0U, 1U, 10U, 1000U}) {
    const ReplyCheck good = codec.check(request, numbers, "*2\r\n" + item(0, bytes) + item(1, 7));
    EXPECT_EQ(good.status, ReplyStatus::complete) << good.what;
    EXPECT_EQ(good.hits, 2U);
  }
  EXPECT_EQ(codec.check(request, numbers, "*2\r\n$-1\r\n" + item(1, 7)).hits, 1U);
  EXPECT_EQ(codec.check(request, numbers, "*2\r\n" + item(1, 7) + item(0, 7)).status, ReplyStatus::wrong_value);
  EXPECT_EQ(codec.check(request, numbers, "*2\r\n$4000000000\r\n").status, ReplyStatus::wrong);
}

TEST(RespCodec, LengthsThatAreNone) {
  const workload::Spec spec;
  const workload::KeySpace keys(spec);
  const RespCodec codec(Contents(keys), true);
  Request request{};
  request.key_count = 1;
  request.kind = RequestKind::get;
  for (const char* reply : {"$", "$6", "$64", "$64\r", "$64\r\n", "$-", "$-1", "$-1\r"})
    EXPECT_EQ(codec.check(request, &request.key, reply).status, ReplyStatus::partial) << reply;
  for (const char* reply :
       {"$\n", "$\r\n", "$-2\r\n", "$+64\r\n", "$64 \r\n", "$64\n", "$0x40\r\n", "$99999999999\r\n",
        "$6400000000000000", "*1\r\n", "-ERR unknown command\r\n", "-WRONGTYPE x\r\n", ":1\r\n", "_\r\n"})
    EXPECT_EQ(codec.check(request, &request.key, reply).status, ReplyStatus::wrong) << reply;
  EXPECT_EQ(codec.check(request, &request.key, "$-1\r\n").hits, 0U);
}

}  // namespace
}  // namespace tandem::load
