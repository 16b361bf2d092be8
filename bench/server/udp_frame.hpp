// The frame before each datagram of memcached's UDP protocol (protocol.txt, "UDP protocol").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem::bench {

//     0        2         4        6         8 bytes, big-endian
//    [id      |sequence |count   |0        ]
struct UdpFrame {
  static constexpr size_t bytes = 8;

  uint16_t id;        // chosen by the client, returned by the server
  uint16_t sequence;  // of this datagram in its message
  uint16_t count;     // datagrams in the message

  void write(char* out) const {
    put(out, id);
    put(out + 2, sequence);
    put(out + 4, count);
    put(out + 6, 0);
  }

  // `datagram` must have `bytes` bytes at least.
  static UdpFrame read(std::string_view datagram) { return {take(datagram, 0), take(datagram, 2), take(datagram, 4)}; }

 private:
  static void put(char* out, unsigned value) {
    out[0] = static_cast<char>(value >> 8);
    out[1] = static_cast<char>(value & 0xff);
  }
  static uint16_t take(std::string_view in, size_t at) {
    const unsigned high = static_cast<unsigned char>(in[at]);
    const unsigned low = static_cast<unsigned char>(in[at + 1]);
    return static_cast<uint16_t>(high << 8 | low);
  }
};

}  // namespace tandem::bench
