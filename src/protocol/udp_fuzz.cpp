// Datagrams as the server takes them: a frame, then requests of which what is not complete is dropped.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "protocol/parse_harness.hpp"
#include "protocol/udp.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  const std::unique_ptr<char[]> datagram(new char[size]);
  std::memcpy(datagram.get(), data, size);
  UdpFrame frame{};
  if (!read_udp_frame(datagram.get(), size, frame)) return 0;
  TD_ASSERT(size > udp_frame_bytes && frame.total == 1);

  char out[udp_frame_bytes];
  write_udp_frame(frame, out);
  UdpFrame again{};
  char with_payload[udp_frame_bytes + 1];
  std::memcpy(with_payload, out, sizeof out);
  with_payload[udp_frame_bytes] = 'x';
  TD_ASSERT(read_udp_frame(with_payload, sizeof with_payload, again));
  TD_ASSERT(again.request_id == frame.request_id && again.sequence == frame.sequence && again.total == frame.total);

  protocol::ParseHarness harness(ProtocolOptions{});
  harness.offer(std::string_view(datagram.get() + udp_frame_bytes, size - udp_frame_bytes));
  return 0;
}
