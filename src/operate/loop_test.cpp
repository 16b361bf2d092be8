// One worker with passes made by hand, so that input that is sent together is served together.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "operate/control.hpp"
#include "operate/server_test_client.hpp"
#include "worker/acceptor.hpp"
#include "worker/worker.hpp"

namespace tandem::net::test {
namespace {

EngineOptions engine_of(std::uint64_t mib, const TimeSource* time = nullptr) {
  EngineOptions o;
  o.time = time;
  o.memory_bytes = mib << 20;
  o.item_bytes_max = std::uint64_t{40} << 20;
  o.huge_pages = false;
  return o;
}

// The system's clocks, which only the thread that holds them can read: other threads do not continue, as without a
// processor.
class HeldTime final : public TimeSource {
 public:
  SystemTime now() const noexcept override {
    if (const auto holder = holder_.load(); holder != std::thread::id() && holder != std::this_thread::get_id())
      holder_.wait(holder);
    return TimeSource::of_the_system().now();
  }
  void hold() { holder_.store(std::this_thread::get_id()); }
  void release() {
    holder_.store(std::thread::id());
    holder_.notify_all();
  }

 private:
  std::atomic<std::thread::id> holder_{std::thread::id()};
};

class ByHand {
 public:
  // time: nullptr: the clock stands, and only the test moves it.
  explicit ByHand(const TimeSource* time = nullptr)
      : engine_(engine_of(128, time)), state_({}, engine_), control_(state_) {
    workers_.push_back(std::make_unique<Worker>(state_, control_, UdpPorts{}));
    acceptor_ = std::make_unique<Acceptor>(state_, std::vector<BoundSocket>{}, std::vector<UnixListener>{}, workers_);
    control_.observe(workers_, *acceptor_, 0, 0);
    if (time == nullptr) clock().freeze_for_test(now_s_);
  }

