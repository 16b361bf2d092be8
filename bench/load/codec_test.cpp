#include "bench/load/codec.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "bench/load/canned.hpp"
#include "bench/load/codec_test_support.hpp"
#include "bench/load/plan.hpp"

namespace tandem::load {
namespace {

using workload::OpKind;
using workload::Sizes;

struct Case {
  Protocol protocol;
  std::uint32_t multiget;
  bool verify;
  Sizes sizes;  // of values
  bool getk = false;
};

constexpr const char* protocol_names[] = {"text", "meta", "binary", "resp"};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return std::string(protocol_names[static_cast<std::size_t>(info.param.protocol)]) + '_' +
         std::to_string(info.param.multiget) + (info.param.verify ? "_verify" : "_light") +
         (info.param.getk ? "_getk" : "") + (info.param.sizes.low == info.param.sizes.high ? "" : "_sizes");
}

Options options_of(const Case& given) {
  Options options;
  options.protocol = given.protocol;
  options.verify = given.verify;
  options.getk = given.getk;
  options.pipeline = 5;
  options.multiget = given.multiget;
  workload::Spec& spec = options.workloads.front();
  spec.keys = 20;  // few, so that a multiget often names one twice
  spec.value_bytes = given.sizes;
  spec.ttl_s = 90;
  spec.mix = {};
  spec.mix[OpKind::get] = 0.7;
  spec.mix[OpKind::set] = 0.15;
  spec.mix[OpKind::remove] = 0.1;
  spec.mix[OpKind::touch] = 0.05;
  return options;
}

class CodecTest : public testing::TestWithParam<Case> {
 protected:
  const Plan plan_{options_of(GetParam())};
  RequestMaker maker_{plan_, 0};
  RightReplies right_{plan_};
  Batch batch_;

  ReplyCheck check(const Request& request, const std::uint64_t* keys, std::string_view data) const {
    return plan_.codec_of(request).check(request, keys, data);
  }
};

TEST_P(CodecTest, AcceptsRightRepliesHoweverTheyAreCut) {
  for (int round = 0; round < 10; ++round) {
    maker_.make(batch_, 0);
    for_each_request(batch_, [&](const Request& request, const std::uint64_t* keys) {
      for (const std::uint32_t missing : {UINT32_MAX, 0U, request.key_count - 1}) {
        if (request.kind == RequestKind::set && missing != UINT32_MAX) continue;
        const std::string whole = right_.reply(request, keys, missing);
        for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
          // Bytes past the end must not be read.
          const std::vector<char> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
          ASSERT_EQ(check(request, keys, {part.data(), bytes}).status, ReplyStatus::partial) << bytes << whole;
        }
        for (const char* more : {"", "VALUE STORED", "\x81", "$3\r\n"}) {
          const ReplyCheck checked = check(request, keys, whole + more);
          ASSERT_EQ(checked.status, ReplyStatus::complete) << checked.what << whole;
          EXPECT_EQ(checked.bytes, whole.size());
          const std::uint32_t found = request.key_count - (missing == UINT32_MAX ? 0 : 1);
          EXPECT_EQ(checked.hits, request.kind == RequestKind::set ? 0 : found);
        }
      }
    });
  }
}

TEST_P(CodecTest, RefusesWhatIsNoReply) {
  maker_.make(batch_, 0);
  for_each_request(batch_, [&](const Request& request, const std::uint64_t* keys) {
    std::vector<std::string> wrong{"ERROR\r\n",
                                   "SERVER_ERROR out of memory storing object\r\n",
                                   "NOT_STORED\r\n",
                                   "\r\n",
                                   "\n",
                                   "VALUE \n",
                                   "VA \n",
                                   "VA x\r\n",
                                   "CLIENT_ERROR bad data chunk\r\n",
                                   "VALUE k 0 3\r\nabc\r\nEND\r\n",
                                   "VA 3\r\nabc\r\n",
                                   std::string(400, 'V'),
                                   std::string(24, '\x81'),
                                   std::string(48, '\0')};
    for (const std::string& text : wrong) EXPECT_EQ(check(request, keys, text).status, ReplyStatus::wrong) << text;
    const std::string whole = right_.reply(request, keys);
    // Checks of lengths alone do not notice an extra byte in a key.
    for (const std::size_t at : {GetParam().verify ? whole.size() / 2 : 1, std::size_t{1}}) {
      std::string longer = whole;
      longer.insert(at, 1, 'x');
      const ReplyCheck checked = check(request, keys, longer + longer);
      EXPECT_TRUE(checked.status >= ReplyStatus::wrong_value || checked.other_keys == 1) << longer;
    }
  });
}

