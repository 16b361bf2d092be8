#include "bench/compare/peers.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::bench {
namespace {

std::string message_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Peers, Parse) {
  const Peer peer = parse_peer("mine=FOO=1 ./server --port {port} --memory={memory}", Dialect::memcached);
  EXPECT_EQ(peer.name, "mine");
  EXPECT_EQ(peer.command, (std::vector<std::string>{"sh", "-c", "FOO=1 ./server --port {port} --memory={memory}"}));
  EXPECT_EQ(parse_peer("mine=./server {port}", Dialect::memcached).command.back(), "exec ./server {port}");
  EXPECT_EQ(parse_peer("mine=a; b {port}", Dialect::memcached).command.back(), "a; b {port}");
  EXPECT_FALSE(peer.udp);
  EXPECT_TRUE(peer.stores());
  EXPECT_TRUE(parse_peer("a=b {port} -U {udp_port}", Dialect::memcached).udp);
  EXPECT_FALSE(parse_peer("a=b {port} -U {udp_port}", Dialect::resp).udp);
}

TEST(Peers, ParseRefuses) {
  for (const auto& [text, message] : {std::pair{"", "NAME=COMMAND"},
                                      {"x", "NAME=COMMAND"},
                                      {"=./server {port}", "NAME=COMMAND"},
                                      {"x=./server", "must say {port}"},
                                      {"tandem=./server {port}", "cannot be called tandem"},
                                      {"floor=./server {port}", "cannot be called floor"},
                                      {"a|b=./server {port}", "control characters or |"}}) {
    const std::string said = message_of([&] { parse_peer(text, Dialect::memcached); });
    EXPECT_NE(said.find(message), std::string::npos) << text << ": " << said;
  }
}

TEST(Peers, Substitute) {
  const PeerValues values{1234, 512, 4, "16", "64", 9000};
  EXPECT_EQ(
      substitute("{port}:{udp_port} {memory}mb {threads}{threads} {key_bytes}/{value_bytes} -I {item_max} {other} {",
                 values),
      "1234:1234 512mb 44 16/64 -I 9000 {other} {");
}

// Both get the largest item of the data: values of 8 MiB would be refused.
TEST(Peers, LikeMemcachedAreToldTheLargestItem) {
  std::vector<std::string> notes;
  const std::vector<std::string> names{"memcached", "tandem"};
  for (const Peer& peer : find_peers(names, {}, false, notes)) {
    const auto option = std::ranges::find(peer.command, "-I");
    ASSERT_NE(option, peer.command.end()) << peer.name;
    EXPECT_EQ(*(option + 1), "{item_max}");
  }
}

TEST(Peers, Find) {
  std::vector<std::string> notes;
  const std::vector<Peer> extra{parse_peer("mine=x {port}", Dialect::memcached)};
  const std::vector<std::string> names{"tandem", "floor"};
  const std::vector<Peer> peers = find_peers(names, extra, true, notes);
  ASSERT_EQ(peers.size(), 4U);
  EXPECT_EQ(peers[0].name, "floor");
  EXPECT_NE(peers[0].tcp, peers[0].udp);
  EXPECT_EQ(peers[1].name, "floor");
  EXPECT_EQ(peers[1].tcp, peers[0].udp);
  EXPECT_EQ(peers[2].name, "mine");
  EXPECT_EQ(peers[3].name, "tandem");
  EXPECT_FALSE(peers[0].stores());
  EXPECT_TRUE(notes.empty());
}

