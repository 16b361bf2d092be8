// The benchmark does what a server does: one tape through a worker, over socket pairs, and through the benchmark gives
// the same replies and the same counts, with each plan.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/engine/plan.hpp"
#include "bench/engine/tape.hpp"
#include "bench/engine/wire.hpp"
#include "operate/control.hpp"
#include "preset/preset.hpp"
#include "worker/acceptor.hpp"
#include "worker/worker.hpp"

namespace tandem::bench {
namespace {

struct Case {
  std::string plan;  // of the benchmark
  Preset preset;     // of the server
  std::uint64_t copies_bytes = 0;
};

constexpr std::uint32_t client_count = 8, requests_of_client = 16, batch_requests = client_count * requests_of_client;

EngineOptions options_of(const Case& c) {
  EngineOptions o;
  o.memory_bytes = std::uint64_t{32} << 20;
  o.huge_pages = false;
  o.devices = engine_plan(c.plan).devices(1);
  o.device_values.bytes = c.copies_bytes;
  o.index_on_device = c.preset == Preset::mega_kv;
  o.scheduler.deadline = std::chrono::seconds(60);  // only passes where a test would hang
  return o;
}

void wait_for_devices(Engine& engine) {
  while (engine.schedulers() != nullptr && !engine.schedulers()->serves())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// What both are asked: SETs of all keys, then a mix.
std::vector<Tape::Slice> batches_of(const Tape& sets, const Tape& mix) {
  std::vector<Tape::Slice> all;
  for (const Tape* const tape : {&sets, &mix}) {
    for (std::size_t i = 0; i < tape->size(); ++i) all.push_back(tape->batch(i));
  }
  return all;
}

struct Did {
  std::vector<std::string> replies;  // to each batch, in the order of its requests
  std::uint64_t queries = 0, gets = 0, hits = 0, sets = 0;
  std::uint64_t answered = 0, searched = 0;  // by the device

  void take_counts(const Context& c) {
    queries = c.tasks.queries_total.get();
    gets = c.counters.cmd_get.get();
    hits = c.counters.get_hits.get();
    sets = c.counters.cmd_set.get();
    answered = c.counters.device_requests.get();
    searched = c.tasks.on_device[index_of(Task::search)].get();
  }
};

Did by_benchmark(const Case& c, WireProtocol protocol, const std::vector<Tape::Slice>& batches, std::uint64_t bytes) {
  Did did;
  Engine engine(options_of(c));
  wait_for_devices(engine);
  WireDriver driver(engine, engine_plan(c.plan), protocol, batch_requests, bytes);
  driver.set_patience(std::chrono::hours(1));
  for (const Tape::Slice& slice : batches) {
    driver.keep_replies(&did.replies.emplace_back());
    driver.run(slice);
    driver.finish();
  }
  did.take_counts(driver.context());
  return did;
}

class Server {
 public:
  explicit Server(const Case& c) : engine_(options_of(c)), state_(server_options(c), engine_), control_(state_) {
    wait_for_devices(engine_);
    workers_.push_back(std::make_unique<net::Worker>(state_, control_, net::UdpPorts{}));
    workers_.front()->work().runner().set_patience(std::chrono::hours(1));
    acceptor_ = std::make_unique<net::Acceptor>(state_, std::vector<net::BoundSocket>{},
                                                std::vector<net::UnixListener>{}, workers_);
    control_.observe(workers_, *acceptor_, 0, 0);
    for (std::uint32_t i = 0; i < client_count; ++i) connect();
  }
  const Context& context() const { return workers_.front()->context(); }

  // The replies to each client's part, one client's behind the other's.
  std::string ask(const Tape::Slice& slice) {
    std::vector<std::string> replies(slice.ends.size());
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < slice.ends.size(); begin = slice.ends[i++]) {
      const std::size_t bytes = slice.ends[i] - begin;
      EXPECT_EQ(send(sockets_[i].get(), slice.requests.data() + begin, bytes, 0), static_cast<ssize_t>(bytes));
    }
    std::vector<char> some(65536);
    for (std::uint64_t got = 0; got < slice.reply_bytes;) {
      workers_.front()->pass(0);
      for (std::size_t i = 0; i < replies.size(); ++i) {
        const ssize_t n = recv(sockets_[i].get(), some.data(), some.size(), 0);
        if (n <= 0) continue;
        replies[i].append(some.data(), static_cast<std::size_t>(n));
        got += static_cast<std::uint64_t>(n);
      }
    }
    std::string all;
    for (const std::string& one : replies) all += one;
    return all;
  }

 private:
  static ServerOptions server_options(const Case& c) {
    ServerOptions o;
    o.preset = number_of(c.preset);
    return o;
  }
  void connect() {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    sockets_.emplace_back(pair[0]);
    state_.connections.fetch_add(1);
    workers_.front()->adopt(net::Fd(pair[1]), state_.protocol);
  }

  Engine engine_;
  net::State state_;
  net::Control control_;
  std::vector<std::unique_ptr<net::Worker>> workers_;
  std::unique_ptr<net::Acceptor> acceptor_;
  std::vector<net::Fd> sockets_;
};

Did by_server(const Case& c, const std::vector<Tape::Slice>& batches) {
  Did did;
  Server server(c);
  for (const Tape::Slice& slice : batches) did.replies.push_back(server.ask(slice));
  did.take_counts(server.context());
  return did;
}

TEST(BenchWork, IsTheServers) {
  workload::Spec spec = workload::preset("K8-G50-U");
  spec.keys = 1024;
  const workload::KeySpace keys(spec);
  for (const WireProtocol protocol : {WireProtocol::text, WireProtocol::binary}) {
    const Tape sets(keys, protocol, 0, spec.keys, requests_of_client);
    const Tape mix(spec, keys, protocol, 0, 1, batch_requests,
                   {.ops = 4096, .miss_share = 0.1, .connection_queries = requests_of_client});
    const std::vector<Tape::Slice> batches = batches_of(sets, mix);
    for (const Case& c :
         {Case{"cpu", Preset::cpu}, Case{"located-sim", Preset::mirrored},
          Case{"frames-sim", Preset::mirrored, std::uint64_t{16} << 20}, Case{"mega-kv-sim", Preset::mega_kv}}) {
      SCOPED_TRACE(c.plan + " " + std::string(to_string(protocol)));
      const Did server = by_server(c, batches);
      const Did benchmark = by_benchmark(c, protocol, batches, std::max(sets.batch_bytes_max(), mix.batch_bytes_max()));
      for (std::size_t i = 0; i < batches.size(); ++i) ASSERT_EQ(benchmark.replies[i], server.replies[i]) << i;
      EXPECT_EQ(benchmark.queries, server.queries);
      EXPECT_EQ(benchmark.gets, server.gets);
      EXPECT_EQ(benchmark.hits, server.hits);
      EXPECT_EQ(benchmark.sets, server.sets);
      EXPECT_EQ(benchmark.answered, server.answered);
      EXPECT_EQ(benchmark.searched, server.searched);
    }
  }
}

}  // namespace
}  // namespace tandem::bench
