// A worker with a UDP port that has the rings of an AF_XDP socket, without the kernel that fills them: frames in,
// frames out.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codec/ethernet_builder.hpp"
#include "net/xdp/fake_rings.hpp"
#include "net/xdp/interface.hpp"
#include "operate/control.hpp"
#include "operate/server_test_client.hpp"
#include "worker/acceptor.hpp"
#include "worker/worker.hpp"

namespace tandem::net::test {
namespace {

using ethernet::frame_of;

std::string datagram(std::uint16_t id, std::string_view request) {
  std::string all(udp_frame_bytes, '\0');
  write_udp_frame({id, 0, 1}, all.data());
  return all.append(request);
}

class XdpWorker : public ::testing::Test {
 protected:
  XdpWorker() : engine_(on_the_host()), state_(any_port(1), engine_), control_(state_) {
    UdpPorts ports;
    ports.push_back(std::make_unique<BasicXdpPort<FakeRings>>(FakeRings(queue_)));
    workers_.push_back(std::make_unique<Worker>(state_, control_, std::move(ports)));
    acceptor_ = std::make_unique<Acceptor>(state_, std::vector<BoundSocket>{}, std::vector<UnixListener>{}, workers_);
    control_.observe(workers_, *acceptor_, 0, 0);
  }

  // Passes until everything has been looked at and answered.
  void work() {
    for (int i = 0; i < 200; ++i) workers_.front()->pass(0);
  }
  std::vector<std::string> answers(const std::string& frame) {
    EXPECT_TRUE(queue_->arrive(frame));
    work();
    return queue_->take_out();
  }
  // The answer's payload; its frame must be what an independent writer writes.
  std::string ask(std::string_view request) {
    const std::string frame = frame_of(datagram(7, request));
    std::string payload;
    std::uint16_t sequence = 0;
    const std::vector<std::string> out = answers(frame);
    for (const std::string& reply : out) {
      const std::string body = reply.substr(ethernet::header_bytes);
      EXPECT_EQ(reply, ethernet::reply_frame(frame, body));
      EXPECT_LE(body.size(), udp_datagram_bytes_max);
      std::string header(udp_frame_bytes, '\0');
      write_udp_frame({7, sequence++, static_cast<std::uint16_t>(out.size())}, header.data());
      EXPECT_EQ(body.substr(0, udp_frame_bytes), header);
      payload += body.substr(udp_frame_bytes);
    }
    return payload;
  }
  std::uint64_t count(Counter NetCounters::* counter) const { return (workers_.front()->counters().*counter).get(); }

  std::shared_ptr<FakeQueue> queue_ = std::make_shared<FakeQueue>();
  // One pass answers what it has received.
  static EngineOptions on_the_host() {
    EngineOptions o = small_engine();
    o.devices.clear();
    o.index_on_device = false;
    o.device_values = {};
    return o;
  }

