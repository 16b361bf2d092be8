#include "codec/udp.hpp"

namespace tandem {
namespace {

std::uint16_t read_u16(const char* p) noexcept {
  const auto byte = [p](int i) { return static_cast<unsigned>(static_cast<unsigned char>(p[i])); };
  return static_cast<std::uint16_t>(byte(0) << 8 | byte(1));
}

void write_u16(char* p, std::uint16_t n) noexcept {
  p[0] = static_cast<char>(n >> 8);
  p[1] = static_cast<char>(n & 0xff);
}

}  // namespace

bool read_udp_frame(const char* datagram, std::size_t bytes, UdpFrame& frame) noexcept {
  if (bytes <= udp_frame_bytes) return false;
  frame = {read_u16(datagram), read_u16(datagram + 2), read_u16(datagram + 4)};
  return frame.total == 1;
}

void write_udp_frame(const UdpFrame& frame, char out[udp_frame_bytes]) noexcept {
  write_u16(out, frame.request_id);
  write_u16(out + 2, frame.sequence);
  write_u16(out + 4, frame.total);
  write_u16(out + 6, 0);
}

}  // namespace tandem
