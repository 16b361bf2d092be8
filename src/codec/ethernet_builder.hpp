// For tests and fuzzing: frames, written and verified byte by byte, by code that ethernet.hpp has no part in.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::ethernet {

// RFC 1071 as it is written: the sum of big-endian words.
inline std::uint32_t rfc_1071_sum(std::string_view bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (i % 2 == 0 ? 8 : 0);
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}

inline void put_big(std::string& s, std::size_t at, std::uint32_t n) {
  s[at] = static_cast<char>(n >> 8 & 0xff);
  s[at + 1] = static_cast<char>(n & 0xff);
}
inline std::uint32_t big(std::string_view s, std::size_t at) {
  return static_cast<std::uint32_t>(static_cast<unsigned char>(s[at])) << 8 | static_cast<unsigned char>(s[at + 1]);
}

// The sum that a UDP checksum is over. REQUIRES: the frame has its headers and as many bytes as they say.
inline std::uint32_t udp_sum(std::string_view frame) {
  const std::uint32_t udp_bytes = big(frame, 38);
  std::string all(frame.substr(26, 8));
  all += std::string{0, 17, static_cast<char>(udp_bytes >> 8), static_cast<char>(udp_bytes & 0xff)};
  return rfc_1071_sum(all.append(frame.substr(34, udp_bytes)));
}

// Writes both checksums of a frame.
inline void seal(std::string& frame) {
  put_big(frame, 24, 0);
  put_big(frame, 24, ~rfc_1071_sum(std::string_view(frame).substr(14, 20)));
  put_big(frame, 40, 0);
  const std::uint32_t sum = ~udp_sum(frame) & 0xffff;
  put_big(frame, 40, sum == 0 ? 0xffff : sum);
}

struct Ends {
  std::string_view mac = std::string_view("\x02\xbb\xbb\xbb\xbb\x01\x02\xaa\xaa\xaa\xaa\x02", 12);  // to, from
  std::string_view from = std::string_view("\x0a\x00\x00\x02", 4), to = std::string_view("\x0a\x00\x00\x01", 4);
  std::uint16_t from_port = 40000, to_port = 11211;
};

inline std::string frame_of(std::string_view payload, const Ends& ends = {}) {
  std::string f(ends.mac);
  f += std::string("\x08\x00\x45\x00\0\0\x12\x34\x40\x00\x40\x11\0\0", 14);
  f += ends.from;
  f += ends.to;
  f.append(8, '\0');
  put_big(f, 16, static_cast<std::uint32_t>(28 + payload.size()));
  put_big(f, 34, ends.from_port);
  put_big(f, 36, ends.to_port);
  put_big(f, 38, static_cast<std::uint32_t>(8 + payload.size()));
  f += payload;
  seal(f);
  return f;
}

// The reply to `request` that has this payload, to the byte.
inline std::string reply_frame(std::string_view request, std::string_view payload) {
  std::string f =
      frame_of(payload, {std::string_view(request).substr(0, 12), request.substr(30, 4), request.substr(26, 4),
                         static_cast<std::uint16_t>(big(request, 36)), static_cast<std::uint16_t>(big(request, 34))});
  for (std::size_t i = 0; i < 6; ++i) std::swap(f[i], f[6 + i]);
  put_big(f, 18, 0);
  seal(f);
  return f;
}

}  // namespace tandem::ethernet