  Engine engine_;
  State state_;
  Control control_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(XdpWorker, AnswersInFrames) {
  EXPECT_EQ(ask("set a 0 0 3\r\nabc\r\n"), "STORED\r\n");
  EXPECT_EQ(ask("get a\r\n"), "VALUE a 0 3\r\nabc\r\nEND\r\n");
  EXPECT_EQ(ask("mg a v\r\n"), "VA 3\r\nabc\r\n");
  EXPECT_EQ(count(&NetCounters::xdp_frames), 3u);
  EXPECT_EQ(count(&NetCounters::udp_requests), 3u);
}

TEST_F(XdpWorker, CutsLongReplies) {
  // Put together from values that a frame holds.
  std::string value;
  EXPECT_EQ(ask("set v 0 0 0\r\n\r\n"), "STORED\r\n");
  while (value.size() < 300'000) {
    const std::string more = pattern(value.size() < 3000 ? 97 : 1389, static_cast<unsigned>(value.size()));
    ASSERT_EQ(ask("append v 0 0 " + std::to_string(more.size()) + "\r\n" + more + "\r\n"), "STORED\r\n");
    value += more;
    const std::string reply = "VALUE v 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nEND\r\n";
    if (value.size() < 3000 || value.size() % 7 == 0) {
      ASSERT_EQ(ask("get v\r\n"), reply);
    }
  }
  EXPECT_EQ(ask("get v v\r\n").size(), 2 * (value.size() + std::string("VALUE v 0 300000\r\n\r\n").size()) + 5);
}

// Each of these is dropped and counted, and the next request is answered.
TEST_F(XdpWorker, DropsWhatIsNoRequest) {
  const std::string good = frame_of(datagram(1, "mn\r\n"));
  const auto changed = [&](std::size_t at, char to, bool sealed) {
    std::string frame = good;
    frame[at] = to;
    if (sealed) ethernet::seal(frame);
    return frame;
  };
  const std::vector<std::string> wrong_frames = {
      std::string(),
      std::string(13, 'x'),
      good.substr(0, 41),
      good.substr(0, good.size() - 1),
      changed(12, '\x86', false),  // IPv6's type
      changed(14, '\x46', true),   // options
      changed(20, '\x20', true),   // a fragment
      changed(23, 6, true),        // TCP
      changed(26, '\xe0', true),   // from a group
  };
  for (const std::string& frame : wrong_frames) EXPECT_TRUE(answers(frame).empty());
  EXPECT_EQ(count(&NetCounters::xdp_wrong_frames), wrong_frames.size());
  EXPECT_EQ(count(&NetCounters::xdp_wrong_sums), 0u);
  EXPECT_TRUE(answers(changed(24, good[24] ^ 1, false)).empty());      // IPv4's sum
  EXPECT_TRUE(answers(changed(good.size() - 1, 'x', false)).empty());  // UDP's
  EXPECT_EQ(count(&NetCounters::xdp_wrong_sums), 2u);
  EXPECT_EQ(count(&NetCounters::udp_requests), 0u);
  // Without a payload it is a datagram, and no request.
  EXPECT_TRUE(answers(frame_of("")).empty());
  EXPECT_EQ(count(&NetCounters::udp_requests_dropped), 1u);
  std::string without_sum = good;
  without_sum[40] = without_sum[41] = '\0';
  EXPECT_EQ(answers(without_sum).size(), 1u);
  EXPECT_EQ(ask("mn\r\n"), "MN\r\n");
}

// More than a pass looks at: all are taken in turn, and none is lost. The kernel has all frames for requests but those
// of the last receipt.
TEST_F(XdpWorker, TakesAllThatHasArrived) {
  const std::string frame = frame_of(datagram(1, "mn\r\n"));
  for (int round = 0; round < 3; ++round) {
    const std::size_t offered = queue_->offered();
    EXPECT_GE(offered, xdp_request_frames - (round == 0 ? 0 : xdp_frames_per_pass));
    std::uint32_t arrived = 0;
    while (queue_->arrive(arrived % 3 == 2 ? "noise" : frame)) ++arrived;
    EXPECT_EQ(arrived, offered);
    work();
    EXPECT_EQ(queue_->take_out().size(), arrived - arrived / 3);
    // Then the worker sleeps.
    const std::uint64_t passes = count(&NetCounters::passes);
    work();
    EXPECT_EQ(count(&NetCounters::passes), passes);
  }
}

TEST_F(XdpWorker, ManyRepliesTakeOneCall) {
  const std::string frame = frame_of(datagram(1, "mn\r\n"));
  for (unsigned i = 0; i < datagrams_per_pass; ++i) EXPECT_TRUE(queue_->arrive(frame));
  const std::size_t before = queue_->calls();
  workers_.front()->pass(0);
  EXPECT_EQ(queue_->calls(), before + 1);
  EXPECT_EQ(queue_->take_out().size(), datagrams_per_pass);
}

// The device sends nothing: replies beyond the frames for them are dropped, and counted.
TEST_F(XdpWorker, DropsRepliesWhenNoFrameIsLeft) {
  const std::string frame = frame_of(datagram(1, "mn\r\n"));
  const std::uint32_t asked = xdp_reply_frames + 100;
  for (std::uint32_t i = 0; i < asked; ++i) {
    EXPECT_TRUE(queue_->arrive(frame));
    if (i % datagrams_per_pass == 0) work();
  }
  work();
  EXPECT_EQ(count(&NetCounters::udp_replies_dropped), 100u);
  EXPECT_EQ(queue_->take_out().size(), xdp_reply_frames);
  EXPECT_EQ(ask("mn\r\n"), "MN\r\n");
}

TEST(XdpAddresses, AreThoseThatListenNames) {
  const auto address = [](const char* text) {
    in_addr a{};
    EXPECT_EQ(inet_pton(AF_INET, text, &a), 1);
    return a.s_addr;
  };
  const std::vector<std::uint32_t> both = {address("192.0.2.1"), address("192.0.2.9")};
  const auto served = [&](const std::vector<std::string>& listen) {
    return address_list(listened_addresses(both, listen, 11211));
  };
  EXPECT_EQ(served({"*"}), "192.0.2.1,192.0.2.9");
  EXPECT_EQ(served({"0.0.0.0"}), "192.0.2.1,192.0.2.9");
  EXPECT_EQ(served({"127.0.0.1"}), "");
  EXPECT_EQ(served({"127.0.0.1", "192.0.2.9"}), "192.0.2.9");
  EXPECT_EQ(served({"192.0.2.9:11211"}), "192.0.2.9");
  EXPECT_EQ(served({"192.0.2.9:11212"}), "");
  EXPECT_EQ(served({"::1", "[::1]:11211"}), "");
}

}  // namespace
}  // namespace tandem::net::test