TEST_P(CodecTest, TheFloorsRepliesFitWhereverTheInputIsCut) {
  if (GetParam().verify || GetParam().sizes.low != GetParam().sizes.high) return;  // their values are not compared
  if (GetParam().protocol == Protocol::resp) return;                               // the floor does not support it
  const CannedReplies canned(16, GetParam().sizes.low);
  for (int round = 0; round < 5; ++round) {
    maker_.make(batch_, 0);
    std::vector<char> input(batch_.buffer.begin(), batch_.buffer.begin() + static_cast<std::ptrdiff_t>(batch_.size));
    input.resize(batch_.size + CannedReplies::read_margin, '\n');
    for (std::size_t cut = 0; cut <= batch_.size; ++cut) {
      std::vector<char> out(1);
      std::size_t out_bytes = 0;
      const char* begin = input.data();
      const char* middle = canned.answer(begin, begin + cut, out, out_bytes);
      ASSERT_LE(middle, begin + cut);
      ASSERT_EQ(canned.answer(middle, begin + batch_.size, out, out_bytes), begin + batch_.size);
      std::string_view replies(out.data(), out_bytes);
      for_each_request(batch_, [&](const Request& request, const std::uint64_t* keys) {
        const ReplyCheck checked = check(request, keys, replies);
        ASSERT_EQ(checked.status, ReplyStatus::complete) << checked.what << replies;
        ASSERT_EQ(checked.hits, request.kind == RequestKind::set ? 0 : request.key_count);
        replies.remove_prefix(checked.bytes);
      });
      EXPECT_TRUE(replies.empty());
    }
  }
}

class VerifyingCodecTest : public CodecTest {};

// Every byte except a binary reply's CAS identifier, which the server chooses, and what memcached leaves open.
TEST_P(VerifyingCodecTest, RefusesEveryChangedByte) {
  namespace b = codec::binary;
  for (int round = 0; round < 5; ++round) {
    maker_.make(batch_, 0);
    for_each_request(batch_, [&](const Request& request, const std::uint64_t* keys) {
      const bool is_binary = GetParam().protocol == Protocol::binary;
      const std::string whole = right_.reply(request, keys);
      for (std::size_t at = 0; at < whole.size(); ++at) {
        if (is_binary && request.kind != RequestKind::get && request.kind != RequestKind::set) continue;
        if (is_binary && ((at >= b::at::cas && at < b::at::end) || at == b::at::data_type)) continue;
        if (is_binary && request.kind == RequestKind::set &&
            (at == b::at::key_bytes || at == b::at::key_bytes + 1 || at == b::at::extras_bytes))
          continue;
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ 4);
        const ReplyCheck checked = check(request, keys, changed);
        const bool is_in_key = GetParam().getk && changed.find(" k" + right_.key(request, keys[0])) == changed.npos;
        EXPECT_TRUE(checked.status != ReplyStatus::complete || (is_in_key && checked.other_keys == 1))
            << at << " of " << whole;
        EXPECT_LE(checked.other_keys, is_in_key ? 1U : 0U) << at << " of " << whole;
      }
    });
  }
}

TEST_P(VerifyingCodecTest, AWrongValueIsToldFromAWrongReply) {
  for (int round = 0; round < 5; ++round) {
    maker_.make(batch_, 0);
    for_each_request(batch_, [&](const Request& request, const std::uint64_t* keys) {
      if (request.kind != RequestKind::get && request.kind != RequestKind::multiget) return;
      const std::string value = right_.value(request, keys[0]);
      std::string reply = right_.reply(request, keys);
      const std::size_t at = reply.find(value);
      for (const std::size_t offset : {std::size_t{0}, value.size() / 2, value.size() - 1}) {
        std::string changed = reply;
        changed[at + offset] = static_cast<char>(changed[at + offset] ^ 1);
        const ReplyCheck checked = check(request, keys, changed + "next");
        EXPECT_EQ(checked.status, ReplyStatus::wrong_value);
        EXPECT_EQ(checked.bytes, reply.size());
        EXPECT_EQ(checked.hits, request.key_count);
        EXPECT_FALSE(checked.what.empty());
      }
    });
  }
}

