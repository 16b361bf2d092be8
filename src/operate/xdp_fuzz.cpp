// Frames of an AF_XDP socket, any bytes, through a worker: nothing may crash, no frame may be lost or used twice
// (FakeQueue), each reply must be a frame without fault to a machine that has asked, and a good request among them must
// be answered.
//
// Input: frames, each after two bytes: its length / 8 (so that a mutation keeps the rest), and what is done with it.
// Bit 0: its checksums are made right. Bit 1: it is the payload of a good frame. Bit 2: a pass follows. Bit 3: the
// device has sent what was put.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codec/ethernet_builder.hpp"
#include "net/xdp/fake_rings.hpp"
#include "operate/control.hpp"
#include "worker/acceptor.hpp"
#include "worker/worker.hpp"

namespace tandem::net {
namespace {

using namespace test;

class Harness {
 public:
  Harness() : engine_(engine_options()), state_(server_options(), engine_), control_(state_) {
    UdpPorts ports;
    ports.push_back(std::make_unique<BasicXdpPort<FakeRings>>(FakeRings(queue_)));
    workers_.push_back(std::make_unique<Worker>(state_, control_, std::move(ports)));
    acceptor_ = std::make_unique<Acceptor>(state_, std::vector<BoundSocket>{}, std::vector<UnixListener>{}, workers_);
    control_.observe(workers_, *acceptor_, 0, 0);
  }

  void run(std::string_view input) {
    while (input.size() >= 2) {
      const auto length = std::size_t{static_cast<unsigned char>(input[0])} * 8;
      const auto action = static_cast<unsigned char>(input[1]);
      std::string frame(input.substr(2, length));
      input.remove_prefix(2 + frame.size());
      if (frame.size() > xdp_received_bytes_max) frame.resize(xdp_received_bytes_max);
      if ((action & 2) != 0 && frame.size() <= ethernet::payload_bytes_max) frame = ethernet::frame_of(frame);
      const bool can_be_sealed =
          frame.size() >= ethernet::header_bytes && ethernet::big(frame, 38) + std::size_t{34} <= frame.size();
      if ((action & 1) != 0 && can_be_sealed) ethernet::seal(frame);
      queue_->arrive(frame);
      if ((action & 4) != 0) workers_.front()->pass(0);
      if ((action & 8) != 0) check_replies();
    }
    run_passes();
    check_replies();
    // A good request, by a name of its own: other clients may have stored anything.
    std::string request(udp_frame_bytes, '\0');
    write_udp_frame({id, 0, 1}, request.data());
    TD_ASSERT(queue_->arrive(ethernet::frame_of(request + "mn\r\n")));
    run_passes();
    bool answered = false;
    for (const std::string& reply : queue_->take_out())
      answered |= reply.substr(ethernet::header_bytes) == std::string(request).append("MN\r\n");
    TD_ASSERT(answered);
  }

 private:
  static constexpr std::uint16_t id = 0xfa57;

  static EngineOptions engine_options() {
    EngineOptions options;
    options.memory_bytes = std::uint64_t{16} << 20;
    options.huge_pages = false;
    options.hash_seed = 1;
    return options;
  }
  static ServerOptions server_options() { return {}; }

  void run_passes() {
    for (int i = 0; i < 64; ++i) workers_.front()->pass(0);
  }
  void check_replies() {
    for (const std::string& reply : queue_->take_out()) {
      const ethernet::Udp udp = ethernet::read_frame(reply.data(), static_cast<std::uint32_t>(reply.size()));
      // To a request to port 0, which the kernel's program would not have given to the socket.
      if (udp.fault == ethernet::Fault::address) continue;
      TD_ASSERT(udp.fault == ethernet::Fault::none);
      TD_ASSERT(udp.payload_bytes + ethernet::header_bytes == reply.size());
      TD_ASSERT(udp.payload_bytes > udp_frame_bytes && udp.payload_bytes <= udp_datagram_bytes_max);
    }
  }

  std::shared_ptr<FakeQueue> queue_ = std::make_shared<FakeQueue>();
  Engine engine_;
  State state_;
  Control control_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace
}  // namespace tandem::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static tandem::net::Harness harness;
  harness.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
