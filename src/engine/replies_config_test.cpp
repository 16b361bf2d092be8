// `config` in both protocols, in one piece and cut at every byte.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "codec/packet_builder.hpp"
#include "engine/reply_harness.hpp"

namespace tandem::codec::configs {
namespace {

using binary::packet;
using binary::response;
using std::string;
using PacketStatus = binary::Status;
namespace o = binary::opcode;

ProtocolOptions with(ConfigAccess access) {
  ProtocolOptions options;
  options.config = access;
  return options;
}

const string list =
    "1795897201\n"
    "tandem-0.tandem.example|192.0.2.10|11211 tandem-1.tandem.example|192.0.2.11|11211\n";
const string no_flags(4, '\0');

string set_line(const string& key, const string& value, const string& more = "") {
  return "config set " + key + " 0 " + std::to_string(value.size()) + more + "\r\n" + value + "\r\n";
}
string unknown(std::uint8_t opcode) {
  return response(opcode, PacketStatus::unknown_command, {.value = "Unknown command"});
}

using Talk = std::vector<std::pair<string, string>>;

// The same replies for any cut.
void expect_all_cuts(ConfigAccess access, const Talk& talk) {
  string asked, said;
  for (const auto& [request, reply] : talk) {
    asked += request;
    said += reply;
  }
  for (std::size_t cut = 0; cut <= asked.size(); ++cut) {
    ReplyHarness server(with(access));
    ASSERT_EQ(server.exchange(asked, cut), said) << "cut at " << cut;
  }
}

void expect(ConfigAccess access, const Talk& talk) {
  ReplyHarness server(with(access));
  for (const auto& [request, reply] : talk) EXPECT_EQ(server.exchange(request), reply) << request;
  expect_all_cuts(access, talk);
}

TEST(ConfigReplies, ReadsWhatClientsOfElastiCacheRead) {
  EXPECT_EQ(list.size(), 93u);
  expect(ConfigAccess::write, {{"config get cluster\r\n", "END\r\n"},
                               {set_line("cluster", list), "STORED\r\n"},
                               {"config get cluster\r\n", "CONFIG cluster 0 93\r\n" + list + "\r\nEND\r\n"},
                               {"config  get  cluster \r\n", "CONFIG cluster 0 93\r\n" + list + "\r\nEND\r\n"},
                               {"config delete cluster\r\n", "DELETED\r\n"},
                               {"config delete cluster\r\n", "NOT_FOUND\r\n"},
                               {"config get cluster\r\n", "END\r\n"},
                               {"config set x 4294967295 3\r\na\r\n\r\n", "STORED\r\n"},
                               {"config get x\r\n", "CONFIG x 4294967295 3\r\na\r\n\r\nEND\r\n"},
                               {"config set x 1 0 noreply\r\n\r\n", ""},
                               {"config get x\r\n", "CONFIG x 1 0\r\n\r\nEND\r\n"},
                               {"config delete x noreply\r\n", ""},
                               {"config delete x noreply\r\n", ""},
                               {"config get x\r\n", "END\r\n"}});
}

TEST(ConfigReplies, RefusesBadLines) {
  const string error = "ERROR\r\n", bad = "CLIENT_ERROR bad command line format\r\n", long_key(251, 'k');
  expect(ConfigAccess::write, {{"config\r\n", error},
                               {"config get\r\n", error},
                               {"config get a b\r\n", error},
                               {"config get a noreply\r\n", error},
                               {"config set a\r\n", error},
                               {"config set a 0\r\n", error},
                               {"config set a 0 1 2 3\r\n", error},
                               {"config delete\r\n", error},
                               {"config delete a b\r\n", error},
                               {"config delete a noreply b\r\n", error},
                               {"config list\r\n", error},
                               {"config GET a\r\n", error},
                               {"configs get a\r\n", error},
                               {"config get " + long_key + "\r\n", bad},
                               {"config delete " + long_key + "\r\n", bad},
                               {"config set " + long_key + " 0 1\r\n", bad},
                               {"config set a x 1\r\n", bad},
                               {"config set a 0 -1\r\n", bad},
                               {"config set a 0 x\r\n", bad},
                               {"config set a 0 1\r\nabc", "CLIENT_ERROR bad data chunk\r\n"},
                               {"\r\n", error}});
  ReplyHarness server(with(ConfigAccess::write));
  EXPECT_EQ(server.exchange(set_line("cluster", "0\na|192.0.2.1|1\n")),
            "CLIENT_ERROR config cluster begins with a line that has its version, a number from 1 to 2^53-1\r\n");
  EXPECT_EQ(server.config_store().size(), 0u);
}

TEST(ConfigReplies, ValuesHave16KiBAtMost) {
  ReplyHarness server(with(ConfigAccess::write));
  const string most(ConfigStore::value_bytes_max, 'v');
  for (const std::size_t cut : {std::size_t{30}, std::size_t{9000}, std::size_t{16400}}) {
    EXPECT_EQ(server.exchange(set_line("a", most), cut), "STORED\r\n");
    EXPECT_EQ(server.exchange("config get a\r\n"), "CONFIG a 0 16384\r\n" + most + "\r\nEND\r\n");
  }
  for (const std::size_t cut : {std::size_t{0}, std::size_t{30}, std::size_t{9000}})
    EXPECT_EQ(server.exchange(set_line("a", most + "v") + "mn\r\n", cut),
              "CLIENT_ERROR config values have at most 16384 bytes\r\nMN\r\n");
  EXPECT_EQ(server.exchange(set_line("a", most + "v", " noreply") + "mn\r\n"), "MN\r\n");
  EXPECT_EQ(server.exchange("config get a\r\n"), "CONFIG a 0 16384\r\n" + most + "\r\nEND\r\n");
}

// The value of a refused set is no command.
TEST(ConfigReplies, ReadersChangeNothing) {
  const string refused = "CLIENT_ERROR config is read-only here\r\n";
  expect(ConfigAccess::read, {{"config get cluster\r\n", "END\r\n"},
                              {set_line("a", "flush_all"), refused},
                              {set_line("a", "flush_all", " noreply"), ""},
                              {"config set a 0 2147483647\r\n", refused}});
  expect(ConfigAccess::read, {{"config delete cluster\r\n", refused},
                              {"config delete cluster noreply\r\n", ""},
                              {"config get\r\n", "ERROR\r\n"},
                              {"mn\r\n", "MN\r\n"}});
}

TEST(ConfigReplies, AServerWithoutThemSaysWhatMemcachedSays) {
  expect(ConfigAccess::none, {{"config get cluster\r\n", "ERROR\r\n"},
                              {"config set a 0 2\r\nmn\r\n", "ERROR\r\nMN\r\n"},
                              {"config delete a\r\n", "ERROR\r\n"},
                              {"config\r\n", "ERROR\r\n"}});
  Talk talk;
  for (std::uint8_t opcode = o::config_get; opcode <= o::config_list; ++opcode)
    talk.emplace_back(packet(opcode, {.key = "cluster", .extras = no_flags, .value = "v"}), unknown(opcode));
  expect(ConfigAccess::none, talk);
}

TEST(ConfigPackets, AreThoseOfTheJavaClient) {
  const string get = packet(o::config_get, {.key = "cluster"});
  const string missing = response(o::config_get, PacketStatus::not_found, {.value = "Not found"});
  expect(ConfigAccess::write,
         {{get, missing},
          {packet(o::config_set, {.key = "cluster", .extras = no_flags, .value = list}),
           response(o::config_set, PacketStatus::ok)},
          {get, response(o::config_get, PacketStatus::ok, {.extras = no_flags, .value = list})},
          {packet(o::config_delete, {.key = "cluster"}), response(o::config_delete, PacketStatus::ok)},
          {packet(o::config_delete, {.key = "cluster"}),
           response(o::config_delete, PacketStatus::not_found, {.value = "Not found"})},
          {get, missing}});
}

TEST(ConfigPackets, HaveFormsWithKeyAndQuietOnes) {
  const string noop = packet(o::noop), ended = response(o::noop, PacketStatus::ok), flags("\0\0\0\x07", 4);
  expect(ConfigAccess::write,
         {{packet(o::config_getq, {.key = "a"}) + packet(o::config_getkq, {.key = "a"}) + noop, ended},
          {packet(o::config_getk, {.key = "a"}), response(o::config_getk, PacketStatus::not_found, {.key = "a"})},
          {packet(o::config_deleteq, {.key = "a"}),
           response(o::config_deleteq, PacketStatus::not_found, {.value = "Not found"})},
          {packet(o::config_setq, {.key = "a", .extras = flags, .value = "v"}) + noop, ended},
          {packet(o::config_getq, {.key = "a"}),
           response(o::config_getq, PacketStatus::ok, {.extras = flags, .value = "v"})},
          {packet(o::config_getk, {.key = "a"}),
           response(o::config_getk, PacketStatus::ok, {.key = "a", .extras = flags, .value = "v"})},
          {packet(o::config_getkq, {.key = "a"}),
           response(o::config_getkq, PacketStatus::ok, {.key = "a", .extras = flags, .value = "v"})},
          {packet(o::config_list),
           response(o::config_list, PacketStatus::ok, {.key = "a"}) + response(o::config_list, PacketStatus::ok)},
          {packet(o::config_deleteq, {.key = "a"}) + noop, ended},
          {packet(o::config_list), response(o::config_list, PacketStatus::ok)}});
}

TEST(ConfigPackets, RefusalsChangeNothing) {
  const string value(ConfigStore::value_bytes_max + 1, 'v');
  expect(ConfigAccess::read,
         {{packet(o::config_set, {.key = "a", .extras = no_flags, .value = "v"}),
           response(o::config_set, PacketStatus::auth_error, {.value = "config is read-only here"})},
          {packet(o::config_deleteq, {.key = "a"}),
           response(o::config_deleteq, PacketStatus::auth_error, {.value = "config is read-only here"})},
          {packet(o::config_list), response(o::config_list, PacketStatus::ok)}});
  ReplyHarness server(with(ConfigAccess::write));
  EXPECT_EQ(server.exchange(packet(o::config_set, {.key = "a", .extras = no_flags, .value = value})),
            response(o::config_set, PacketStatus::too_large, {.value = "Too large."}));
  EXPECT_EQ(
      server.exchange(packet(o::config_setq, {.key = "tandem:a", .extras = no_flags, .value = "v"})),
      response(o::config_setq, PacketStatus::invalid, {.value = "keys that begin with tandem: are the server's own"}));
  EXPECT_EQ(server.config_store().size(), 0u);
  for (const string& bad :
       {packet(o::config_get), packet(o::config_set, {.key = "a", .value = "v"}),
        packet(o::config_set, {.key = "a", .extras = no_flags + no_flags, .value = "v"}),
        packet(o::config_delete, {.key = "a", .value = "v"}), packet(o::config_list, {.key = "a"})}) {
    ReplyHarness closing(with(ConfigAccess::write));
    EXPECT_EQ(closing.exchange(bad), response(static_cast<std::uint8_t>(bad[binary::at::opcode]), PacketStatus::invalid,
                                              {.value = "Invalid arguments"}));
    EXPECT_TRUE(closing.closed());
  }
}

}  // namespace
}  // namespace tandem::codec::configs
