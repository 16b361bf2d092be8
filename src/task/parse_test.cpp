// PP: the batch's queries, the report about the rest of the input, and the counters.
#include "task/parse.hpp"

#include <gtest/gtest.h>

#include <string_view>

#include "base/clock.hpp"

namespace tandem::task {
namespace {

using std::string_view;

class ParseTask : public testing::Test {
 protected:
  Parsed parse(string_view bytes, bool timed = false, std::uint32_t connection = 0) {
    return task::parse(counters_, batch_, {parser_, bytes.data(), bytes.data() + bytes.size(), connection}, timed);
  }
  std::uint64_t counted() const { return counters_.queries[index_of(Task::parse)].get(); }
  std::uint64_t cycles() const { return counters_.cycles[index_of(Task::parse)].get(); }

  ProtocolOptions options_;
  Clock clock_;
  Parser parser_{options_, clock_};
  Batch batch_{4};
  TaskCounters counters_;
};

TEST_F(ParseTask, AppendsQueriesOfTheConnection) {
  parse("get a\r\n");
  const Parsed parsed = parse("set key 7 0 5\r\nvalue\r\nget b c\r\nget d", false, 3);
  EXPECT_EQ(parsed.stop, ParseStop::batch_full);
  ASSERT_EQ(batch_.size(), 4u);
  EXPECT_EQ(batch_.query(0).connection, 0u);
  const Query& set = batch_.query(1);
  EXPECT_EQ(set.opcode, Opcode::store);
  EXPECT_EQ(set.key_view(), "key");
  EXPECT_EQ(string_view(set.value, set.value_bytes), "value");
  EXPECT_EQ(set.client_flags, 7u);
  EXPECT_EQ(set.connection, 3u);
  EXPECT_EQ(batch_.query(3).key_view(), "c");
  EXPECT_EQ(parsed.consumed, string_view("set key 7 0 5\r\nvalue\r\nget b c\r\n").size());
}

TEST_F(ParseTask, SaysWhyItStopped) {
  EXPECT_EQ(parse("get a\r\nget b").stop, ParseStop::need_more);
  EXPECT_EQ(parse("get b\r\nquit\r\n").stop, ParseStop::quit);
  EXPECT_EQ(parse("set large 0 0 100000\r\nbegins").stop, ParseStop::large_value);
  EXPECT_EQ(batch_.size(), 2u);
}

TEST_F(ParseTask, CountsItsQueriesAndItsTimeWhereItIsTimed) {
  parse("get a\r\n");
  EXPECT_EQ(counted(), 0u);
  EXPECT_EQ(cycles(), 0u);
  parse("get b c\r\n", true);
  EXPECT_EQ(counted(), 2u);
  EXPECT_GT(cycles(), 0u);
  EXPECT_EQ(counters_.queries[index_of(Task::search)].get(), 0u);
}

}  // namespace
}  // namespace tandem::task
