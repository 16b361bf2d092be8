// Dumps and watchers over connections: whole, cut off, and beside other clients.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "operate/server_test_client.hpp"

namespace tandem::net::test {
namespace {

using std::string;

string stores(int from, int to, int bytes) {
  string requests;
  for (int i = from; i < to; ++i) {
    requests += "set key" + std::to_string(i) + " 0 0 " + std::to_string(bytes) + " noreply\r\n" +
                string(static_cast<std::size_t>(bytes), 'v') + "\r\n";
  }
  return requests;
}

std::multiset<string> lines_of(const string& text) {
  std::multiset<string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.insert(text.substr(at, end - at));
    at = end == string::npos ? text.size() : end + 1;
  }
  return lines;
}

TEST(Streams, ADumpShowsEachItemOnceAndThenTheConnectionGoesOn) {
  constexpr int items = 20'000;
  TestServer server;
  Client client(server.port());
  client.send(stores(0, items, 40));
  client.send("set gone 0 -1 1\r\nx\r\nget key0\r\nlru_crawler mgdump all\r\nget key1\r\nmn\r\n");
  EXPECT_EQ(client.read_line(), "STORED\r\n");
  EXPECT_TRUE(client.read_until("END\r\n").starts_with("VALUE key0 "));
  const string dump = client.read_until("EN\r\n");
  std::multiset<string> expected{"EN\r"};
  for (int i = 0; i < items; ++i) expected.insert("mg key" + std::to_string(i) + "\r");
  EXPECT_EQ(lines_of(dump), expected);
  EXPECT_TRUE(client.read_until("END\r\n").starts_with("VALUE key1 "));
  EXPECT_EQ(client.read_line(), "MN\r\n");
}

TEST(Streams, QuitBehindADumpWaitsForIt) {
  TestServer server;
  Client client(server.port());
  client.send(stores(0, 5000, 40) + "lru_crawler metadump all\r\nquit\r\n");
  const string all = client.read_all();
  EXPECT_EQ(lines_of(all).size(), 5001u);
  EXPECT_TRUE(all.ends_with("\nEND\r\n"));
}

TEST(Streams, ADumpOfAClientThatHasEndedItsSideIsSentWhole) {
  TestServer server;
  Client client(server.port());
  client.send(stores(0, 5000, 40) + "lru_crawler metadump all\r\n");
  shutdown(client.fd(), SHUT_WR);
  EXPECT_TRUE(client.read_all().ends_with("\nEND\r\n"));
}

TEST(Streams, OneDumpAtATimeAndOthersAreServedMeanwhile) {
  TestServer server(any_port(1));
  Client writer(server.port());
  writer.send(stores(0, 100'000, 10) + "mn\r\n");
  EXPECT_EQ(writer.read_line(), "MN\r\n");
  Client dumper(server.port(), 4096);
  dumper.send("lru_crawler metadump all\r\n");
  EXPECT_TRUE(dumper.is_readable(patience_ms));  // it has begun, and its client does not read
  writer.send("lru_crawler metadump all\r\nget key7\r\n");
  EXPECT_EQ(writer.read_line(), "BUSY currently processing crawler request\r\n");
  EXPECT_TRUE(writer.read_until("END\r\n").starts_with("VALUE key7 "));
  EXPECT_EQ(lines_of(dumper.read_until("END\r\n")).size(), 100'001u);
  writer.send("lru_crawler mgdump 1\r\n");
  EXPECT_TRUE(writer.read_until("EN\r\n").starts_with("mg key"));
}

TEST(Streams, ClientsThatGoAwayLeaveNothing) {
  TestServer server(any_port(1));
  Client writer(server.port());
  writer.send(stores(0, 50'000, 10) + "mn\r\n");
  EXPECT_EQ(writer.read_line(), "MN\r\n");
  for (int i = 0; i < 30; ++i) {
    Client dumper(server.port(), 4096), watcher(server.port(), 4096);
    dumper.send("stats cachedump 1 0\r\nlru_crawler metadump all\r\n");
    watcher.send("watch fetchers mutations connevents\r\n");
    EXPECT_EQ(watcher.read_line(), "OK\r\n");
    dumper.read(100);
  }
  for (;;) {
    writer.send("stats\r\n");
    const string stats = writer.read_until("END\r\n");
    if (stats.find("STAT curr_connections 1\r\n") != string::npos) {
      EXPECT_NE(stats.find("STAT log_watchers 0\r\n"), string::npos);
      break;
    }
    std::this_thread::yield();
  }
  writer.send("lru_crawler mgdump all\r\n");
  EXPECT_TRUE(writer.read_until("EN\r\n").starts_with("mg "));
}

TEST(Streams, AWatcherThatDoesNotReadLosesLinesAndOthersGoOn) {
  ServerOptions options = any_port(1);
  options.watcher_log_kib = 4;
  TestServer server(options);
  Client watcher(server.port(), 4096), client(server.port());
  watcher.send("watch fetchers\r\n");
  EXPECT_EQ(watcher.read_line(), "OK\r\n");
  string gets;
  for (int i = 0; i < 100; ++i) gets += "get key\r\n";
  for (;;) {
    client.send(gets + "stats\r\n");
    for (int i = 0; i < 100; ++i) ASSERT_EQ(client.read_line(), "END\r\n");
    const string stats = client.read_until("END\r\n");
    if (stats.find("STAT log_watcher_skipped 0\r\n") == string::npos) break;
  }
  // The notice comes with the next line that has room.
  std::atomic<bool> done{false};
  std::thread goes_on([&] {
    while (!done.load()) {
      client.send("get key\r\n");
      client.read_line();
    }
  });
  const string lines = watcher.read_until("skipped=");
  done = true;
  goes_on.join();
  EXPECT_NE(lines.find("type=item_get key=key status=not_found clsid=0 cfd="), string::npos);
}

TEST(Streams, DumpsAndWatchersAreNotForDatagrams) {
  ServerOptions options = any_port(1);
  options.udp_port = -1;
  TestServer server(options);
  UdpClient client(server.server.udp_port());
  for (const char* line : {"watch\r\n", "lru_crawler metadump all\r\n", "stats cachedump 1 0\r\n"})
    EXPECT_EQ(client.ask(1, line), "ERROR\r\n") << line;
}

TEST(Streams, ShutdownEndsTheServer) {
  ServerOptions options = any_port(1);
  options.shutdown_enabled = true;
  TestServer server(options);
  Client client(server.port());
  client.send("shutdown graceful\r\n");
  EXPECT_TRUE(client.is_closed());
  server.server.wait();
}

}  // namespace
}  // namespace tandem::net::test