  Fd connect() {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
      throw std::runtime_error("socketpair");
    state_.connections.fetch_add(1);
    workers_.front()->adopt(Fd(pair[1]), state_.protocol);
    return Fd(pair[0]);
  }
  // All of it at once, or the test is wrong.
  void send(const Fd& client, std::string_view bytes) {
    ASSERT_EQ(::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // A value that takes many packets.
  void store(const Fd& client, const std::string& key, std::size_t bytes) {
    std::string all = "set " + key + " 0 0 " + std::to_string(bytes) + "\r\n" + std::string(bytes, 'v') + "\r\n";
    for (std::string_view left = all; !left.empty(); pass()) {
      const ssize_t n = ::send(client.get(), left.data(), left.size(), MSG_NOSIGNAL);
      if (n > 0) left.remove_prefix(static_cast<std::size_t>(n));
    }
    pass();
    ASSERT_EQ(receive(client), "STORED\r\n");
  }
  void pass() { workers_.front()->pass(0); }
  void pass(int times) {
    for (int i = 0; i < times; ++i) pass();
  }
  // What is there.
  static std::string receive(const Fd& client) {
    std::string all;
    char some[65536];
    for (ssize_t n; (n = recv(client.get(), some, sizeof some, 0)) > 0;) all.append(some, static_cast<std::size_t>(n));
    return all;
  }
  static bool is_closed(const Fd& client) {
    pollfd file{client.get(), 0, 0};
    return poll(&file, 1, 0) == 1 && (file.revents & POLLHUP) != 0;
  }
  void later(std::uint32_t seconds) { clock().freeze_for_test(now_s_ += seconds); }
  State& state() { return state_; }
  const NetCounters& counters() const { return workers_.front()->counters(); }

 private:
  Clock& clock() { return engine_.shared().clock; }

  std::uint32_t now_s_ = 1000;
  Engine engine_;
  State state_;
  Control control_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Acceptor> acceptor_;
};

std::string times(std::size_t count, std::string_view text) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

// A worker that runs keeps the time although the maintenance thread does not go on.
class Late : public testing::Test {
 protected:
  Late() { time_.hold(); }
  ~Late() override { time_.release(); }
  std::string ask(std::string_view request) {
    s_.send(client_, request);
    s_.pass();
    return s_.receive(client_);
  }
  // Asks until a second has passed: from then on the answer is a miss.
  void expect_over_in_a_second() {
    const auto over = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    for (bool is_over = false; !is_over;) {
      is_over = std::chrono::steady_clock::now() >= over;
      const std::string reply = ask("get a\r\n");
      if (is_over) {
        EXPECT_EQ(reply, "END\r\n");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(ask("mg a t\r\n"), "EN\r\n") << "the general path";
  }
  void maintain() {
    time_.release();
    s_.state().engine.maintain();
  }

 private:
  HeldTime time_;
  ByHand s_{&time_};
  const Fd client_ = s_.connect();
};

TEST_F(Late, MaintenanceLetsNoItemLiveLonger) {
  ASSERT_EQ(ask("set a 0 1 1\r\n1\r\n"), "STORED\r\n");
  expect_over_in_a_second();
}

TEST_F(Late, MaintenanceDelaysNoFlush) {
  ASSERT_EQ(ask("set a 0 0 1\r\n1\r\n"), "STORED\r\n");
  ASSERT_EQ(ask("flush_all 2\r\n"), "OK\r\n");  // when a second ends, as in memcached
  expect_over_in_a_second();
}

// Nor does an item end early that is stored when the clock was read long ago.
TEST_F(Late, MaintenanceEndsNoItemEarly) {
  constexpr int ttl_s = 100, late_s = 3;
  const auto seconds_since = [](auto begin) {
    return std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - begin).count();
  };
  std::this_thread::sleep_for(std::chrono::seconds(late_s));
  const auto stored_at = std::chrono::steady_clock::now();
  ASSERT_EQ(ask("set a 0 " + std::to_string(ttl_s) + " 1\r\n1\r\n"), "STORED\r\n");
  maintain();
  const std::string reply = ask("mg a t\r\n");
  ASSERT_TRUE(reply.starts_with("HD t")) << reply;
  EXPECT_GE(std::stoi(reply.substr(4)), ttl_s - 1 - seconds_since(stored_at));
}

constexpr std::string_view append = "append big 0 0 1\r\ny\r\n", stored = "STORED\r\n";

// A connection behind one with a turn that ends has a turn of its own, not the rest of a strip.
TEST(Turn, EachConnectionOfAPassHasItsOwn) {
  ByHand s;
  const Fd costly = s.connect(), other = s.connect(), storing = s.connect();
  s.store(storing, "big", 1'000'000);
  s.send(costly, times(600, append));
  s.send(other, times(1000, "get none\r\n"));
  s.pass();
  const std::size_t appended = s.receive(costly).size() / stored.size();
  EXPECT_LT(appended, 600u);
  EXPECT_EQ(s.receive(other), times(1000, "END\r\n"));
  std::size_t all = appended;
  for (int i = 0; i < 600 && all != 600; ++i) {
    s.pass();
    all += s.receive(costly).size() / stored.size();
  }
  EXPECT_EQ(all, 600u);
}

TEST(Turn, EachConnectionOfAPassHasItsOwnStatistics) {
  ByHand s;
  const Fd costly = s.connect(), other = s.connect();
  s.store(other, "big", 1'000'000);
  s.send(costly, times(600, append));
  s.send(other, times(10, "verbosity 0\r\n"));
  s.pass();
  EXPECT_EQ(s.receive(other), times(10, "OK\r\n"));
}

// A late answer does not make its client stalled: it has had no time to read it.
TEST(Stalled, BeginsWithTheAnswer) {
  ByHand s;
  const Fd late = s.connect(), next = s.connect();
  s.store(next, "big", 1'000'000);
  s.store(next, "v", 2'000);
  s.send(late, times(600, append) + times(115, "get v\r\n"));  // a little more than a socket takes
  s.pass();
  ASSERT_EQ(s.counters().conn_yields.get(), 1u);
  s.later(10);
  for (int i = 0; i < 600 && s.counters().blocked.get() == 0; ++i) s.pass();
  ASSERT_EQ(s.counters().blocked.get(), 1u);
  s.store(next, "more", 16'000);
  s.state().unsent.set_limit(s.state().unsent.used_bytes() + 1);
  s.send(next, times(32, "get more\r\n"));  // more than there is room for, and than the other one holds
  s.pass();
  EXPECT_EQ(s.counters().closed_for_room.get(), 1u);
  EXPECT_FALSE(s.is_closed(late));
  EXPECT_TRUE(s.is_closed(next));
}

// Nor is a client stalled while the worker serves other connections.
TEST(Stalled, IsNotWhatALongPassMakes) {
  ByHand s;
  const Fd reader = s.connect(), next = s.connect();
  s.store(next, "big", 36'000'000);
  s.store(next, "v", 900'000);
  s.state().pinned.set_limit(1'000'000);
  s.send(reader, "get v\r\n");
  s.pass();
  ASSERT_EQ(s.counters().blocked.get(), 1u);
  const std::string strip = times(strip_queries_max, append);
  s.later(2);
  std::vector<Fd> busy;
  // With more and more connections, until one was long.
  for (std::chrono::duration<double, std::nano> pass{}; pass.count() < 1.2 * long_pass_ns;) {
    ASSERT_LT(busy.size(), std::size_t{2} * events_per_pass);
    for (std::size_t i = busy.size() + 1; i != 0; --i) busy.push_back(s.connect());
    for (const Fd& c : busy) s.send(c, strip);
    const auto begin = std::chrono::steady_clock::now();
    s.pass();
    pass = std::chrono::steady_clock::now() - begin;
    for (const Fd& c : busy) s.receive(c);
  }
  s.later(1);
  s.send(next, "get v\r\n");
  s.pass();
  EXPECT_EQ(s.counters().closed_for_room.get(), 1u);
  EXPECT_FALSE(s.is_closed(reader));
  // Later it is, if it still does not read.
  s.later(3);
  const Fd last = s.connect();
  s.send(last, "get v\r\n");
  s.pass();
  EXPECT_EQ(s.counters().closed_for_room.get(), 2u);
  EXPECT_TRUE(s.is_closed(reader));
}

// A limit that was lowered below what is held closes no connection that holds nothing of it.
TEST(Stalled, ALowerLimitIsForConnectionsThatAskForMore) {
  ByHand s;
  const Fd reader = s.connect(), other = s.connect();
  s.store(other, "v", 900'000);
  s.store(other, "small", 2'000);
  s.send(reader, "get v\r\n");
  s.pass();
  ASSERT_EQ(s.counters().blocked.get(), 1u);
  s.state().pinned.set_limit(100'000);
  s.send(other, times(500, "get small\r\n"));  // more than its socket takes
  s.pass(4);
  EXPECT_EQ(s.counters().blocked.get(), 2u);
  EXPECT_EQ(s.counters().closed_for_room.get(), 0u);
}

TEST(Stalled, IsClosedOnlyWhereThatHelps) {
  ByHand s;
  const Fd still = s.connect(), active = s.connect(), next = s.connect();
  s.state().filling.set_limit(10'000'000);
  s.send(still, "set s 0 0 1000000\r\nabc");
  s.send(active, "set a 0 0 8000000\r\nabc");
  s.pass();
  s.later(10);
  s.send(active, "def");
  s.pass();
  s.send(next, "set n 0 0 5000000\r\nabc");
  s.pass();
  EXPECT_FALSE(s.is_closed(still));
  EXPECT_EQ(s.receive(next).substr(0, 12), "SERVER_ERROR");
  s.send(active, "ghi");
  s.later(1);
  Fd fits = s.connect();
  s.send(fits, "set n 0 0 1500000\r\nabc");
  s.pass();
  EXPECT_TRUE(s.is_closed(still));
  EXPECT_EQ(s.receive(fits), "");
}

}  // namespace
}  // namespace tandem::net::test
