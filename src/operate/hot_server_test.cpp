// A server whose hot keys are answered ahead of a device: clients notice nothing of it, whatever they do meanwhile.
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "operate/device_server_fixture.hpp"

namespace tandem::net::test {
namespace {

// All keys turn hot that are stored and asked for.
struct HotServer {
  explicit HotServer(unsigned threads = 2)
      : device(make_sim_device({.latency = 50us})), server(options(threads), engine(device)) {
    std::array<std::uint8_t, 1> all{1};
    heats = server.engine.set_hot_model(HotModel::of_bins(all));
  }
  static ServerOptions options(unsigned threads) {
    ServerOptions o = any_port(threads);
    o.udp_port = -1;
    o.preset = number_of(Preset::kvcg);
    return o;
  }
  static EngineOptions engine(const std::shared_ptr<SimDevice>& device) {
    EngineOptions o = small_engine();
    o.devices = {device};
    o.index_on_device = true;
    o.device_values = {};
    o.scheduler.steal = false;
    o.scheduler.deadline = std::chrono::milliseconds(60'000);
    o.hot_memory_bytes = 64 << 10;
    o.learns_hot_keys = false;
    return o;
  }
  std::uint64_t stat(Client& c, const std::string& name) { return std::stoull(c.stats("gpu").at("gpu:hot_" + name)); }
  // Stores the key, and asks for it until it is hot.
  void heat(Client& c, const std::string& key, const std::string& value) {
    const std::uint64_t before = stat(c, "keys");
    ASSERT_EQ(c.set(key, value), "STORED\r\n");
    ASSERT_TRUE(eventually([&] { return c.get(key) == value && stat(c, "keys") > before; }, 10s));
  }

  std::shared_ptr<SimDevice> device;
  TestServer server;
  bool heats = false;
};

TEST(HotServer, AnswersAsTheHostDoes) {
  HotServer s;
  ASSERT_TRUE(s.heats);
  talk_together(s.server.port(), 6, 20 / less + 1);
  Client c(s.server.port());
  EXPECT_GT(s.stat(c, "promoted"), 10u);
  s.heat(c, "h", "hot");
  const std::uint64_t before = s.stat(c, "queries");
  for (int i = 0; i < 10; ++i) ASSERT_EQ(c.get("h"), "hot");
  EXPECT_GE(s.stat(c, "queries"), before + 10);
}

TEST(HotServer, KeepsTheOrderOfAConnection) {
  HotServer s(1);
  Client c(s.server.port());
  s.heat(c, "h", "hot");
  const std::string hit = "VALUE h 0 3\r\nhot\r\nEND\r\n";
  const std::uint64_t before = s.stat(c, "queries");
  for (int i = 0; i < 50; ++i) {
    c.send("get h\r\nget cold\r\nget h\r\nmg h v\r\nget h cold h\r\ngat 0 h cold\r\n");
    const std::string all = hit + "END\r\n" + hit + "VA 3\r\nhot\r\n" + "VALUE h 0 3\r\nhot\r\n" + hit + hit;
    ASSERT_EQ(c.read(all.size()), all);
  }
  EXPECT_GE(s.stat(c, "queries"), before + 50);
}

// Each command of a datagram has its reply, also if a line of it has hot keys before cold ones.
TEST(HotServer, AnswersDatagrams) {
  HotServer s(1);
  Client c(s.server.port());
  UdpClient udp(s.server.server.udp_port());
  s.heat(c, "h", "hot");
  const std::string hit = "VALUE h 0 3\r\nhot\r\nEND\r\n";
  for (std::uint16_t i = 1; i < 50; ++i) {
    ASSERT_EQ(udp.ask(i, "get h\r\n"), hit);
    ASSERT_EQ(udp.ask(i, "gat 0 h cold\r\n"), hit);
    udp.send(i, "get h\r\nget h cold\r\nmg cold v\r\n");
    ASSERT_EQ(udp.receive_reply(i), hit);
    ASSERT_EQ(udp.receive_reply(i), hit);
    ASSERT_EQ(udp.receive_reply(i), "EN\r\n");
  }
  EXPECT_EQ(c.stat("udp_replies_dropped", "tandem"), 0u);
}

// The replies of hot keys fail to be sent while the rest of the input goes to the device.
TEST(HotServer, LivesWhenClientsCloseMeanwhile) {
  HotServer s(1);
  Client c(s.server.port());
  s.heat(c, "h", std::string(1000, 'h'));
  const std::string input = "get h\r\nget cold\r\n",
                    hit = "VALUE h 0 1000\r\n" + std::string(1000, 'h') + "\r\nEND\r\n";
  std::string busy;
  for (int i = 0; i < 200; ++i) busy += "get h\r\n";
  for (int round = 0; round < 40 / less + 5; ++round) {
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 16; ++i) clients.push_back(std::make_unique<Client>(s.server.port()));
    c.send(busy);  // the worker comes to the others when they are gone
    for (const auto& other : clients) {
      other->send(input);
      const linger at_once{1, 0};
      ::setsockopt(other->fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    clients.clear();
    ASSERT_EQ(c.read(busy.size() / 7 * (hit.size())).size(), busy.size() / 7 * hit.size());
  }
  EXPECT_EQ(c.get("h"), std::string(1000, 'h'));
}

}  // namespace
}  // namespace tandem::net::test
