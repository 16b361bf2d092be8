// WR: replies of all kinds in one run, over a real store.
#include "task/write_response.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "task/key_compare-inl.hpp"
#include "task/parse.hpp"
#include "task/task_fixture.hpp"

namespace tandem {
namespace {

using std::string;
using std::string_view;

class WriteResponseTask : public TaskTest {
 protected:
  // The replies to queries [begin, end) of a strip of reads.
  string answer(string_view requests, std::uint32_t begin = 0, std::uint32_t end = UINT32_MAX) {
    clear();
    Parser parser(options_, clock_);
    const task::Received received{parser, requests.data(), requests.data() + requests.size(), 0};
    EXPECT_EQ(task::parse(context_.tasks, batch_, received, false).consumed, requests.size());
    StripState state = look();
    context_.enter();
    search(state);
    for (std::uint32_t i = 0; i < batch_.size(); ++i) {
      if (batch_.query(i).opcode == Opcode::get) task::key_compare_one<CuckooIndex>(context_, batch_, state, i);
    }
    task::write_response(batch_, {begin, std::min(end, batch_.size())}, {heap_, clock_, options_, out_});
    context_.epoch.exit();
    return text();
  }
  string text() {
    string all;
    std::size_t at = 0;
    for (const Output::Segment& s : out_.externals()) {
      all.append(out_.data() + at, s.offset - at).append(s.external, s.bytes);
      at = s.offset;
      heap_.unpin(s.pin);
    }
    pinned_ = out_.pinned_bytes();
    all.append(out_.data() + at, out_.size() - at);
    out_.clear();
    return all;
  }

  ProtocolOptions options_;
  Output out_;
  std::uint64_t pinned_ = 0;
};

TEST_F(WriteResponseTask, WritesHitsMissesAndLinesInOrder) {
  set("a", "1");
  set("b", "22");
  EXPECT_EQ(answer("get a\r\nget b\r\nget none\r\nnonsense\r\nmg b v\r\nmg none v\r\nget a none b\r\n"),
            "VALUE a 0 1\r\n1\r\nEND\r\nVALUE b 0 2\r\n22\r\nEND\r\nEND\r\nERROR\r\nVA 2\r\n22\r\nEN\r\n"
            "VALUE a 0 1\r\n1\r\nVALUE b 0 2\r\n22\r\nEND\r\n");
}

TEST_F(WriteResponseTask, WritesNothingOutsideItsRun) {
  set("a", "1");
  EXPECT_EQ(answer("get a\r\nmg a v\r\nget a\r\n", 1, 2), "VA 1\r\n1\r\n");
  EXPECT_EQ(answer("get a\r\nmg a v\r\nget a\r\n", 1, 1), "");
}

TEST_F(WriteResponseTask, PinsLargeValuesAlone) {
  const string copied(copied_value_bytes_max, 'c'), pinned(copied_value_bytes_max + 1, 'p');
  set("copied", copied);
  set("pinned", pinned);
  EXPECT_EQ(answer("get copied\r\n"), "VALUE copied 0 16384\r\n" + copied + "\r\nEND\r\n");
  EXPECT_EQ(pinned_, 0u);
  EXPECT_EQ(answer("get pinned\r\n"), "VALUE pinned 0 16385\r\n" + pinned + "\r\nEND\r\n");
  EXPECT_EQ(pinned_, pinned.size());
}

}  // namespace
}  // namespace tandem
