// The parts of a worker without its event loop, for their unit tests. Connections are socket pairs; requests are put
// into the intake as the receiver does.
#pragma once
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "codec/udp.hpp"
#include "device/sim/sim_device.hpp"
#include "net/udp_socket.hpp"
#include "preset/preset.hpp"
#include "work/work.hpp"
#include "worker/connection_limits.hpp"
#include "worker/connections.hpp"
#include "worker/replies.hpp"
#include "worker/responder.hpp"
#include "worker/sender.hpp"
#include "worker/state.hpp"
#include "worker/streams.hpp"
#include "worker/worker_state.hpp"

namespace tandem::net::parts_test {

inline std::string times(std::size_t count, std::string_view text) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}
inline std::string hit(std::string_view key, std::string_view value) {
  return "VALUE " + std::string(key) + " 0 " + std::to_string(value.size()) + "\r\n" + std::string(value) + "\r\n";
}

// Executes what tests of a worker's parts ask for; src/operate has the server's.
class PartsControl final : public ServerControl {
 public:
  explicit PartsControl(State& state) : state_(state) {}
  void flush_all(std::uint32_t at_s) override { state_.engine.flush_all(at_s); }
  bool stats(std::string_view, StatSink&) override { return false; }
  void set_verbosity(unsigned level) override { state_.verbosity = static_cast<int>(level); }
  std::string refresh_certificates() override { return {}; }
  Administration& administration() override { throw std::logic_error("no test of parts administers"); }
  ConfigStore& config() override { return state_.config; }

 private:
  State& state_;
};

struct Client {
  Connection& connection;
  Fd socket;
};

class Parts {
 public:
  // device: nullptr: the host does everything. value_bytes: of the device's copies of items. alone: it has the index.
  explicit Parts(const std::shared_ptr<Device>& device = nullptr, std::uint64_t value_bytes = 0, bool alone = false)
      : engine_(engine_options(device, value_bytes, alone)),
        state_(server_options(device, alone), engine_),
        control_(state_) {
    limits.begin_pass(++worker.pass, cycles_now());
    if (device == nullptr) return;
    while (!engine_.schedulers()->serves()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  Client connect() {
    const auto [client, server] = pair_of(SOCK_STREAM);
    state_.connections.fetch_add(1);
    connections.adopt(Fd(server), state().protocol, false, {});
    Connection* newest = nullptr;  // the first of the list
    connections.for_each([&](Connection& c) {
      if (newest == nullptr) newest = &c;
    });
    return {*newest, Fd(client)};
  }
  // A port without addresses: what it sends goes to the other end.
  static std::pair<Fd, std::unique_ptr<UdpPort>> connect_udp() {
    const auto [client, server] = pair_of(SOCK_DGRAM);
    return {Fd(client), std::make_unique<UdpSocket>(Fd(server))};
  }
  // The datagrams of a client's requests, as they were received together. Returns the first one.
  UdpDatagram& datagrams_of(const std::pair<Fd, std::unique_ptr<UdpPort>>& udp,
                            const std::vector<std::string_view>& requests) {
    const auto& [client, port] = udp;
    for (const std::string_view request : requests) {
      std::string bytes(udp_frame_bytes, '\0');
      write_udp_frame({7, 0, 1}, bytes.data());
      bytes.append(request);
      EXPECT_EQ(send(client.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    }
    EXPECT_EQ(port->receive(worker.counters), requests.size());
    for (unsigned i = 0; i < requests.size(); ++i) port->datagram(i).begin(7, state().protocol, worker.clock());
    return port->datagram(0);
  }
  UdpDatagram& datagram_of(const std::pair<Fd, std::unique_ptr<UdpPort>>& udp, std::string_view request) {
    return datagrams_of(udp, {request});
  }
  // Has the datagram wait where it is.
  void add(UdpDatagram& datagram) {
    work.add_datagram(&datagram, *datagram.parser, datagram.data, datagram.bytes, true);
  }
  // What has arrived.
  static std::string receive(const Fd& socket) {
    std::string all;
    std::vector<char> some(1 << 20);
    for (ssize_t n; (n = recv(socket.get(), some.data(), some.size(), 0)) > 0;)
      all.append(some.data(), static_cast<std::size_t>(n));
    return all;
  }

  // Has the input wait, in the arena, where the bytes behind it look like requests.
  void add(Connection& c, std::string_view bytes) {
    char* const begin = work.room(bytes.size());
    std::memcpy(begin, bytes.data(), bytes.size());
    std::memset(begin + bytes.size(), '\n', lane_padding_bytes);
    work.add(&c, c.parser, bytes.size(), 0, c.fill != nullptr);
  }
  // The same, and it is answered.
  void ask(Connection& c, std::string_view bytes) {
    add(c, bytes);
    run();
  }
  void run() {
    work.answer_here();
    work.end_pass();
    EXPECT_TRUE(work.output().empty());
  }
  static std::string kept(const Connection& c) { return {c.kept.data(), c.kept.size()}; }
  // Stores an item as a client that is served alone.
  void store(std::string_view key, std::string_view value) {
    const Client client = connect();
    const std::string input = "set " + std::string(key) + " 0 0 " + std::to_string(value.size()) + "\r\n" +
                              std::string(value) + "\r\n" + std::string(lane_padding_bytes, '\n');
    work.lend(&client.connection, client.connection.parser, input.data(),
              input.data() + input.size() - lane_padding_bytes);
    run();
    ASSERT_EQ(receive(client.socket), "STORED\r\n");
    connections.close(client.connection);
    connections.free_closed();
  }
  Heap& heap() { return worker.heap(); }
  State& state() { return state_; }

 private:
  static EngineOptions engine_options(const std::shared_ptr<Device>& device, std::uint64_t value_bytes, bool alone) {
    EngineOptions o;
    o.memory_bytes = std::uint64_t{128} << 20;
    o.item_bytes_max = std::uint64_t{4} << 20;
    o.huge_pages = false;
    if (device != nullptr) o.devices = {device};
    o.device_values.bytes = value_bytes;
    o.index_on_device = alone;
    o.scheduler.deadline = std::chrono::seconds(60);  // only passes where a test would hang
    return o;
  }
  static ServerOptions server_options(const std::shared_ptr<Device>& device, bool alone) {
    ServerOptions o;
    o.preset = number_of(alone ? Preset::mega_kv : device != nullptr ? Preset::mirrored : Preset::cpu);
    return o;
  }
  static std::pair<int, int> pair_of(int type) {
    int pair[2];
    if (socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) throw std::runtime_error("socketpair");
    return {pair[0], pair[1]};
  }

  Engine engine_;
  State state_;
  PartsControl control_;
  EventFd wakeup_;

 public:
  WorkerState worker{state_};
  Connections connections{state_, *worker.context, worker.counters, worker.recorder};
  // No turn ends within a test, whatever machine or sanitizer slows it.
  static constexpr double turn = 600e9;
  ConnectionLimits limits{state_, worker.counters, connections, turn};
  Sender sender{worker, connections, limits};
  Streams streams{worker, wakeup_, connections, sender};
  Work work{*worker.context,
            state_.protocol,
            worker.planner,
            worker.make_runner(),
            worker.meter,
            sink,
            {.turn_ticks = limits.turn_ticks(), .controls_per_turn = state_.options.requests_per_event}};
  Responder responder{worker, control_, streams, work.output()};
  Replies sink{worker, connections, limits, sender, responder, work.output()};
};

}  // namespace tandem::net::parts_test
