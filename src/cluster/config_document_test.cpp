#include "cluster/config_document.hpp"

#include <gtest/gtest.h>

#include <string>

#include "cluster/control_replies.hpp"
#include "codec/config_store.hpp"

namespace tandem::cluster {
namespace {

const FleetConfig example{.version = 1'795'897'201,
                          .places = {{{"cache-0.example.com", "192.0.2.10", 11211}},
                                     {{"gone.example.com", "192.0.2.12", 11211}, 1'795'897'200},
                                     {{"cache-1.example.com", "2001:db8::1", 11212}}}};

TEST(ConfigDocument, IsWhatTheServerTakes) {
  const std::string document = document_of(example);
  EXPECT_EQ(document, "1795897201\ncache-0.example.com|192.0.2.10|11211 cache-1.example.com|2001:db8::1|11212\n");
  EXPECT_EQ(ConfigStore().set(ConfigStore::cluster, 0, document), "");
  const auto read = read_document(document);
  ASSERT_TRUE(read);
  EXPECT_EQ(document_of(*read), document);
  EXPECT_EQ(document_of({}), "");
}

TEST(ConfigDocument, RefusesWhatItWouldNotWrite) {
  for (const char* text : {"", "\n", "1\n", "1\n\n", "0\na|192.0.2.1|1\n", "1\na|192.0.2.1|1", "1\na|192.0.2.1|1 \n",
                           "1\n a|192.0.2.1|1\n", "1\na|192.0.2.1|1\n\n", "1\nA|192.0.2.1|1\n", "1\na|192.0.2|1\n",
                           "1\na|192.0.2.1|0\n", "1\na|192.0.2.1|65536\n", "1\na|192.0.2.1|1 a|192.0.2.2|1\n",
                           "9007199254740992\na|192.0.2.1|1\n", "1\na|192.0.2.1\n", "-1\na|192.0.2.1|1\n"})
    EXPECT_FALSE(read_document(text)) << text;
}

TEST(ConfigDocument, KeepsAllInJson) {
  EXPECT_EQ(config_from_json(to_json(example)), example);
  const MemberRecord record{example.places[0].node, MemberState::leaving, "b", 7};
  EXPECT_EQ(record_from_json(to_json(record)), record);
  for (const char* text : {"", "[]", "{}", R"({"version":0,"nodes":[]})", R"({"version":1,"nodes":[]})",
                           R"({"version":-1,"nodes":[{"host":"a","ip":"192.0.2.1","port":1}]})",
                           R"({"version":1,"nodes":[{"host":"A","ip":"192.0.2.1","port":1}]})",
                           R"({"version":1,"nodes":[{"host":"a","ip":"192.0.2.1","port":4294967297}]})",
                           R"({"version":1,"nodes":[{"host":"a","ip":"192.0.2.1","port":1,"out_since":2}]})",
                           R"({"version":1,"nodes":[{"host":"a","ip":"192.0.2.1","port":1,"out_since":1}]})"})
    EXPECT_FALSE(config_from_json(text)) << text;
  for (const char* text : {"{}", R"({"host":"a","ip":"192.0.2.1","port":1,"state":"asleep","boot":"b","serves":0})",
                           R"({"host":"a","ip":"192.0.2.1","port":1,"state":"serving","boot":7,"serves":0})"})
    EXPECT_FALSE(record_from_json(text)) << text;
}

TEST(ControlReplies, AreReadWhereverTheyAreCut) {
  const std::string bytes =
      "CONFIG cluster 0 5\r\nEND\r\n\r\nEND\r\nEND\r\nSTORED\r\nVALUE k 0 0\r\n\r\nEND\r\nCLIENT_ERROR x\r\n";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    ControlReplies replies;
    std::string found;
    for (const std::string& part : {bytes.substr(0, cut), bytes.substr(cut)}) {
      replies.feed(part);
      while (const auto reply = replies.next()) found += (reply->is_value ? "value " : "") + reply->text + ';';
    }
    EXPECT_EQ(found, "value END\r\n;END;STORED;value ;CLIENT_ERROR x;") << cut;
    EXPECT_FALSE(replies.is_broken());
  }
  for (const char* wrong : {"VALUE k 0 -1\r\n", "CONFIG k 0 99999999999\r\n", "VALUE k 0 1\r\nab\r\nEND\r\n"}) {
    ControlReplies replies;
    replies.feed(wrong);
    EXPECT_FALSE(replies.next());
    EXPECT_TRUE(replies.is_broken()) << wrong;
  }
}

}  // namespace
}  // namespace tandem::cluster
