// memcached's UDP frame (protocol.txt, "UDP protocol"): 8 bytes before each datagram's payload, all big-endian 16-bit
// words:
//   |request id|sequence number|datagrams in this message|reserved, 0|
#pragma once
#include <cstddef>
#include <cstdint>

namespace tandem {

inline constexpr std::size_t udp_frame_bytes = 8;
inline constexpr std::size_t udp_datagram_bytes_max = 1400;  // frame included, as memcached sends them

struct UdpFrame {
  std::uint16_t request_id, sequence, total;
};

// False: no payload, or not marked as the only datagram of its request; memcached drops both. As in memcached, the
// sequence number and the reserved word are ignored. bytes: of the whole datagram.
bool read_udp_frame(const char* datagram, std::size_t bytes, UdpFrame& frame) noexcept;
void write_udp_frame(const UdpFrame& frame, char out[udp_frame_bytes]) noexcept;

}  // namespace tandem
