// A server with batches that go through a simulated device: clients notice none of its faults.
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "net/limits.hpp"
#include "operate/device_server_fixture.hpp"

namespace tandem::net::test {
namespace {

// Only passes where a test would hang: threads of a busy machine wait for a processor.
constexpr std::chrono::milliseconds patient{60'000};

struct DeviceServer {
  explicit DeviceServer(const SimOptions& sim = {}, Preset preset = Preset::mirrored,
                        std::chrono::milliseconds deadline = patient, unsigned threads = 2, unsigned devices = 1)
      : device(make_sim_device(sim)),
        server(options(preset, threads), engine(device, preset, deadline, sim, devices)) {}

  static ServerOptions options(Preset preset, unsigned threads) {
    ServerOptions o = any_port(threads);
    o.udp_port = -1;
    const bool is_index_there = preset == Preset::mirrored && test_index_is_on_device();
    o.preset = number_of(is_index_there ? Preset::mega_kv : preset);
    return o;
  }
  static EngineOptions engine(const std::shared_ptr<SimDevice>& device, Preset preset,
                              std::chrono::milliseconds deadline, const SimOptions& sim, unsigned devices) {
    EngineOptions o = small_engine();
    o.index_on_device = preset == Preset::mirrored && test_index_is_on_device();
    o.index_kind = row_of(preset).index_kind;
    o.device_values.bytes = row_of(preset).value_bytes(0, o.memory_bytes);
    o.devices = {device};
    for (SimOptions other = sim; o.devices.size() < devices;) {
      ++other.number;
      o.devices.insert(o.devices.begin(), make_sim_device(other));
    }
    o.scheduler.deadline = deadline;
    return o;
  }
  int port() const { return server.port(); }
  int udp() const { return server.server.udp_port(); }

  // Until the replica is there.
  void wait_until_served() {
    Client c(port());
    ASSERT_TRUE(eventually([&] { return c.stats("gpu").at("gpu:serves") == "yes"; }));
  }

  std::shared_ptr<SimDevice> device;  // the last one
  TestServer server;
};

// Each device has its share of the keys.
TEST(DeviceServer, SeveralDevicesShareTheIndex) {
  for (const unsigned devices : {2u, 4u}) {
    DeviceServer s({}, Preset::mirrored, patient, 2, devices);
    s.wait_until_served();
    talk_together(s.port(), 6, 10 / less + 1);
    Client c(s.port());
    const auto gpu = c.stats("gpu");
    EXPECT_EQ(gpu.at("gpu:count"), std::to_string(devices));
    EXPECT_EQ(gpu.at("gpu:failed_batches"), "0");
    std::uint64_t sum = 0;
    for (unsigned d = 0; d < devices; ++d) {
      const std::string prefix = "gpu:" + std::to_string(d) + ":";
      EXPECT_EQ(gpu.at(prefix + "replica_state"), "current");
      EXPECT_EQ(gpu.at(prefix + "backend"), "sim");
      const std::uint64_t queries = std::stoull(gpu.at(prefix + "queries"));
      EXPECT_GT(queries, 1000u / devices);
      EXPECT_GT(std::stoull(gpu.at(prefix + "cells_sent")), 0u);
      sum += queries;
    }
    EXPECT_EQ(std::stoull(gpu.at("gpu:queries")), sum);
  }
}

TEST(DeviceServer, AnswersAsTheHostDoes) {
  DeviceServer s;
  s.wait_until_served();
  talk_together(s.port(), 6, 20 / less + 1);
  Client c(s.port());
  const auto gpu = c.stats("gpu");
  EXPECT_EQ(gpu.at("gpu:present"), "yes");
  EXPECT_EQ(gpu.at("gpu:preset"), test_index_is_on_device() ? "mega-kv" : "mirrored");
  EXPECT_EQ(gpu.at("gpu:index"), test_index_is_on_device() ? "device" : "replica");
  EXPECT_EQ(gpu.at("gpu:replica_state"), "current");
  EXPECT_GT(std::stoull(gpu.at("gpu:launches")), 0u);
  EXPECT_GT(std::stoull(gpu.at("gpu:queries")), 1000u);
  EXPECT_EQ(gpu.at("gpu:failed_batches"), "0");
}

// With preset memcachedgpu plain reads are answered whole, from a table of sets.
TEST(DeviceServer, OverSets) {
  DeviceServer s({}, Preset::memcached_gpu);
  s.wait_until_served();
  Client c(s.port());
  const auto asked = [&] { return std::stoull(c.stats("gpu").at("gpu:requests_answered")); };
  int first = 0;
  EXPECT_TRUE(eventually([&] {
    talk_together(s.port(), 6, 10 / less + 1, first);
    first += 6;
    return asked() > 100;
  }));
  const auto gpu = c.stats("gpu");
  EXPECT_EQ(gpu.at("gpu:preset"), "memcachedgpu");
  EXPECT_EQ(gpu.at("gpu:index_kind"), "set_associative");
  EXPECT_EQ(gpu.at("gpu:replica_state"), "current");
  EXPECT_EQ(gpu.at("gpu:failed_batches"), "0");
  EXPECT_EQ(gpu.at("gpu:uploads"), "1");
}

// Answers are in flight all the time.
TEST(DeviceServer, ASlowDevice) {
  DeviceServer s({.latency = 2ms});
  s.wait_until_served();
  talk_together(s.port(), 6, 6 / less + 1);
}

TEST(DeviceServer, WithPresetAutoSmallBatchesStayWithTheHost) {
  // Queries cost so much that no disturbance hides it.
  DeviceServer s({.latency = 20ms, .lanes = 256, .lane_time = 1ms}, Preset::automatic);
  s.wait_until_served();
  talk_together(s.port(), 4, 4 / less + 1);
  Client c(s.port());
  EXPECT_EQ(c.stat("gpu:queries", "gpu"), 0u);
  const auto gpu = c.stats("gpu");
  EXPECT_GT(std::stod(gpu.at("gpu:round_trip_us")), 10'000.0);
  EXPECT_EQ(gpu.at("gpu:queries_min"), "never");  // a simulated device is no faster than a host
}

// A client that asks for little stays with the host, another with the device, over the same keys.
TEST(DeviceServer, WithPresetAutoTheThresholdMayBeSaid) {
  EngineOptions engine = DeviceServer::engine(make_sim_device({}), Preset::automatic, patient, {}, 1);
  engine.scheduler.queries_min = 8;
  TestServer s(DeviceServer::options(Preset::automatic, 1), engine);
  Client c(s.port());
  ASSERT_TRUE(eventually([&] { return c.stats("gpu").at("gpu:serves") == "yes"; }));
  EXPECT_EQ(c.stat("gpu:queries_min", "gpu"), 8u);
  const auto ask = [&c](const std::string& asked, std::size_t bytes) {
    EXPECT_TRUE(c.send(asked));
    return c.read(bytes);
  };
  const auto hit = [](const std::string& value) { return "VALUE k 0 1\r\n" + value + "\r\nEND\r\n"; };
  const std::string stored = "STORED\r\n";
  std::string requests, expected;
  for (int i = 0; i < 8; ++i) {
    requests += "set k 0 0 1\r\n" + std::to_string(i) + "\r\n";
    expected += stored;
  }
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(ask("set k 0 0 1\r\na\r\n", stored.size()), stored);
    ASSERT_EQ(ask("get k\r\n", hit("a").size()), hit("a"));
  }
  EXPECT_EQ(c.stat("gpu:batches", "gpu"), 0u);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(ask(requests, expected.size()), expected);
    ASSERT_EQ(ask("get k\r\n", hit("7").size()), hit("7"));
  }
  EXPECT_GE(c.stat("gpu:batches", "gpu"), 15u);  // a send may arrive in pieces
}

// Not bytes: of long keys, and of values, there are few.
TEST(DeviceServer, WithPresetAutoTheThresholdIsOfRequests) {
  EngineOptions engine = DeviceServer::engine(make_sim_device({}), Preset::automatic, patient, {}, 1);
  engine.scheduler.queries_min = 100;
  engine.device_values = {};
  TestServer s(DeviceServer::options(Preset::automatic, 1), engine);
  Client c(s.port());
  ASSERT_TRUE(eventually([&] { return c.stats("gpu").at("gpu:serves") == "yes"; }));
  const auto many = [](const std::string& one, int times) {
    std::string all;
    for (; times != 0; --times) all += one;
    return all;
  };
  const auto exchange = [&c](const std::string& asked, const std::string& expected) {
    EXPECT_TRUE(c.send(asked));
    EXPECT_EQ(c.read(expected.size()), expected);
  };
  const std::string key(200, 'k'), value(4000, 'v'), stored = "STORED\r\n";
  exchange("set " + key + " 0 0 1\r\na\r\nset k 0 0 1\r\nb\r\n", many(stored, 2));
  for (int i = 0; i < 20; ++i) {
    exchange(many("get " + key + "\r\n", 40), many("VALUE " + key + " 0 1\r\na\r\nEND\r\n", 40));
    exchange("set v 0 0 4000\r\n" + value + "\r\n", stored);
  }
  EXPECT_EQ(c.stat("gpu:PP:device_queries", "gpu"), 0u);
  EXPECT_TRUE(eventually([&] {
    exchange(many("get k\r\n", 200), many("VALUE k 0 1\r\nb\r\nEND\r\n", 200));
    return c.stat("gpu:PP:device_queries", "gpu") >= 1000;
  }));
}

TEST(DeviceServer, WithPresetCpuNothingIsHandedOver) {
  DeviceServer s({}, Preset::cpu);
  talk_together(s.port(), 4, 2);
  Client c(s.port());
  EXPECT_EQ(c.stat("gpu:batches", "gpu"), 0u);
}

class DeviceServerFaults : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Of, DeviceServerFaults, testing::Values(1u, 2u),
                         [](const auto& of) { return std::to_string(of.param); });

// Each fault comes in the middle of verified load, which goes on. Of two devices one is enough to end the service of
// both.
TEST_P(DeviceServerFaults, LosesItsDevice) {
  const std::string prefix = GetParam() == 1 ? "gpu:" : "gpu:1:";
  for (const char* fault : {"lose", "hang", "abandon", "fail", "refuse"}) {
    SCOPED_TRACE(fault);
    const std::string_view f = fault;
    // It must not be lost before the fault.
    DeviceServer s({.latency = 200us}, Preset::mirrored, f == "hang" ? 600ms : patient, 2, GetParam());
    s.wait_until_served();
    std::thread load([&] { talk_together(s.port(), 4, 30 / less + 2); });
    std::this_thread::sleep_for(10ms);
    if (f == "lose") s.device->lose();
    if (f == "hang") s.device->hang();
    if (f == "abandon") s.device->abandon();
    if (f == "fail") s.device->fail(2);
    if (f == "refuse") s.device->refuse(2);
    load.join();
    const bool goes_on = f == "fail" || f == "refuse";
    Client c(s.port());
    if (goes_on && test_index_is_on_device() && s.device->lost()) {
      // A change has failed: the contents of the device are unknown.
      EXPECT_EQ(c.stats("gpu").at("gpu:serves"), "no");
    } else if (goes_on) {
      const auto gpu = c.stats("gpu");
      const auto count = [&](const std::string& name) { return std::stoull(gpu.at(prefix + name)); };
      EXPECT_GT(count("failed_batches") + count("refused_batches") + count("failures"), 0u);
    } else {
      // The hang ends when the deadline has passed.
      const auto end = std::chrono::steady_clock::now() + 60s;
      while (c.stats("gpu").count(prefix + "lost") == 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(1ms);
      const auto gpu = c.stats("gpu");
      EXPECT_EQ(gpu.at("gpu:serves"), "no");
      EXPECT_EQ(gpu.count(prefix + "lost"), 1u);
    }
    talk(s.port(), 99, 2);
    if (!test_index_is_on_device() || !goes_on) {
      EXPECT_EQ(s.device->lost(), !goes_on);
    }
  }
}

TEST(DeviceServer, ClientsThatGoAwayOrDoNotRead) {
  DeviceServer s({.latency = 500us});
  s.wait_until_served();
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&, i] {
      for (int n = 0; !stop.load(); ++n) {
        Client c(s.port());
        std::string requests;
        for (int k = 0; k < 500; ++k) requests += "set x" + std::to_string(i) + " 0 0 3\r\nabc\r\nget x0 x1 x2\r\n";
        c.send(n % 3 == 2 ? requests + "quit\r\n" : requests);
        if (n % 3 == 0) c.read(10);
      }
    });
  }
  // Asks for more than its socket holds and reads it late.
  Client slow(s.port(), 4096);
  const std::string value(8000, 'v');
  ASSERT_EQ(slow.set("big", value), "STORED\r\n");
  std::string requests;
  constexpr int asked = 1000;
  for (int i = 0; i < asked; ++i) requests += "get big\r\n";
  std::thread sender([&] { EXPECT_TRUE(slow.send(requests)); });
  talk_together(s.port(), 3, 4 / less + 1);
  const std::string one = "VALUE big 0 8000\r\n" + value + "\r\nEND\r\n";
  for (int i = 0; i < asked; ++i) ASSERT_TRUE(slow.read(one.size()) == one);
  sender.join();
  stop = true;
  for (std::thread& t : others) t.join();
}

