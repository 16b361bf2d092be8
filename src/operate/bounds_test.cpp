// What clients cannot do to the server: fill its memory by not reading, hold the heap, leak slots by going away.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "net/limits.hpp"
#include "operate/server_test_client.hpp"

namespace tandem::net::test {
namespace {

constexpr std::size_t divisor = is_sanitized ? 8 : 1;
constexpr int small_window = 16 * 1024;  // receive buffer of clients that do not read

std::string value_reply(std::string_view key, std::string_view value) {
  return "VALUE " + std::string(key) + " 0 " + std::to_string(value.size()) + "\r\n" + std::string(value) + "\r\n";
}

TEST(SlowReader, HoldsLittleAndLosesNothing) {
  TestServer s(any_port(1));
  Client other(s.port());
  const std::string value = pattern(16 * 1024, 1);
  ASSERT_EQ(other.set("v", value), "STORED\r\n");
  ASSERT_EQ(other.set("w", "small"), "STORED\r\n");
  Client slow(s.port(), small_window);
  const std::string request = "get v w v missing\r\nmn\r\nget w v\r\n";
  constexpr std::size_t requests = is_sanitized ? 2500 : 5000;
  std::thread sender([&] {
    for (std::size_t i = 0; i < requests; ++i) slow.send(request);
  });
  ASSERT_TRUE(eventually([&] { return other.stat("blocked", "tandem") >= 1; }));
  std::this_thread::sleep_for(100ms);
  // The server stops reading from a client that does not read.
  EXPECT_LT(other.stat("bytes_read"), requests * request.size() / 2);
  EXPECT_LE(other.stat("unsent_bytes", "tandem"), output_bytes_max);
  EXPECT_EQ(other.get("w"), "small");
  const std::string expected = value_reply("v", value) + value_reply("w", "small") + value_reply("v", value) +
                               "END\r\nMN\r\n" + value_reply("w", "small") + value_reply("v", value) + "END\r\n";
  for (std::size_t i = 0; i < requests; ++i) ASSERT_TRUE(slow.read(expected.size()) == expected) << i;
  sender.join();
  EXPECT_EQ(other.stat("unsent_bytes", "tandem"), 0u);
  EXPECT_EQ(other.stat("closed_for_room", "tandem"), 0u);
  // Nothing was executed twice, or twice counted.
  EXPECT_EQ(other.stat("get_hits"), requests * 5 + 1);
  EXPECT_EQ(other.stat("get_misses"), requests);
}

// Writes among the requests of a blocked connection happen once each, in order.
TEST(SlowReader, WritesAreDoneOnce) {
  TestServer s(any_port(1));
  Client slow(s.port(), small_window);
  const std::string value = pattern(12'000, 2);
  ASSERT_EQ(slow.set("v", value), "STORED\r\n");
  ASSERT_EQ(slow.set("n", "0"), "STORED\r\n");
  constexpr std::size_t rounds = 3000 / divisor;
  std::string requests;
  for (std::size_t i = 0; i < rounds; ++i)
    requests += "incr n 1\r\nget v v v v v n\r\nset s 0 0 5\r\nabcde\r\nmg v v\r\nappend s 0 0 1\r\n!\r\n";
  requests += "get s\r\n";
  std::thread sender([&] { slow.send(requests); });
  Client other(s.port());
  ASSERT_TRUE(eventually([&] { return other.stat("blocked", "tandem") >= 1; }));
  for (std::size_t i = 1; i <= rounds; ++i) {
    const std::string n = std::to_string(i);
    std::string expected = n + "\r\n";
    for (int k = 0; k < 5; ++k) expected += value_reply("v", value);
    expected += value_reply("n", n) + "END\r\nSTORED\r\nVA 12000\r\n" + value + "\r\nSTORED\r\n";
    ASSERT_TRUE(slow.read(expected.size()) == expected) << i;
  }
  EXPECT_EQ(slow.read_until("END\r\n"), value_reply("s", "abcde!") + "END\r\n");
  sender.join();
}

TEST(SlowReader, PinnedValuesArriveWholeAndFewArePinned) {
  EngineOptions engine = small_engine(64);
  TestServer s(any_port(1), engine);
  Client other(s.port());
  const std::string big = pattern(900'000, 3);
  ASSERT_EQ(other.set("big", big), "STORED\r\n");
  Client slow(s.port(), small_window);
  std::string request = "get";
  constexpr std::size_t keys = 100 / divisor;
  for (std::size_t i = 0; i < keys; ++i) request += " big";
  request += "\r\n";
  slow.send(request);
  ASSERT_TRUE(eventually([&] { return other.stat("blocked", "tandem") >= 1; }));
  EXPECT_LE(other.stat("pinned_bytes", "tandem"), 2'000'000u);
  // The item may be replaced meanwhile: what was read from it stays as it was.
  for (std::size_t i = 0; i < keys; ++i)
    ASSERT_TRUE(slow.read(value_reply("big", big).size()) == value_reply("big", big)) << i;
  EXPECT_EQ(slow.read(5), "END\r\n");
  EXPECT_EQ(other.stat("pinned_bytes", "tandem"), 0u);
  EXPECT_EQ(other.stat("get_hits"), keys);
}

TEST(SlowReader, AReplacedPinnedValueIsSentAsItWas) {
  TestServer s(any_port(1), small_engine(64));
  Client other(s.port());
  const std::string before = pattern(900'000, 4);
  ASSERT_EQ(other.set("big", before), "STORED\r\n");
  Client slow(s.port(), small_window);
  // So many do not fit the kernel's buffers: the last ones are executed when the first have been read.
  std::string requests;
  for (std::uint32_t i = 0; i < 8; ++i) requests += "mg big v\r\n";
  slow.send(requests);
  ASSERT_TRUE(eventually([&] { return other.stat("pinned_bytes", "tandem") != 0; }));
  for (unsigned i = 0; i < 80 / divisor; ++i) ASSERT_EQ(other.set("big", pattern(900'000, 100 + i)), "STORED\r\n");
  ASSERT_EQ(other.ask("delete big\r\n"), "DELETED\r\n");
  const std::string expected = "VA 900000\r\n" + before + "\r\n";
  std::uint32_t hits = 0, misses = 0;
  while (hits + misses != 8) {
    const std::string begin = slow.read(4);
    if (begin == "EN\r\n") {
      ++misses;
      continue;
    }
    EXPECT_EQ(misses, 0u);
    ASSERT_TRUE(begin + slow.read(expected.size() - begin.size()) == expected) << hits;
    ++hits;
  }
  EXPECT_NE(hits, 0u);
  EXPECT_NE(misses, 0u);
}

// Many of them: at the limit of all connections together, the connection with the most is closed and the rest are
// served. A Unix socket's kernel buffers are small and do not grow.
TEST(SlowReader, TheTotalIsBounded) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const std::string path = "/tmp/tandem-bounds-test-" + std::to_string(getpid());
  ServerOptions options = any_port(2);
  options.unix_path = path;
  TestServer s(options);
  Client other(path);
  // Two strips stay below output_flush_bytes: a third is held.
  ASSERT_EQ(other.set("v", std::string(15'000, 'v')), "STORED\r\n");
  static_assert(2 * strip_queries_max * 15'050 < output_flush_bytes);
  std::string request;
  for (int i = 0; i < 200; ++i) request += "mg v v\r\n";
  std::vector<std::unique_ptr<Client>> slow;
  for (std::size_t i = 0; i < 800; ++i) {  // some 150 KiB each: what the kernel does not take of three strips
    slow.push_back(std::make_unique<Client>(path));
    slow.back()->send_some(request);
    ASSERT_LE(other.stat("unsent_bytes", "tandem"), unsent_bytes_total);
  }
  EXPECT_TRUE(eventually([&] { return other.stat("closed_for_room", "tandem") >= 1; }));
  EXPECT_LE(other.stat("unsent_bytes", "tandem"), unsent_bytes_total);
  EXPECT_GT(other.stat("unsent_bytes", "tandem"), unsent_bytes_total / 2);  // as few as needed
  EXPECT_EQ(other.set("w", "small"), "STORED\r\n");
  EXPECT_EQ(other.get("w"), "small");
  slow.clear();
  EXPECT_TRUE(eventually([&] { return other.stat("unsent_bytes", "tandem") == 0; }));
  EXPECT_TRUE(eventually([&] { return other.stat("curr_connections") == 1; }));
}

TEST(SlowReader, PinsInTotalAreBounded) {
  TestServer s(any_port(1), small_engine(64));
  Client other(s.port());
  for (int i = 0; i < 20; ++i) ASSERT_EQ(other.set("b" + std::to_string(i), std::string(900'000, 'b')), "STORED\r\n");
  // Each of these pins a value, or two.
  std::string request;
  for (int i = 0; i < 20; ++i) request += "mg b" + std::to_string(i) + " v t\r\n";
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 60; ++i) {
    slow.push_back(std::make_unique<Client>(s.port(), small_window));
    slow.back()->send(request);
    ASSERT_LE(other.stat("pinned_bytes", "tandem"), (std::uint64_t{64} << 20) / pinned_share);
  }
  EXPECT_TRUE(eventually([&] { return other.stat("closed_for_room", "tandem") >= 1; }));
  EXPECT_EQ(other.set("w", "small"), "STORED\r\n");
  slow.clear();
  EXPECT_TRUE(eventually([&] { return other.stat("pinned_bytes", "tandem") == 0; }));
}

// Each of many clients leaves a few short values lying, in every page of the store: other clients still find room, and
// what was asked for is sent as it was.
TEST(SlowReader, ShortValuesDoNotPinAllPages) {
  constexpr std::size_t value_bytes = 40'000;
  constexpr unsigned keys = 1200, clients = 200, keys_each = 6;
  const std::string path = "/tmp/tandem-pages-test-" + std::to_string(getpid());  // kernel buffers are small
  ServerOptions options = any_port(1);
  options.unix_path = path;
  TestServer s(options, small_engine(64));
  Client other(path);
  std::vector<std::string> values;
  for (unsigned i = 0; i < 16; ++i) values.push_back(pattern(value_bytes, i));
  const auto value = [&](unsigned i) -> const std::string& { return values[i * 7 % 16]; };
  const auto key = [](unsigned i) { return "k" + std::to_string(i); };
  for (unsigned i = 0; i < keys; ++i) ASSERT_EQ(other.set(key(i), value(i)), "STORED\r\n");
  std::vector<std::unique_ptr<Client>> slow;
  std::vector<std::string> expected;
  for (unsigned i = 0; i < clients; ++i) {
    std::string request, reply;
    for (unsigned j = 0; j < keys_each; ++j) {
      const unsigned number = (i * keys_each + j) % keys;
      request += "mg " + key(number) + " v\r\n";
      reply += "VA " + std::to_string(value_bytes) + "\r\n" + value(number) + "\r\n";
    }
    slow.push_back(std::make_unique<Client>(path));
    slow.back()->send(request);
    expected.push_back(reply);
  }
  ASSERT_TRUE(eventually([&] { return other.stat("blocked", "tandem") >= clients; }));
  EXPECT_GT(other.stat("pinned_bytes", "tandem"), 0u);
  EXPECT_GT(other.stat("unsent_bytes", "tandem"), value_bytes);  // copies
  for (unsigned i = 0; i < 2 * keys; ++i) ASSERT_EQ(other.set("new" + std::to_string(i), value(i)), "STORED\r\n") << i;
  for (unsigned i = 0; i < clients; ++i) EXPECT_TRUE(slow[i]->read(expected[i].size()) == expected[i]) << i;
  EXPECT_TRUE(eventually([&] { return other.stat("pinned_bytes", "tandem") == 0; }));
  EXPECT_TRUE(eventually([&] { return other.stat("unsent_bytes", "tandem") == 0; }));
  EXPECT_EQ(other.stat("closed_for_room", "tandem"), 0u);
}

TEST(SlowReader, QuitAndDisconnectWhileBlocked) {
  TestServer s(any_port(1));
  Client other(s.port());
  const std::string value = pattern(16'000, 5);
  other.set("v", value);
  for (int i = 0; i < 20; ++i) {
    Client gone(s.port(), small_window);
    std::string request;
    for (int k = 0; k < 1000; ++k) request += "get v\r\n";
    gone.send_some(request);
  }
  // Connections that are not accepted yet do not count as current ones.
  const auto all_went = [&] { return other.stat("total_connections") == 21 && other.stat("curr_connections") == 1; };
  EXPECT_TRUE(eventually(all_went));
  EXPECT_EQ(other.stat("unsent_bytes", "tandem"), 0u);
  Client quits(s.port(), small_window);
  std::string request;
  for (int k = 0; k < 600; ++k) request += "get v\r\n";
  quits.send(request + "quit\r\n");
  const std::string expected = value_reply("v", value) + "END\r\n";
  for (int k = 0; k < 600; ++k) ASSERT_TRUE(quits.read(expected.size()) == expected) << k;
  EXPECT_TRUE(quits.is_closed());
}

TEST(LargeValues, BothWays) {
  EngineOptions engine = small_engine(512);
  engine.item_bytes_max = std::uint64_t{128} << 20;
  TestServer s(any_port(2), engine);
  Client c(s.port());
  for (const std::size_t bytes : {std::size_t{8 * 1024}, std::size_t{16 * 1024}, std::size_t{100'000},
                                  std::size_t{1} << 20, std::size_t{5'000'001}, (std::size_t{64} << 20) / divisor}) {
    const std::string value = pattern(bytes, static_cast<unsigned>(bytes));
    ASSERT_EQ(c.set("v", value), "STORED\r\n") << bytes;
    ASSERT_TRUE(c.get("v") == value) << bytes;
    ASSERT_EQ(c.ask("mg v s\r\n"), "HD s" + std::to_string(bytes) + "\r\n");
  }
}

// The value's first bytes, its middle, its line end and the next command in packets of their own, at places around the
// boundaries.
TEST(LargeValues, InAnySplit) {
  TestServer s(any_port(1));
  Client c(s.port());
  const std::string value = pattern(40'000, 6);
  const std::string line = "set v 0 0 40000\r\n", request = line + value + "\r\nget v\r\nmn\r\n";
  const std::string expected = "STORED\r\n" + value_reply("v", value) + "END\r\nMN\r\n";
  const std::size_t value_end = line.size() + value.size();
  for (const std::size_t first : {line.size() - 1, line.size(), line.size() + 1, line.size() + 9000, value_end - 1}) {
    for (const std::size_t second :
         {value_end - 2, value_end, value_end + 1, value_end + 2, value_end + 3, request.size() - 1}) {
      if (second <= first) continue;
      c.send(request.substr(0, first));
      std::this_thread::sleep_for(1ms);
      c.send(request.substr(first, second - first));
      std::this_thread::sleep_for(1ms);
      c.send(request.substr(second));
      ASSERT_TRUE(c.read(expected.size()) == expected) << first << ' ' << second;
    }
  }
}

TEST(LargeValues, AMissingLineEndIsABadChunk) {
  TestServer s(any_port(1));
  Client c(s.port());
  c.set("v", "old");
  const std::string value = pattern(40'000, 7);
  c.send("set v 0 0 40000\r\n" + value.substr(0, 20'000));
  std::this_thread::sleep_for(5ms);
  c.send(value.substr(20'000) + "xx\r\nmn\r\n");
  EXPECT_EQ(c.read_line(), "CLIENT_ERROR bad data chunk\r\n");
  EXPECT_TRUE(c.read_until("MN\r\n").ends_with("MN\r\n"));
}

TEST(LargeValues, PipelinedBehindReads) {
  TestServer s(any_port(1));
  Client c(s.port(), small_window);
  const std::string value = pattern(300'000, 8), small = pattern(15'000, 9);
  ASSERT_EQ(c.set("s", small), "STORED\r\n");
  std::string requests, expected;
  for (int i = 0; i < 20; ++i) {
    for (int k = 0; k < 30; ++k) {
      requests += "get s\r\n";
      expected += value_reply("s", small) + "END\r\n";
    }
    requests += "set v 0 0 300000\r\n" + value + "\r\nget v\r\n";
    expected += "STORED\r\n" + value_reply("v", value) + "END\r\n";
  }
  std::thread sender([&] { c.send(requests); });
  std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(c.read(expected.size()) == expected);
  sender.join();
}

// Each value's command arrives with the end of the one before, in pieces of any size.
TEST(LargeValues, PipelinedBehindEachOther) {
  TestServer s(any_port(1));
  Client c(s.port());
  std::string requests, expected;
  unsigned seed = 0;
  for (const std::size_t bytes : {8'193u, 16'384u, 20'000u, 9'000u, 300'000u, 600'000u, 17'000u, 100u, 40'000u}) {
    const std::string value = pattern(bytes, ++seed);
    requests += "set v 0 0 " + std::to_string(bytes) + "\r\n" + value + "\r\nmn\r\nget v\r\n";
    expected += "STORED\r\nMN\r\n" + value_reply("v", value) + "END\r\n";
  }
  for (const std::size_t piece : {requests.size(), std::size_t{70'000}, std::size_t{1'500}}) {
    std::thread sender([&] {
      for (std::size_t at = 0; at < requests.size(); at += piece) c.send(requests.substr(at, piece));
    });
    EXPECT_TRUE(c.read(expected.size()) == expected) << piece;
    sender.join();
  }
}

TEST(LargeValues, AbandonedOnesLeaveNothing) {
  TestServer s(any_port(2), small_engine(64));
  Client other(s.port());
  for (int i = 0; i < 400; ++i) {
    Client gone(s.port());
    gone.send("set big" + std::to_string(i) + " 0 0 900000\r\n" + std::string(100'000, 'x'));
  }
  const auto all_went = [&] { return other.stat("total_connections") == 401 && other.stat("curr_connections") == 1; };
  ASSERT_TRUE(eventually(all_went));
  EXPECT_EQ(other.stat("curr_items"), 0u);
  EXPECT_EQ(other.stat("filling_bytes", "tandem"), 0u);
  // Their memory can be had again, by both workers.
  Client second(s.port());
  for (int i = 0; i < 40; ++i)
    ASSERT_EQ((i % 2 == 0 ? other : second).set("k" + std::to_string(i), std::string(900'000, 'y')), "STORED\r\n");
  EXPECT_EQ(other.stat("curr_items"), 40u);
}

// Clients that begin many large values and send nothing more cannot prevent other clients from storing.
TEST(LargeValues, UnfinishedOnesHoldAPartOfTheMemory) {
  TestServer s(any_port(2), small_engine(64));
  Client other(s.port());
  std::vector<std::unique_ptr<Client>> hogs;
  for (int i = 0; i < 100; ++i) {
    hogs.push_back(std::make_unique<Client>(s.port()));
    hogs.back()->send("set big" + std::to_string(i) + " 0 0 900000\r\nabc" + std::string(20'000, 'x'));
  }
  const auto is_refused = [](const std::unique_ptr<Client>& c) { return c->is_readable(0); };
  EXPECT_TRUE(eventually([&] { return std::ranges::count_if(hogs, is_refused) > 10; }));
  for (const auto& c : hogs) {
    if (!is_refused(c)) continue;
    const std::string line = c->read_line();  // none: on a busy machine it stood still for so long that it gave way
    EXPECT_TRUE(line == "SERVER_ERROR out of memory storing object\r\n" || line.empty()) << line;
  }
  EXPECT_LE(other.stat("filling_bytes", "tandem"), (std::uint64_t{64} << 20) / filling_share);
  EXPECT_EQ(other.set("big", std::string(200'000, 'y')), "STORED\r\n");
  EXPECT_EQ(other.set("small", "y"), "STORED\r\n");
}

// At the limits: a connection that neither reads nor sends any more is closed, and a slow one is not.
TEST(Stalled, IsClosedForOtherConnections) {
  TestServer s(any_port(1), small_engine(64));
  Client other(s.port());
  const std::string value = pattern(900'000, 3);
  ASSERT_EQ(other.set("v", value), "STORED\r\n");
  Client writer(s.port());
  writer.send("set slow 0 0 900000\r\n");
  std::vector<std::unique_ptr<Client>> still;
  for (int i = 0; i < 40; ++i) {
    still.push_back(std::make_unique<Client>(s.port()));
    still.back()->send("set big" + std::to_string(i) + " 0 0 900000\r\nabc");
    still.push_back(std::make_unique<Client>(s.port(), small_window));
    still.back()->send("get v v v\r\nget v v v\r\n");
  }
  EXPECT_TRUE(eventually([&] { return other.stat("closed_for_room", "tandem") >= 1; }));
  for (const char* held : {"filling_bytes", "pinned_bytes"})
    EXPECT_TRUE(eventually([&] { return other.stat(held, "tandem") > 30'000'000; })) << held;
  constexpr std::size_t piece = 100'000;
  bool is_stalled = false;  // as a busy machine can make it
  for (std::size_t at = 0; at < value.size(); at += piece) {
    const auto sent = std::chrono::steady_clock::now();
    writer.send(value.substr(at, piece));
    std::this_thread::sleep_for(500ms);
    is_stalled |= std::chrono::steady_clock::now() - sent > 1s;
  }
  EXPECT_EQ(other.set("w", value), "STORED\r\n");
  Client reader(s.port(), small_window);
  reader.send("get w w w w\r\n");
  std::this_thread::sleep_for(100ms);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(reader.read(value_reply("w", value).size()) == value_reply("w", value));
  EXPECT_EQ(reader.read_line(), "END\r\n");
  if (is_stalled) return;
  EXPECT_EQ(writer.ask("\r\n"), "STORED\r\n");
  EXPECT_EQ(other.get("slow"), value);
}

}  // namespace
}  // namespace tandem::net::test