TEST_P(VerifyingCodecTest, RefusesAnotherKeysValueAndSwappedKeys) {
  int swapped = 0;
  for (int round = 0; round < 20; ++round) {
    maker_.make(batch_, 0);
    for_each_request(batch_, [&](const Request& request, const std::uint64_t* keys) {
      if (request.kind != RequestKind::get && request.kind != RequestKind::multiget) return;
      std::vector<std::uint64_t> others(keys, keys + request.key_count);
      if (request.kind == RequestKind::get) {
        others[0] = (others[0] + 1) % 20;
      } else {
        if (others.front() == others.back()) return;
        std::swap(others.front(), others.back());
      }
      ++swapped;
      const ReplyCheck checked = check(request, keys, right_.reply(request, others.data()));
      if (GetParam().getk) {
        EXPECT_EQ(checked.status, ReplyStatus::complete);
        EXPECT_EQ(checked.hits, 0U);
        EXPECT_EQ(checked.other_keys, 1U);
        EXPECT_EQ(checked.bytes, right_.reply(request, others.data()).size());
      } else {
        EXPECT_NE(checked.status, ReplyStatus::complete);
        EXPECT_EQ(checked.other_keys, 0U);
      }
    });
  }
  EXPECT_GT(swapped, 20);
}

std::vector<Case> cases(bool verify) {
  std::vector<Case> all;
  for (const Protocol protocol : {Protocol::text, Protocol::meta, Protocol::binary, Protocol::resp}) {
    for (const std::uint32_t multiget : {1U, 6U}) {
      all.push_back({protocol, multiget, verify, Sizes::fixed(24)});
      all.push_back({protocol, multiget, verify, {workload::SizeModel::uniform, 1, 120}});
    }
  }
  all.push_back({Protocol::meta, 1, verify, Sizes::fixed(24), true});
  all.push_back({Protocol::meta, 1, verify, {workload::SizeModel::uniform, 1, 120}, true});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Light, CodecTest, testing::ValuesIn(cases(false)), name_of);
INSTANTIATE_TEST_SUITE_P(Verifying, CodecTest, testing::ValuesIn(cases(true)), name_of);
INSTANTIATE_TEST_SUITE_P(Verifying, VerifyingCodecTest, testing::ValuesIn(cases(true)), name_of);

// The bytes of each request, once, as in memcached's protocol.txt.
TEST(Codec, RequestsAreTheProtocols) {
  workload::Spec spec;
  spec.key_bytes = Sizes::fixed(8);
  spec.value_bytes = Sizes::fixed(3);
  const workload::KeySpace keys(spec);
  const auto written = [&](Protocol protocol, RequestKind kind, std::uint32_t key_count, std::uint32_t ttl_s,
                           bool getk = false) {
    const auto codec = make_codec(protocol, Contents(keys), true, getk);
    Request request{};
    request.key = 1;
    request.key_count = key_count;
    request.kind = kind;
    request.value_bytes = kind == RequestKind::set ? 3 : 0;
    request.ttl_s = ttl_s;
    request.opaque = 7;
    const std::uint64_t numbers[] = {1, 255};
    std::vector<char> out(Codec::request_bytes_max(request));
    std::string text(out.data(), static_cast<std::size_t>(codec->write(request, numbers, out.data()) - out.data()));
    char value[3];
    keys.write_value(1, value);
    if (const std::size_t at = text.find(std::string_view(value, 3)); kind == RequestKind::set && at != text.npos)
      text.replace(at, 3, "<v>");
    return text;
  };
  using enum RequestKind;
  EXPECT_EQ(written(Protocol::text, get, 1, 0), "get 00000001\r\n");
  EXPECT_EQ(written(Protocol::text, multiget, 2, 0), "get 00000001 000000ff\r\n");
  EXPECT_EQ(written(Protocol::text, set, 1, 0), "set 00000001 0 0 3\r\n<v>\r\n");
  EXPECT_EQ(written(Protocol::text, set, 1, 60), "set 00000001 0 60 3\r\n<v>\r\n");
  EXPECT_EQ(written(Protocol::text, remove, 1, 0), "delete 00000001\r\n");
  EXPECT_EQ(written(Protocol::text, touch, 1, 60), "touch 00000001 60\r\n");
  EXPECT_EQ(written(Protocol::meta, get, 1, 0), "mg 00000001 v\r\n");
  EXPECT_EQ(written(Protocol::meta, get, 1, 0, true), "mg 00000001 v K\r\n");
  EXPECT_EQ(written(Protocol::meta, set, 1, 0, true), "ms 00000001 3\r\n<v>\r\n");
  EXPECT_EQ(written(Protocol::meta, multiget, 2, 0), "mg 00000001 k v q\r\nmg 000000ff k v q\r\nmn\r\n");
  EXPECT_EQ(written(Protocol::meta, set, 1, 0), "ms 00000001 3\r\n<v>\r\n");
  EXPECT_EQ(written(Protocol::meta, set, 1, 60), "ms 00000001 3 T60\r\n<v>\r\n");
  EXPECT_EQ(written(Protocol::meta, remove, 1, 0), "md 00000001\r\n");
  EXPECT_EQ(written(Protocol::meta, touch, 1, 60), "mg 00000001 T60\r\n");
  EXPECT_EQ(written(Protocol::resp, get, 1, 0), "*2\r\n$3\r\nGET\r\n$8\r\n00000001\r\n");
  EXPECT_EQ(written(Protocol::resp, multiget, 2, 0), "*3\r\n$4\r\nMGET\r\n$8\r\n00000001\r\n$8\r\n000000ff\r\n");
  EXPECT_EQ(written(Protocol::resp, set, 1, 0), "*3\r\n$3\r\nSET\r\n$8\r\n00000001\r\n$3\r\n<v>\r\n");
  EXPECT_EQ(written(Protocol::resp, set, 1, 60),
            "*5\r\n$3\r\nSET\r\n$8\r\n00000001\r\n$3\r\n<v>\r\n$2\r\nEX\r\n$2\r\n60\r\n");
  EXPECT_EQ(written(Protocol::resp, remove, 1, 0), "*2\r\n$3\r\nDEL\r\n$8\r\n00000001\r\n");
  EXPECT_EQ(written(Protocol::resp, touch, 1, 60), "*3\r\n$6\r\nEXPIRE\r\n$8\r\n00000001\r\n$2\r\n60\r\n");
  EXPECT_EQ(written(Protocol::resp, touch, 1, 0), "*2\r\n$5\r\nTOUCH\r\n$8\r\n00000001\r\n");
  const auto head = [](std::uint8_t opcode, char extras, char key, char body, char opaque) {
    std::string out(24, '\0');
    out[0] = '\x80';
    out[1] = static_cast<char>(opcode);
    out[3] = key;
    out[4] = extras;
    out[11] = body;
    out[15] = opaque;
    return out;
  };
  const std::string none(4, '\0'), minute("\0\0\0\x3c", 4);
  EXPECT_EQ(written(Protocol::binary, get, 1, 0), head(0x00, 0, 8, 8, 7) + "00000001");
  EXPECT_EQ(written(Protocol::binary, multiget, 2, 0),
            head(0x0d, 0, 8, 8, 7) + "00000001" + head(0x0d, 0, 8, 8, 8) + "000000ff" + head(0x0a, 0, 0, 0, 9));
  EXPECT_EQ(written(Protocol::binary, set, 1, 60), head(0x01, 8, 8, 19, 7) + none + minute + "00000001<v>");
  EXPECT_EQ(written(Protocol::binary, remove, 1, 0), head(0x04, 0, 8, 8, 7) + "00000001");
  EXPECT_EQ(written(Protocol::binary, touch, 1, 60), head(0x1c, 4, 8, 12, 7) + minute + "00000001");
}

