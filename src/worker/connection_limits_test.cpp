// Limits of connections without a worker: what is charged, and which connection is closed for it.
#include "worker/connection_limits.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::net::limits_test {
namespace {

EngineOptions small() {
  EngineOptions o;
  o.memory_bytes = std::uint64_t{64} << 20;
  o.huge_pages = false;
  return o;
}

class Limits : public testing::Test {
 protected:
  explicit Limits(const ServerOptions& options = {}) : engine_(small()), state_(options, engine_) {
    engine_.shared().clock.freeze_for_test(now_s_);
  }
  // The newest is the list's first.
  Connection& connect() {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
      throw std::runtime_error("socketpair");
    state_.connections.fetch_add(1);
    connections_.adopt(Fd(pair[1]), state_.protocol, false, {});
    clients_.emplace_back(pair[0]);
    Connection* newest = nullptr;
    connections_.for_each([&](Connection& c) {
      if (newest == nullptr) newest = &c;
    });
    return *newest;
  }
  // As if a client did not read so much, which is charged already.
  void block(Connection& c, std::size_t bytes) {
    auto unsent = std::make_unique<Unsent>();
    unsent->reserve(bytes, 1);
    unsent->append(std::string(bytes, 'x').data(), bytes);
    connections_.block(c, std::move(unsent));
  }
  bool charge_and_block(Connection& c, std::size_t bytes) {
    if (!limits_.charge(c, state_.unsent, bytes)) return false;
    block(c, bytes);
    return true;
  }
  void pass() {
    limits_.end_pass();
    connections_.free_closed();
    limits_.begin_pass(++pass_, cycles_now());
  }
  void later(std::uint32_t seconds) {
    engine_.shared().clock.freeze_for_test(now_s_ += seconds);
    pass();
  }

  std::uint32_t now_s_ = 1000;
  std::uint64_t pass_ = 0;
  Engine engine_;
  State state_;
  Engine::ContextPtr context_ = engine_.make_context();
  NetCounters counters_;
  Recorder recorder_{state_.events, state_.prefixes, engine_.shared()};
  Connections connections_{state_, *context_, counters_, recorder_};
  ConnectionLimits limits_{state_, counters_, connections_};
  std::vector<Fd> clients_;
};

class IdleLimits : public Limits {
 protected:
  static ServerOptions with_timeout() {
    ServerOptions o;
    o.idle_timeout_s = 5;
    return o;
  }
  IdleLimits() : Limits(with_timeout()) {}
};

TEST_F(Limits, UnsentOutputIsGivenBackWhenAConnectionIsClosed) {
  Connection& c = connect();
  ASSERT_TRUE(charge_and_block(c, 1000));
  EXPECT_EQ(state_.unsent.used_bytes(), 1000u);
  EXPECT_EQ(connections_.kept_outputs(), 1u);
  connections_.close(c);
  EXPECT_EQ(state_.unsent.used_bytes(), 0u);
  EXPECT_EQ(connections_.kept_outputs(), 0u);
  EXPECT_EQ(connections_.count(), 1u);
  connections_.free_closed();
  EXPECT_EQ(connections_.count(), 0u);
  EXPECT_EQ(state_.connections.load(), 0u);
}

TEST_F(Limits, AtTheLimitTheStalledConnectionIsClosedBeforeTheLargest) {
  Connection& stalled = connect();
  Connection& large = connect();
  Connection& asks = connect();
  state_.unsent.set_limit(10'000);
  pass();
  ASSERT_TRUE(charge_and_block(stalled, 2'000));
  ASSERT_TRUE(charge_and_block(large, 7'000));
  later(stalled_after_s + 2);
  connections_.touch(large);
  EXPECT_TRUE(limits_.charge(asks, state_.unsent, 1'500));
  EXPECT_TRUE(stalled.is_closed());
  EXPECT_FALSE(large.is_closed());
  EXPECT_EQ(counters_.closed_for_room.get(), 1u);
  // None is stalled now: the one that holds the most goes, if that is another.
  EXPECT_FALSE(limits_.charge(asks, state_.unsent, 8'000));
  EXPECT_FALSE(large.is_closed());
  EXPECT_TRUE(limits_.charge(asks, state_.unsent, 6'000));
  EXPECT_TRUE(large.is_closed());
}

TEST_F(Limits, AConnectionInFlightOrOfThisPassIsNotStalled) {
  Connection& c = connect();
  Connection& asks = connect();
  state_.unsent.set_limit(1'000);
  pass();
  ASSERT_TRUE(charge_and_block(c, 900));
  later(stalled_after_s + 2);
  c.in_flight = true;
  EXPECT_FALSE(limits_.charge(asks, state_.unsent, 950));
  c.in_flight = false;
  c.pass = pass_;
  EXPECT_FALSE(limits_.charge(asks, state_.unsent, 950));
  c.pass = 0;
  EXPECT_TRUE(limits_.charge(asks, state_.unsent, 950));
  EXPECT_TRUE(c.is_closed());
}

TEST_F(Limits, LongInputIsChargedAndRefused) {
  Connection& c = connect();
  Connection& other = connect();
  const std::string text(long_input_bytes, 'k');
  ASSERT_TRUE(limits_.keep(c, text.data(), text.data() + text.size()));
  EXPECT_EQ(state_.kept.used_bytes(), c.kept.capacity());
  EXPECT_EQ(connections_.kept_inputs(), 1u);
  EXPECT_EQ(connections_.kept_bytes(), c.kept.capacity());
  state_.kept.set_limit(state_.kept.used_bytes() + 10);
  EXPECT_TRUE(limits_.keep(other, text.data(), text.data() + 100));  // a short one is not charged
  EXPECT_FALSE(limits_.keep(other, text.data(), text.data() + text.size()));
  EXPECT_TRUE(other.is_closed());
  EXPECT_EQ(counters_.read_buf_oom.get(), 1u);
  ASSERT_TRUE(limits_.keep(c, nullptr, nullptr));
  EXPECT_EQ(state_.kept.used_bytes(), 0u);
  connections_.free_closed();
  EXPECT_EQ(connections_.kept_inputs(), 0u);
  EXPECT_EQ(connections_.kept_bytes(), 0u);
}

TEST_F(IdleLimits, IdleConnectionsAreClosedOnceASecond) {
  Connection& idle = connect();
  Connection& busy = connect();
  Connection& waits = connect();
  ASSERT_TRUE(limits_.has_timeouts());
  waits.in_flight = true;
  later(6);
  connections_.touch(busy);
  limits_.check_timeouts();
  EXPECT_TRUE(idle.is_closed());
  EXPECT_EQ(idle.close_reason, CloseReason::idle_timeout);
  EXPECT_FALSE(busy.is_closed());
  EXPECT_FALSE(waits.is_closed());
  waits.in_flight = false;
  limits_.check_timeouts();
  EXPECT_FALSE(waits.is_closed());
  later(1);
  limits_.check_timeouts();
  EXPECT_TRUE(waits.is_closed());
  EXPECT_EQ(counters_.idle_kicks.get(), 2u);
}

}  // namespace
}  // namespace tandem::net::limits_test
