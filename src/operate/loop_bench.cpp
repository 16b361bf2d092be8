// What a worker's pass costs, per query: connections that each sent `depth` gets of a key of 16 bytes with a value of
// 64 are received, executed and answered, over socket pairs. `bare` does the same system calls in the same order and
// sends as many bytes without looking at what it received: the floor. Processor time of the passes alone.
#include <benchmark/benchmark.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <ctime>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "operate/control.hpp"
#include "worker/acceptor.hpp"
#include "worker/worker.hpp"

namespace tandem::net {
namespace {

constexpr std::string_view request = "get key-of-16-bytes.\r\n";
const std::string value(64, 'v');
const std::string reply = "VALUE key-of-16-bytes. 0 64\r\n" + value + "\r\nEND\r\n";

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::pair<Fd, Fd> connected() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
    throw std::runtime_error("socketpair");
  return {Fd(pair[0]), Fd(pair[1])};
}

// Has `pass` serve what `clients` send, and reads the replies outside the time that counts.
void measure(benchmark::State& state, const std::vector<Fd>& clients, const std::function<void()>& pass) {
  const auto depth = static_cast<std::size_t>(state.range(1));
  std::string requests;
  for (std::size_t i = 0; i < depth; ++i) requests += request;
  std::vector<char> sink(depth * reply.size());
  for (auto _ : state) {
    for (const Fd& c : clients) {
      if (send(c.get(), requests.data(), requests.size(), 0) != static_cast<ssize_t>(requests.size()))
        throw std::runtime_error("send");
    }
    const double begin = thread_seconds();
    pass();
    state.SetIterationTime(thread_seconds() - begin);
    for (const Fd& c : clients) {
      if (recv(c.get(), sink.data(), sink.size(), 0) != static_cast<ssize_t>(sink.size()))
        throw std::runtime_error("a reply is missing");
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(clients.size() * depth));
}

void worker(benchmark::State& state) {
  Engine engine(EngineOptions{});
  State shared({}, engine);
  Control control(shared);
  std::vector<std::unique_ptr<Worker>> workers;
  workers.push_back(std::make_unique<Worker>(shared, control, UdpPorts{}));
  Acceptor acceptor(shared, {}, {}, workers);
  control.observe(workers, acceptor, 0, 0);
  std::vector<Fd> clients;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    auto [client, server] = connected();
    shared.connections.fetch_add(1);
    workers.front()->adopt(std::move(server), shared.protocol);
    clients.push_back(std::move(client));
  }
  const std::string set = "set key-of-16-bytes. 0 0 64\r\n" + value + "\r\n";
  send(clients.front().get(), set.data(), set.size(), 0);
  workers.front()->pass(0);
  char stored[8];
  if (recv(clients.front().get(), stored, sizeof stored, 0) != sizeof stored) throw std::runtime_error("not stored");
  measure(state, clients, [&] { workers.front()->pass(0); });
}

void bare(benchmark::State& state) {
  const Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  std::vector<Fd> clients, servers;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    auto [client, server] = connected();
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
    event.data.fd = server.get();
    if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, server.get(), &event) != 0) throw std::runtime_error("epoll_ctl");
    clients.push_back(std::move(client));
    servers.push_back(std::move(server));
  }
  std::string replies;
  for (std::int64_t i = 0; i < state.range(1); ++i) replies += reply;
  std::vector<char> input(receive_bytes_max);
  measure(state, clients, [&] {
    epoll_event events[events_per_pass];
    const int count = epoll_wait(epoll.get(), events, events_per_pass, 0);
    for (int i = 0; i < count; ++i) benchmark::DoNotOptimize(recv(events[i].data.fd, input.data(), input.size(), 0));
    for (int i = 0; i < count; ++i) {
      benchmark::DoNotOptimize(send(events[i].data.fd, replies.data(), replies.size(), MSG_NOSIGNAL));
    }
  });
}

BENCHMARK(bare)->ArgNames({"connections", "depth"})->ArgsProduct({{1, 16, 128}, {1, 16, 128}})->UseManualTime();
BENCHMARK(worker)->ArgNames({"connections", "depth"})->ArgsProduct({{1, 16, 128}, {1, 16, 128}})->UseManualTime();

}  // namespace
}  // namespace tandem::net
