// getk in the in-process mode: beside get, and parsing of its replies.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "bench/engine/subject.hpp"
#include "bench/engine/test_support.hpp"

namespace tandem::bench {
namespace {

TEST(BenchEngine, GetkTakesTurnsWithGet) {
  for (const char* workload : {"K8-G95-U", "K16-G100-S"}) {
    EngineSettings settings = quick({workload});
    settings.protocol = WireProtocol::meta;
    settings.getk = true;
    settings.subjects.clear();
    settings.batches = {1, 128};
    Json document = new_document();
    const Json cells = run_engine(settings, document);
    EXPECT_EQ(errors_of(document), "");
    const std::vector<Json> gets = runs_of(document, subject_wire), getks = runs_of(document, subject_wire_getk);
    ASSERT_EQ(gets.size(), 2U);
    ASSERT_EQ(getks.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      const Json &get = gets[i]["result"], &getk = getks[i]["result"];
      EXPECT_EQ(getk["gets"], get["gets"]) << "the same operations";
      EXPECT_EQ(getk["hits"], getk["gets"]);
      EXPECT_EQ(getk["other_keys"], 0);
      const auto reads = get["gets"].get<std::uint64_t>();
      EXPECT_EQ(getk["bytes_sent"], get["bytes_sent"].get<std::uint64_t>() + 2 * reads);
      EXPECT_EQ(getk["bytes_received"],
                get["bytes_received"].get<std::uint64_t>() + (2 + (workload[1] == '8' ? 8 : 16)) * reads);
      EXPECT_TRUE(getks[i]["settings"]["getk"]);
      EXPECT_FALSE(gets[i]["settings"].contains("getk"));
    }
    EXPECT_EQ(runs_of(document, subject_embedded_getk).size(), 2U);
    for (const Json& cell : cells) {
      std::size_t ratios = 0;
      for (const Json& c : cell["comparisons"]) ratios += c["base"] == subject_wire || c["base"] == subject_embedded;
      EXPECT_EQ(ratios, 2U);
    }
    EXPECT_NE(engine_getk(cells).find("answers of another key: 0"), std::string::npos);
  }
  EngineSettings text = quick({"K8-G95-U"});
  text.getk = true;
  EXPECT_THROW(validate(text), std::invalid_argument);
}

// A correct one, one for another key, a miss, and an invalid one.
TEST(BenchEngine, RepliesToGetkAreTakenApart) {
  workload::Spec spec = workload::preset("K8-G100-U");
  spec.keys = 10;
  const workload::KeySpace keys(spec);
  const WireFormat format(WireProtocol::meta, keys, true);
  const auto reply = [&](std::uint64_t key) {
    std::string k(8, ' '), v(8, ' ');
    keys.write_key(key, k.data());
    keys.write_value(key, v.data());
    return "VA 8 k" + k + "\r\n" + v + "\r\n";
  };
  const WireOp ops[] = {{1, false}, {2, false}};
  const auto check = [&](const std::string& replies) {
    ReplyErrors errors;
    format.check(ops, replies, errors);
    return errors;
  };
  ASSERT_EQ(reply(1).size(), format.reply_bytes(ops[0]));
  EXPECT_EQ(check(reply(1) + reply(2)).count(), 0U);
  EXPECT_EQ(check(reply(1) + reply(2)).other_keys, 0U);
  EXPECT_EQ(check(reply(1) + reply(3)).count(), 0U);
  EXPECT_EQ(check(reply(1) + reply(3)).other_keys, 1U);
  EXPECT_EQ(check(reply(1) + "EN kwhatever\r\n").unexpected_misses, 1U);
  std::string changed = reply(1) + reply(2);
  changed[changed.size() - 3] ^= 1;
  EXPECT_EQ(check(changed).wrong_values, 1U);
  EXPECT_EQ(check(reply(1) + "VA 8\r\n12345678\r\n").wrong_replies, 1U);
  EXPECT_EQ(check(reply(1) + reply(2).substr(0, 20)).wrong_replies, 1U);
}

}  // namespace
}  // namespace tandem::bench