// Lengths known only from the reply, as in a trace.
TEST(Codec, ATracesValuesMayHaveAnyLength) {
  std::istringstream csv("op,key,value_bytes\nset,apple,10\nget,apple,\nget,pear,\n");
  const workload::Trace trace = workload::Trace::parse(csv, "test");
  for (const Protocol protocol : {Protocol::text, Protocol::meta}) {
    const bool is_text = protocol == Protocol::text;
    const auto codec = make_codec(protocol, Contents(trace), true);
    Request request{};
    request.key_count = 2;
    request.kind = RequestKind::multiget;
    const std::uint64_t numbers[] = {0, 1};
    const auto item = [&](std::uint32_t key, std::uint32_t bytes) {
      std::string value(bytes, '\0');
      workload::Trace::write_value(key, bytes, value.data());
      const std::string name(trace.key(key)), length = std::to_string(bytes);
      return (is_text ? "VALUE " + name + " 0 " + length : "VA " + length + " k" + name) + "\r\n" + value + "\r\n";
    };
    const std::string end = is_text ? "END\r\n" : "MN\r\n";
    for (const std::uint32_t bytes : {0U, 1U, 10U, 1000U}) {
      const ReplyCheck good = codec->check(request, numbers, item(0, bytes) + item(1, 7) + end);
      EXPECT_EQ(good.status, ReplyStatus::complete) << good.what;
      EXPECT_EQ(good.hits, 2U);
    }
    EXPECT_EQ(codec->check(request, numbers, item(1, 7) + end).hits, 1U);
    EXPECT_EQ(codec->check(request, numbers, item(1, 7) + item(0, 7) + end).status, ReplyStatus::wrong);
    std::string other = item(0, 20);
    other[other.size() - 5] = static_cast<char>(other[other.size() - 5] ^ 1);
    EXPECT_EQ(codec->check(request, numbers, other + end).status, ReplyStatus::wrong_value);
  }
}

}  // namespace
}  // namespace tandem::load
