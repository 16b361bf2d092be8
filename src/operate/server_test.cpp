// The server as clients see it: requests in any split, pipelines, closing, limits on connections.
#include "operate/server.hpp"

#include <dirent.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "net/limits.hpp"
#include "operate/server_test_client.hpp"

namespace tandem::net::test {
namespace {

constexpr int scale = is_sanitized ? 10 : 1;

int open_descriptors() {
  int count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

TEST(Server, StoresAndReadsBack) {
  TestServer s;
  Client c(s.port());
  EXPECT_EQ(c.set("key", "value"), "STORED\r\n");
  EXPECT_EQ(c.get("key"), "value");
  EXPECT_EQ(c.get("other"), "<none>");
  EXPECT_EQ(c.ask("delete key\r\n"), "DELETED\r\n");
  EXPECT_EQ(c.get("key"), "<none>");
  EXPECT_EQ(c.ask("mn\r\n"), "MN\r\n");
}

// Every split of a conversation into two packets, and one byte at a time, gets the same answer.
TEST(Server, AnswersDoNotDependOnPackets) {
  TestServer s;
  const std::string requests =
      "set a 5 0 3\r\nabc\r\nget a b a\r\ngets b\r\nset b 0 0 2 noreply\r\nxy\r\nbad\r\nmg a v f\r\nms m 3 "
      "T0\r\nqqq\r\nset c 0 0 2\r\ntoolong\r\n"
      "incr a 1\r\nget m\r\ngat 0 a b\r\ndelete a\r\ndelete b\r\ndelete m\r\nmn\r\n";
  Client whole(s.port());
  whole.send(requests);
  const std::string expected = whole.read_until("MN\r\n");
  ASSERT_NE(expected.find("VALUE a 5 3\r\nabc\r\n"), std::string::npos) << expected;
  for (std::size_t split = 1; split < requests.size(); ++split) {
    Client c(s.port());
    c.send(requests.substr(0, split));
    std::this_thread::sleep_for(200us);
    c.send(requests.substr(split));
    ASSERT_EQ(c.read_until("MN\r\n"), expected) << "split at " << split;
  }
  Client bytes(s.port());
  for (const char byte : requests) {
    bytes.send({&byte, 1});
    std::this_thread::sleep_for(50us);
  }
  EXPECT_EQ(bytes.read_until("MN\r\n"), expected);
}

TEST(Server, PipelineOfManyRequests) {
  TestServer s;
  Client c(s.port());
  constexpr int count = 100'000 / scale;
  std::string requests, expected;
  for (int i = 0; i < count; ++i) {
    const std::string key = "k" + std::to_string(i % 1000), value = "v" + std::to_string(i);
    requests +=
        "set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nget " + key + " missing\r\n";
    expected += "STORED\r\nVALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nEND\r\n";
  }
  std::thread sender([&] { EXPECT_TRUE(c.send(requests)); });
  const std::string got = c.read(expected.size());
  sender.join();
  EXPECT_TRUE(got == expected);
}

TEST(Server, MultigetOfManyKeys) {
  TestServer s;
  Client c(s.port());
  ASSERT_EQ(c.set("a", "x"), "STORED\r\n");
  constexpr int keys = 50'000 / scale;
  std::string request = "get", expected;
  for (int i = 0; i < keys; ++i) {
    request += i % 2 == 0 ? " a" : " missing";
    if (i % 2 == 0) expected += "VALUE a 0 1\r\nx\r\n";
  }
  expected += "END\r\n";
  std::thread sender([&] { c.send(request + "\r\n"); });
  EXPECT_TRUE(c.read(expected.size()) == expected);
  sender.join();
}

// A line too long for the arena is answered in a buffer of the connection, which goes when the line is answered.
TEST(Server, HotKeysAreReadWhileTheyAreThere) {
  TestServer s;
  Client c(s.port()), other(s.port());
  std::string line = "get";
  for (int i = 0; line.size() < 2 * long_input_bytes; ++i) line += " counted" + std::to_string(i % 1000);
  std::uint64_t sent = 0;
  for (int round = 0; round < 60; ++round) {  // of which a few are sampled
    ASSERT_TRUE(c.send(line));
    sent += line.size();
    ASSERT_TRUE(eventually([&] { return other.stat("bytes_read") >= sent; }));
    ASSERT_TRUE(c.send("\r\n"));
    ASSERT_EQ(c.read_line(), "END\r\n");
  }
  other.send("stats hotkeys 10\r\n");
  const std::string hot = other.read_until("END\r\n");
  int keys = 0;
  for (std::size_t at = 0; (at = hot.find(":key ", at)) != std::string::npos; ++keys)
    EXPECT_EQ(hot.compare(at += 5, 7, "counted"), 0) << hot;
  EXPECT_GT(keys, 5) << hot;
}

TEST(Server, ManyConnections) {
  ServerOptions options = any_port(4);
  options.connections_max = 2000;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4000);
  setrlimit(RLIMIT_NOFILE, &limit);
  TestServer s(options);
  const std::size_t count = std::min<std::size_t>(1000 / scale, limit.rlim_cur / 2 - 100);
  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t i = 0; i < count; ++i) clients.push_back(std::make_unique<Client>(s.port()));
  for (std::size_t round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      clients[i]->send("set k" + std::to_string(i) + " 0 0 4\r\n" + std::to_string(1000 + i) + "\r\nget k" +
                       std::to_string(i) + "\r\n");
    }
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(clients[i]->read_until("END\r\n"),
                "STORED\r\nVALUE k" + std::to_string(i) + " 0 4\r\n" + std::to_string(1000 + i) + "\r\nEND\r\n");
    }
  }
  // They are spread evenly.
  EXPECT_EQ(clients[0]->stat("curr_connections"), count);
  const auto tasks = clients[0]->stats("tandem");
  for (int w = 0; w < 4; ++w)
    EXPECT_EQ(tasks.at("worker:" + std::to_string(w) + ":connections"), std::to_string(count / 4));
}