TEST(Peers, FindSkipsOnlyWhatWasNotAskedFor) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  std::vector<std::string> notes;
  std::vector<std::string> names{"memcached", "redis", "tandem"};
  EXPECT_EQ(find_peers(names, {}, false, notes).size(), 1U);
  EXPECT_EQ(notes, (std::vector<std::string>{"memcached is not installed and was not measured"}));
  names.emplace_back("valkey");
  notes.clear();
  find_peers(names, {}, false, notes);
  EXPECT_EQ(notes.back(), "neither redis nor valkey is installed: not measured");
  EXPECT_EQ(message_of([&] { find_peers(names, {}, true, notes); }), "memcached is not installed");
  setenv("PATH", path.c_str(), 1);
  const std::vector<std::string> unknown{"mongodb"};
  EXPECT_NE(message_of([&] { find_peers(unknown, {}, true, notes); }).find("there is no peer mongodb"),
            std::string::npos);
  const std::vector<Peer> twins(2, parse_peer("mine=x {port}", Dialect::memcached));
  EXPECT_EQ(message_of([&] { find_peers({}, twins, true, notes); }), "two peers are called mine");
}

TEST(Processors, ReadAndWritten) {
  for (const char* text : {"0", "0,2-4", "1,2", "0-63"}) EXPECT_EQ(to_string(parse_processors(text)), text);
  EXPECT_EQ(parse_processors("3,1,1-2"), (std::vector<int>{1, 2, 3}));
  for (const char* text : {"", "a", "1-", "-1", "3-1", "1,,2", "99999", "0,"})
    EXPECT_THROW(parse_processors(text), std::invalid_argument) << text;
}

TEST(Placement, OneThreadOfEachCore) {
  const std::vector<int> allowed{0, 1, 2, 3, 4, 5, 6, 7};
  const auto by_pairs = [](int processor) { return processor / 2; };
  Placement placement = place(allowed, by_pairs, 1);
  EXPECT_EQ(placement.server, (std::vector<int>{0}));
  EXPECT_EQ(placement.load, (std::vector<int>{2, 3}));
  EXPECT_EQ(placement.note, "");
  placement = place(allowed, by_pairs, 2);
  EXPECT_EQ(placement.server, (std::vector<int>{0, 2}));
  EXPECT_EQ(placement.load, (std::vector<int>{4, 5, 6, 7}));
  // If the server has all four cores, the load has none.
  placement = place(allowed, by_pairs, 4);
  EXPECT_EQ(placement.server, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(placement.load, (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(placement.note, "the servers and the load share cores");
}

TEST(Placement, SaysWhenProcessorsAreShared) {
  const std::vector<int> one{3};
  const auto alone = [](int processor) { return processor; };
  const Placement placement = place(one, alone, 2);
  EXPECT_EQ(placement.server, one);
  EXPECT_EQ(placement.load, one);
  EXPECT_NE(placement.note, "");
  const Placement here = place_here(1);
  EXPECT_FALSE(here.server.empty());
  EXPECT_FALSE(here.load.empty());
}

TEST(RunningPeers, SayWhyTheyDoNotRun) {
  const auto start = [](const char* text, double timeout_s) {
    return message_of([&] { RunningPeer(parse_peer(text, Dialect::memcached), {}, {}, timeout_s); });
  };
  const std::string ended = start("x=echo no luck with {port}; exit 3", 1000);
  EXPECT_NE(ended.find("x ended with exit code 3; the end of its output:\nno luck with "), std::string::npos) << ended;
  const std::string silent = start("x=echo waiting; exec sleep 1000 # {port}", 2);
  EXPECT_NE(silent.find("x does not answer on port "), std::string::npos) << silent;
  EXPECT_NE(silent.find("waiting"), std::string::npos) << silent;
  const std::string missing = start("x=/no/such/program {port}", 1000);
  EXPECT_NE(missing.find("x ended with exit code 127"), std::string::npos) << missing;
}

TEST(ShellLine, CanBeReadBack) {
  const std::vector<std::string> words{"a", "b c", "", "d'e", "$f", "g=1"};
  const std::string line = shell_line(words);
  EXPECT_EQ(line, R"(a 'b c' '' 'd'\''e' '$f' g=1)");
  const ProgramResult back = run_program({"sh", "-c", "for word in " + line + "; do echo \"<$word>\"; done"}, {});
  EXPECT_EQ(back.out, "<a>\n<b c>\n<>\n<d'e>\n<$f>\n<g=1>\n");
}

}  // namespace
}  // namespace tandem::bench