// More than a batch and more than an arena of one client, control commands, and large values, in one pipeline.
TEST(DeviceServer, OneLongPipeline) {
  DeviceServer s({.latency = 100us});
  s.wait_until_served();
  Client c(s.port());
  const std::string large(300'000, 'x');
  std::string requests = "set large 0 0 300000\r\n" + large + "\r\n", expected = "STORED\r\n";
  const int count = 3 * static_cast<int>(device_batch_queries) / (less == 1 ? 1 : 2);
  for (int i = 0; i < count; ++i) {
    const std::string v = std::to_string(i);
    requests += "set k 0 0 " + std::to_string(v.size()) + "\r\n" + v + "\r\nget k none\r\n";
    expected += "STORED\r\nVALUE k 0 " + std::to_string(v.size()) + "\r\n" + v + "\r\nEND\r\n";
    if (i % 1000 == 500) {
      requests += "verbosity 0\r\nset large 0 0 300000\r\n" + large + "\r\nget large\r\n";
      expected += "OK\r\nSTORED\r\nVALUE large 0 300000\r\n" + large + "\r\nEND\r\n";
    }
  }
  std::thread sender([&] { EXPECT_TRUE(c.send(requests)); });
  EXPECT_TRUE(c.read(expected.size()) == expected);
  sender.join();
}

// A store with a device that has the values of items, and answers reads whole.
struct ValuesServer {
  explicit ValuesServer(const SimOptions& sim) : server(options(), engine(sim)) {
    Client c(server.port());
    EXPECT_TRUE(eventually([&] { return c.stats("gpu").at("gpu:serves") == "yes"; }));
  }
  static ServerOptions options() {
    ServerOptions o = any_port(1);
    o.preset = number_of(Preset::mirrored);
    return o;
  }
  static EngineOptions engine(const SimOptions& sim) {
    EngineOptions o = small_engine();
    o.index_on_device = false;
    o.devices = {make_sim_device(sim)};
    o.device_values = {.bytes = std::uint64_t{16} << 20};
    o.scheduler.deadline = patient;
    return o;
  }
  std::uint64_t answered_by_device() {
    Client c(server.port());
    return c.stat("gpu:requests_answered", "gpu");
  }
  TestServer server;
};

std::string hit_of(const std::string& key, const std::string& value) {
  return "VALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nEND\r\n";
}

// Input that ends at a cache line is followed, in the input arena, by that of another client.
TEST(DeviceServer, InputOfWholeCacheLines) {
  ValuesServer s({.latency = 2ms});
  constexpr int clients = 8, gets = 4;
  const auto key_of = [](int client, int k) {
    return "c" + std::to_string(client) + "k0000" + std::to_string(100 + k);
  };
  std::vector<std::thread> threads;
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&, client] {
      Client c(s.server.port());
      std::string requests, expected;
      for (int k = 0; k < gets; ++k) {
        const std::string key = key_of(client, k), value = "value of " + key;
        ASSERT_EQ(c.set(key, value), "STORED\r\n");
        requests += "get " + key + "\r\n";
        expected += hit_of(key, value);
      }
      ASSERT_EQ(requests.size() % cache_line_bytes, 0u);
      for (int round = 0; round < 100 / less + 1; ++round) {
        c.send(requests);
        ASSERT_EQ(c.read(expected.size()), expected);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_GT(s.answered_by_device(), 0u);
}

// Sets, deletes and gets of a client's own keys, `rounds` pipelines of them, each with the replies that they must have.
// Returns the number of gets.
std::uint64_t mixed_pipelines(ValuesServer& s, int client, unsigned seed, int rounds) {
  constexpr int keys = 40;
  Client c(s.server.port());
  std::map<std::string, std::string> model;
  std::mt19937 random(seed);
  const auto below = [&random](unsigned n) { return static_cast<unsigned>(random() % n); };
  std::uint64_t reads = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string requests, expected;
    for (unsigned n = 1 + below(30); n != 0; --n) {
      const std::string key =
          "k" + std::to_string(client) + ":" + std::to_string(seed) + ":" + std::to_string(below(keys));
      if (round == 0 || below(8) == 0) {
        // One of the lengths rewrites the item in place; one value reads like requests.
        const std::string value = below(9) == 0 ? "\r\nget " + key + "\r\n" : std::to_string(1000 + below(9000));
        model[key] = value;
        requests += "set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
        expected += "STORED\r\n";
      } else if (below(40) == 0) {
        requests += "delete " + key + "\r\n";
        expected += model.erase(key) != 0 ? "DELETED\r\n" : "NOT_FOUND\r\n";
      } else {
        requests += "get " + key + "\r\n";
        const auto at = model.find(key);
        expected += at == model.end() ? "END\r\n" : hit_of(key, at->second);
        ++reads;
      }
    }
    c.send(requests);
    const std::string answer = c.read(expected.size());
    EXPECT_EQ(answer, expected) << "client " << client << ", round " << round;
    if (answer != expected) break;
  }
  return reads;
}

// The device answers much of what stands behind sets of other keys, and nothing of the keys that were set. On a busy
// machine its answers come too late, and are the host's: then again.
TEST(DeviceServer, PipelinesWithSets) {
  ValuesServer s({.latency = 200us});
  constexpr int clients = 6, rounds = 200;
  constexpr unsigned passes_max = 20;
  std::uint64_t all = 0;
  bool is_enough = false;
  for (unsigned pass = 0; pass < passes_max && !is_enough && !HasFailure(); ++pass) {
    std::atomic<std::uint64_t> reads{0};
    const std::uint64_t before = s.answered_by_device();
    std::vector<std::thread> threads;
    for (int client = 0; client < clients; ++client) {
      threads.emplace_back([&, client] {
        reads += mixed_pipelines(s, client, pass * clients + static_cast<unsigned>(client), rounds / less + 1);
      });
    }
    for (std::thread& t : threads) t.join();
    all += reads;
    is_enough = s.answered_by_device() - before > reads / 4;
  }
  EXPECT_TRUE(is_enough);
  Client c(s.server.port());
  EXPECT_EQ(c.stat("cmd_get"), all);
}

TEST(DeviceServer, Datagrams) {
  DeviceServer s({.latency = 100us});
  s.wait_until_served();
  UdpClient c(s.udp());
  EXPECT_EQ(c.ask(1, "set a 0 0 3\r\nabc\r\n"), "STORED\r\n");
  constexpr std::uint16_t count = 300;
  for (std::uint16_t id = 10; id < 10 + count; ++id) {
    c.send(id, "get a\r\n");
    if (id % 50 == 0) std::this_thread::sleep_for(5ms);
  }
  for (std::uint16_t id = 10; id < 10 + count; ++id)
    ASSERT_EQ(c.receive_reply(id), "VALUE a 0 3\r\nabc\r\nEND\r\n") << id;
  std::string keys;
  for (int i = 0; i < 5000; ++i) keys += " b";
  EXPECT_EQ(c.ask(5, "get a" + keys + "\r\n"), "VALUE a 0 3\r\nabc\r\nEND\r\n");
}

// Whatever is in flight is answered before the server stops.
TEST(DeviceServer, StopsWhileBatchesAreInFlight) {
  for (int i = 0; i < 20 / less + 1; ++i) {
    auto s = std::make_unique<DeviceServer>(SimOptions{.latency = 20ms});
    s->wait_until_served();
    Client c(s->port());
    const SchedulerCounters& counters = (*s->server.engine.schedulers())[0].counters();
    const std::uint64_t before = counters.batches.get();
    c.send("set a 0 0 1\r\nx\r\nget a\r\n");
    ASSERT_TRUE(eventually([&] { return counters.batches.get() > before; }));
    std::this_thread::sleep_for(std::chrono::microseconds(300 * i));
    s.reset();
    EXPECT_EQ(c.read_all(), "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
  }
}

// What a worker waits for is not its client's turn: what the device has found meanwhile is answered.
TEST(DeviceServer, ATurnDoesNotEndByWaiting) {
  EngineOptions engine = small_engine();
  engine.devices = {make_sim_device({.latency = 20ms})};
  engine.index_on_device = true;
  engine.device_values = {};
  engine.scheduler.steal = false;
  engine.scheduler.deadline = patient;
  TestServer s(DeviceServer::options(Preset::mega_kv, 1), engine);
  Client c(s.port());
  std::string requests, expected;
  for (int i = 0; i < 1000; ++i) {
    requests += "get k" + std::to_string(i) + "\r\n";
    expected += "END\r\n";
  }
  for (int round = 0; round < 3; ++round) {
    c.send(requests);
    ASSERT_EQ(c.read(expected.size()), expected);
  }
  EXPECT_LT(c.stat("conn_yields"), 100u);  // a strip has eight to 128 gets
}

// A connection with a large value that begins in this pass has an entry, and may be in flight, however long it was
// silent.
TEST(DeviceServer, NoConnectionOfThisPassIsClosedAsStalled) {
  DeviceServer s({.latency = 100us}, Preset::mirrored, patient, 1);
  s.wait_until_served();
  Client other(s.port());
  ASSERT_EQ(other.set("x", "1"), "STORED\r\n");
  const std::string hit = "VALUE x 0 1\r\n1\r\nEND\r\n";
  std::vector<std::unique_ptr<Client>> hogs, readers, writers;
  for (int i = 0; i < 36; ++i) {
    hogs.push_back(std::make_unique<Client>(s.port()));
    hogs.back()->send("set hog" + std::to_string(i) + " 0 0 900000\r\nabc");
  }
  for (int i = 0; i < 10; ++i) readers.push_back(std::make_unique<Client>(s.port()));
  for (int i = 0; i < 20; ++i) writers.push_back(std::make_unique<Client>(s.port()));
  for (auto& c : readers) ASSERT_EQ(c->ask("get x\r\n"), "VALUE x 0 1\r\n");
  for (auto& c : writers) ASSERT_EQ(c->ask("mn\r\n"), "MN\r\n");
  for (auto& c : hogs) c->send("abc");
  s.device->slow(45'000);  // a search takes 4.5 s
  for (auto& c : readers) c->send("get x\r\n");
  for (std::size_t i = 0; i < writers.size(); ++i)
    writers[i]->send("get x\r\nset c" + std::to_string(i) + " 0 0 900000\r\nabc");
  std::this_thread::sleep_for(1s);
  for (auto& c : readers) c->send("get x\r\n");  // the worker waits for a batch to come back
  std::this_thread::sleep_for(3500ms);
  s.device->slow(1);
  for (auto& c : writers) EXPECT_EQ(c->read(hit.size()), hit);
  EXPECT_EQ(other.get("x"), "1");
}

}  // namespace
}  // namespace tandem::net::test