// In one pass some inputs end with a line and some inside one: the answers of the latter wait for the rest of the pass.
TEST(Server, AnswersGoToWhoAskedForThem) {
  TestServer s(any_port(1));
  Client busy(s.port());
  std::vector<std::unique_ptr<Client>> clients;
  constexpr std::size_t count = 40;
  for (std::size_t i = 0; i < count; ++i) clients.push_back(std::make_unique<Client>(s.port()));
  std::string flood;
  while (flood.size() < std::size_t{1} << 20) flood += "set busy 0 0 1 noreply\r\nx\r\n";
  for (int round = 0; round < 20; ++round) {
    busy.send(flood);  // while it is processed, input of the other connections arrives
    for (std::size_t i = 0; i < count; ++i) {
      const std::string key = "key" + std::to_string(100 + i);
      clients[i]->send("set " + key + " 7 0 6\r\n" + key + "\r\nget " + key + "\r\n" + (i % 2 == 0 ? "ge" : ""));
    }
    for (std::size_t i = 0; i < count; i += 2) clients[i]->send("t key" + std::to_string(100 + i) + "\r\n");
    for (std::size_t i = 0; i < count; ++i) {
      const std::string key = "key" + std::to_string(100 + i), hit = "VALUE " + key + " 7 6\r\n" + key + "\r\nEND\r\n";
      const std::string expected = "STORED\r\n" + hit + (i % 2 == 0 ? hit : "");
      ASSERT_EQ(clients[i]->read(expected.size()), expected) << i;
    }
  }
}

TEST(Server, HalfClosedClientGetsItsAnswers) {
  TestServer s;
  Client c(s.port());
  c.send("set a 0 0 1\r\nx\r\nget a\r\nget a\r\nget incompl");
  c.shutdown_write();
  EXPECT_EQ(c.read_all(), "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}

TEST(Server, QuitAnswersWhatCameBefore) {
  TestServer s;
  Client c(s.port());
  c.send("set a 0 0 1\r\nx\r\nget a\r\nquit\r\nget a\r\n");
  EXPECT_EQ(c.read_all(), "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}

TEST(Server, ClosedConnectionsLeaveNothingOpen) {
  TestServer s;
  Client watcher(s.port());
  watcher.ask("mn\r\n");
  const int before = open_descriptors();
  for (int i = 0; i < 500 / scale; ++i) {
    Client c(s.port());
    if (i % 3 == 0) c.ask("set a 0 0 1\r\nx\r\n");
    if (i % 3 == 1) c.send("get a");
    if (i % 3 == 2) c.ask("get a\r\n");
  }
  // The last one may not even have been accepted yet: it did not wait for an answer.
  constexpr std::uint64_t all = 500 / scale + 1;
  EXPECT_TRUE(
      eventually([&] { return watcher.stat("total_connections") == all && watcher.stat("curr_connections") == 1; }));
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(watcher.stat("total_connections"), all);
}

TEST(ConnectionLimit, FastTellsAndCloses) {
  ServerOptions options = any_port();
  options.connections_max = 3;
  TestServer s(options);
  Client a(s.port());
  auto b = std::make_unique<Client>(s.port());
  Client c(s.port());
  ASSERT_EQ(a.ask("mn\r\n"), "MN\r\n");
  ASSERT_EQ(b->ask("mn\r\n"), "MN\r\n");
  ASSERT_EQ(c.ask("mn\r\n"), "MN\r\n");
  EXPECT_EQ(Client(s.port()).read_all(), "ERROR Too many open connections\r\n");
  EXPECT_EQ(a.stat("rejected_connections"), 1u);
  EXPECT_EQ(a.stat("total_connections"), 3u);
  b.reset();
  ASSERT_TRUE(eventually([&] { return a.stat("curr_connections") == 2; }));
  EXPECT_EQ(Client(s.port()).ask("mn\r\n"), "MN\r\n");
}

TEST(ConnectionLimit, SlowWaitsForAPlace) {
  ServerOptions options = any_port();
  options.connections_max = 2;
  options.maxconns_fast = false;
  TestServer s(options);
  Client a(s.port());
  auto b = std::make_unique<Client>(s.port());
  ASSERT_EQ(a.ask("mn\r\n"), "MN\r\n");
  ASSERT_EQ(b->ask("mn\r\n"), "MN\r\n");
  Client waiting(s.port());  // in the backlog
  waiting.send("mn\r\n");
  ASSERT_TRUE(eventually([&] { return a.stat("listen_disabled_num") == 1; }));
  EXPECT_EQ(a.stat("accepting_conns"), 0u);
  EXPECT_FALSE(waiting.is_readable(50));
  b.reset();
  EXPECT_EQ(waiting.read_line(), "MN\r\n");
  EXPECT_FALSE(a.stats().contains("rejected_connections"));  // as in memcached: none can be
}

TEST(IdleTimeout, ClosesTheIdleAlone) {
  ServerOptions options = any_port();
  options.idle_timeout_s = 3;  // asked ten times a second, also on a busy machine
  TestServer s(options);
  Client idle(s.port()), busy(s.port());
  ASSERT_EQ(idle.ask("mn\r\n"), "MN\r\n");
  while (!idle.is_readable(100)) ASSERT_EQ(busy.ask("mn\r\n"), "MN\r\n");
  EXPECT_TRUE(idle.is_closed());
  EXPECT_EQ(busy.stat("idle_kicks"), 1u);
}

TEST(Stop, UnderLoad) {
  auto s = std::make_unique<TestServer>();
  std::atomic<std::uint64_t> answers{0};
  std::atomic<int> served{0};
  constexpr int clients = 4;
  std::vector<std::thread> threads;
  for (int t = 0; t < clients; ++t) {
    threads.emplace_back([&answers, &served, port = s->port(), t] {
      Client c(port);
      const std::string value = pattern(2000, static_cast<unsigned>(t)), key = "k" + std::to_string(t);
      if (c.set(key, value) == "STORED\r\n") served.fetch_add(1);
      while (c.set(key, value) == "STORED\r\n") answers.fetch_add(1);
    });
  }
  Client idle(s->port());
  Client unread(s->port());
  unread.set("v", std::string(10'000, 'v'));
  for (int i = 0; i < 2000; ++i) unread.send_some("get v\r\n");
  Client filling(s->port());
  filling.send("set big 0 0 500000\r\nabc");
  EXPECT_TRUE(eventually([&] { return served.load() == clients && answers.load() > 100; }));
  s->server.stop();
  s->server.wait();
  EXPECT_TRUE(idle.is_closed());
  for (std::thread& t : threads) t.join();
  s.reset();
}

TEST(Stop, RepeatedAndUnused) {
  TestServer s;
  s.server.stop();
  s.server.stop();
  s.server.wait();
  s.server.wait();
  EXPECT_THROW(Client(s.port()), std::system_error);
}

// One worker: floods must not keep a quiet client from its answers.
TEST(Fairness, QuietClientBesideFloods) {
  TestServer s(any_port(1));
  Client quiet(s.port());
  quiet.set("a", "x");
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Client c(s.port());
      std::string requests;
      for (int i = 0; i < 2000; ++i)
        requests += t == 0 ? "get a a a a a a a a\r\n" : t == 1 ? "verbosity 0\r\n" : "set f 0 0 1 noreply\r\nx\r\n";
      std::thread reader([&c] {
        char sink[65536];
        while (recv(c.fd(), sink, sizeof sink, 0) > 0) {
        }
      });
      while (!done.load()) c.send(requests);
      shutdown(c.fd(), SHUT_RDWR);
      reader.join();
    });
  }
  for (int i = 0; i < 300 / scale; ++i) ASSERT_EQ(quiet.get("a"), "x");
  for (int tries = 0; quiet.stat("conn_yields") == 0; ++tries) ASSERT_LT(tries, 10'000);
  done = true;
  for (std::thread& t : threads) t.join();
}

// Statistics take long to make: a pass answers a few of a connection, and continues with other connections.
TEST(Fairness, ManyControlCommands) {
  TestServer s(any_port(1));
  Client c(s.port());
  c.set("a", "x");
  std::string requests, expected;
  for (int i = 0; i < 100; ++i) {
    requests += "verbosity 0\r\nget a\r\nflush_all 1000 noreply\r\n";
    expected += "OK\r\nVALUE a 0 1\r\nx\r\nEND\r\n";
  }
  c.send(requests);
  EXPECT_EQ(c.read(expected.size()), expected);
  EXPECT_GE(c.stat("conn_yields"), 200u / 20 - 3);  // fewer where it comes in pieces
}

// So does what copies much for few bytes of a request.
TEST(Fairness, ManyCostlyWrites) {
  TestServer s(any_port(1));
  Client c(s.port());
  constexpr std::size_t bytes = 900'000;
  // Where a device has the index, memory of what was replaced comes back when the device has been told.
  const std::size_t appends = test_index_is_on_device() ? 50 : 1500;
  ASSERT_EQ(c.set("a", std::string(bytes, 'x')), "STORED\r\n");
  std::string requests, expected;
  for (std::size_t i = 0; i < appends; ++i) {
    requests += "append a 0 0 1\r\ny\r\n";
    expected += "STORED\r\n";
  }
  c.send(requests);
  EXPECT_EQ(c.read(expected.size()), expected);
  EXPECT_EQ(c.get("a"), std::string(bytes, 'x') + std::string(appends, 'y'));
  if (!test_index_is_on_device()) {
    EXPECT_GE(c.stat("conn_yields"), 1u);
  }
}

TEST(Stats, GroupsAndReset) {
  TestServer s;
  Client c(s.port());
  c.set("a", std::string(100, 'x'));
  c.get("a");
  c.get("none");
  EXPECT_EQ(c.stat("get_hits"), 1u);
  EXPECT_EQ(c.stat("cmd_get"), 2u);
  EXPECT_EQ(c.stat("curr_items"), 1u);
  EXPECT_EQ(c.stat("limit_maxbytes"), std::uint64_t{64} << 20);
  EXPECT_EQ(c.stat("threads"), 2u);
  EXPECT_GT(c.stat("bytes_read"), 100u);
  EXPECT_EQ(c.stats("settings").at("tcpport"), std::to_string(s.port()));
  EXPECT_EQ(c.stats("sizes").at("sizes_status"), "disabled");
  const auto conns = c.stats("conns");
  int clients = 0, listeners = 0;
  for (const auto& [name, value] : conns) {
    clients += name.ends_with(":state") && value == "conn_parse_cmd" ? 1 : 0;  // it asks
    listeners += name.ends_with(":state") && value == "conn_listening" ? 1 : 0;
  }
  EXPECT_EQ(clients, 1);
  EXPECT_EQ(listeners, 1);
  const auto slabs = c.stats("slabs"), items = c.stats("items");
  EXPECT_EQ(slabs.at("active_slabs"), "1");
  std::size_t numbers = 0;
  for (const auto& [name, value] : items) numbers += name.ends_with(":number") ? std::stoul(value) : 0;
  EXPECT_EQ(numbers, 1u);
  EXPECT_EQ(c.ask("stats nosuch\r\n"), "ERROR\r\n");
  EXPECT_EQ(c.ask("stats reset\r\n"), "RESET\r\n");
  EXPECT_EQ(c.stat("get_hits"), 0u);
  EXPECT_EQ(c.stat("total_connections"), 0u);
  EXPECT_EQ(c.stat("curr_items"), 1u);
  EXPECT_LT(c.stat("bytes_read"), 100u);
}

TEST(Stats, TasksAreTimed) {
  TestServer s;
  Client c(s.port());
  // A device that answers gets whole leaves nothing of them to be timed.
  for (int i = 0; i < 200; ++i) c.ask(i % 2 == 0 ? "get a\r\n" : "mg a s\r\n");
  for (const char* task : {"RV", "PP", "Search", "KC", "WR", "SD"}) {
    if (test_index_is_on_device() && task == std::string_view("Search")) continue;  // the devices' alone
    EXPECT_GT(c.stat(std::string(task) + ":cycles", "tandem"), 0u) << task;
    EXPECT_GT(c.stat(std::string(task) + ":queries", "tandem"), 0u) << task;
  }
}

}  // namespace
}  // namespace tandem::net::test
