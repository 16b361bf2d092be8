// Whole frames of a network: Ethernet II, IPv4 without options, UDP. What the host's kernel does for a socket, for
// frames that pass it by: a request is verified as the kernel verifies it, and the headers of its reply are written.
// For host and device.
//
//   |Ethernet 14: destination, source, 0x0800|IPv4 20|UDP 8|payload|padding of a short frame|
//
// A frame that is anything else has a reason (Fault). VLAN tags, IPv6, IP options and fragments are among them: a
// frame's payload is always at header_bytes. A frame to which a reply could not be one datagram to one machine (from or
// to a group, or from port 0) is, too. Whether address and port are this machine's is the caller's to know.
//
// Checksums are ones' complement sums of 16-bit words (RFC 1071). They are the same in either byte order, so words are
// summed as they lie in memory (RFC 1071, 2 (B)); a sum here is such a native word.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/host_device.hpp"

namespace tandem::ethernet {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::uint32_t ip_at = 14, udp_at = 34, header_bytes = 42;
inline constexpr std::uint32_t ip_header_bytes = 20, udp_header_bytes = 8;
// Of a reply's payload: what a frame of 1,500 bytes of IPv4 holds.
inline constexpr std::uint32_t payload_bytes_max = 1500 - ip_header_bytes - udp_header_bytes;

// Why a frame is no request. In the order in which they are looked for.
enum class Fault : std::uint8_t {
  none,
  type,      // neither IPv4 nor, in it, UDP; a VLAN tag
  length,    // shorter than its headers, or than they say
  options,   // an IPv4 header of another length than 20 bytes
  fragment,  // of a datagram in several
  address,   // from or to more than one machine, or from port 0: a reply would not be one datagram to one machine
  ip_sum,
  udp_sum,
};

struct Udp {
  Fault fault;
  std::uint16_t payload_bytes;  // from header_bytes on; 0 with a fault
};

// --- checksums

// The sum as one word, carries added.
TD_WORD std::uint32_t fold(std::uint64_t sum) {
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint32_t>((sum & 0xffff) + (sum >> 16));
}

// A word of these bytes, as it is loaded.
TD_WORD constexpr std::uint32_t pair(std::uint32_t first, std::uint32_t second) { return first | second << 8; }
TD_WORD constexpr std::uint32_t network_order(std::uint32_t n) { return pair(n >> 8 & 0xff, n & 0xff); }

TD_WORD std::uint32_t byte_at(const char* p, std::uint32_t at) { return static_cast<unsigned char>(p[at]); }
TD_WORD std::uint32_t word_at(const char* p, std::uint32_t at) { return pair(byte_at(p, at), byte_at(p, at + 1)); }
TD_WORD std::uint32_t number_at(const char* p, std::uint32_t at) { return byte_at(p, at) << 8 | byte_at(p, at + 1); }
TD_WORD void put_word(char* p, std::uint32_t at, std::uint32_t word) {
  p[at] = static_cast<char>(word & 0xff);
  p[at + 1] = static_cast<char>(word >> 8 & 0xff);
}

// The folded sum of bytes from any address on, by aligned words of four, with their other bytes loaded, too. For
// devices, which load nothing at other addresses.
TD_WORD std::uint32_t sum_by_words(const char* p, std::uint32_t bytes) {
  if (bytes == 0) return 0;
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  const auto skip = static_cast<std::uint32_t>(at & 3);
  const char* const first = p - skip;
  const std::uint32_t words = (skip + bytes + 3) / 4, behind = words * 4 - skip - bytes;
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < words; ++i) {
    std::uint32_t word;
#if defined(__CUDA_ARCH__)
    word = reinterpret_cast<const std::uint32_t*>(first)[i];
#else
    std::memcpy(&word, first + 4 * std::size_t{i}, sizeof word);
#endif
    if (i == 0) word &= 0xffffffff << 8 * skip;
    if (i + 1 == words) word &= 0xffffffff >> 8 * behind;
    sum += word;
  }
  const std::uint32_t folded = fold(sum);
  // From an odd address on each byte was summed in the other half of its word.
  return skip % 2 == 0 ? folded : pair(folded >> 8, folded & 0xff);
}

// The folded sum of bytes from any address on.
TD_WORD std::uint32_t sum_of(const char* p, std::uint32_t bytes) {
#if defined(__CUDA_ARCH__)
  return sum_by_words(p, bytes);
#else
  std::uint64_t sum = 0;
  for (; bytes >= 4; p += 4, bytes -= 4) {
    std::uint32_t word;
    std::memcpy(&word, p, sizeof word);
    sum += word;
  }
  if (bytes >= 2) sum += word_at(p, 0);
  if (bytes % 2 != 0) sum += byte_at(p, bytes - 1);
  return fold(sum);
#endif
}

// The sum of what UDP sums beside its datagram: addresses, protocol and length, of a frame with its IPv4 header.
TD_WORD std::uint32_t pseudo_header_sum(const char* frame, std::uint32_t udp_bytes) {
  return sum_of(frame + 26, 8) + pair(0, 17) + network_order(udp_bytes);
}

// --- a request

// All but the checksums. Reads nothing beyond frame + bytes.
TD_WORD Udp read_headers(const char* frame, std::uint32_t bytes) {
  constexpr std::uint32_t ipv4_type = 0x0800, udp_protocol = 17, offset_and_more_fragments = 0x3fff;
  if (bytes < ip_at) return {Fault::length, 0};
  if (number_at(frame, 12) != ipv4_type) return {Fault::type, 0};
  if (bytes < header_bytes) return {Fault::length, 0};
  if (byte_at(frame, ip_at) >> 4 != 4) return {Fault::type, 0};
  if (byte_at(frame, ip_at) != 0x45) return {Fault::options, 0};
  const std::uint32_t ip_bytes = number_at(frame, ip_at + 2);
  if (ip_bytes < ip_header_bytes + udp_header_bytes || ip_bytes > bytes - ip_at) return {Fault::length, 0};
  if ((number_at(frame, ip_at + 6) & offset_and_more_fragments) != 0) return {Fault::fragment, 0};
  if (byte_at(frame, ip_at + 9) != udp_protocol) return {Fault::type, 0};
  const std::uint32_t udp_bytes = number_at(frame, udp_at + 4);
  if (udp_bytes < udp_header_bytes || udp_bytes > ip_bytes - ip_header_bytes) return {Fault::length, 0};
  const bool of_group = ((byte_at(frame, 0) | byte_at(frame, 6)) & 1) != 0 || byte_at(frame, ip_at + 12) >= 224 ||
                        byte_at(frame, ip_at + 16) >= 224 || byte_at(frame, ip_at + 12) == 0;
  if (of_group || number_at(frame, udp_at) == 0) return {Fault::address, 0};
  return {Fault::none, static_cast<std::uint16_t>(udp_bytes - udp_header_bytes)};
}

// The checksums of a frame with right headers. A UDP checksum of 0 says that there is none.
TD_WORD Fault verify_sums(const char* frame, std::uint32_t payload_bytes) {
  constexpr std::uint32_t right = 0xffff;
  if (sum_of(frame + ip_at, ip_header_bytes) != right) return Fault::ip_sum;
  if (word_at(frame, udp_at + 6) == 0) return Fault::none;
  const std::uint32_t udp_bytes = udp_header_bytes + payload_bytes;
  const std::uint32_t sum = pseudo_header_sum(frame, udp_bytes) + sum_of(frame + udp_at, udp_bytes);
  return fold(sum) == right ? Fault::none : Fault::udp_sum;
}

TD_WORD Udp read_frame(const char* frame, std::uint32_t bytes) {
  const Udp udp = read_headers(frame, bytes);
  if (udp.fault != Fault::none) return udp;
  const Fault fault = verify_sums(frame, udp.payload_bytes);
  return {fault, fault == Fault::none ? udp.payload_bytes : std::uint16_t{0}};
}

// --- its reply

// Writes a reply's header_bytes bytes but for its UDP checksum, which is 0: none. Addresses and ports are the
// request's, swapped; it is not to be fragmented, so its IPv4 identification may be 0 (RFC 6864, 4.1). REQUIRES:
// payload_bytes <= payload_bytes_max; the request has no fault; `out` is no part of it.
TD_WORD void write_reply_headers(const char* request, std::uint32_t payload_bytes, char* out) {
  constexpr char hops = 64;
  for (std::uint32_t i = 0; i < 6; ++i) {
    out[i] = request[6 + i];
    out[6 + i] = request[i];
  }
  char* const ip = out + ip_at;
  put_word(out, 12, pair(0x08, 0x00));
  put_word(ip, 0, pair(0x45, 0));
  put_word(ip, 2, network_order(ip_header_bytes + udp_header_bytes + payload_bytes));
  put_word(ip, 4, 0);
  put_word(ip, 6, pair(0x40, 0));  // "don't fragment"
  ip[8] = hops;
  ip[9] = 17;
  put_word(ip, 10, 0);
  for (std::uint32_t i = 0; i < 4; ++i) {
    ip[12 + i] = request[ip_at + 16 + i];
    ip[16 + i] = request[ip_at + 12 + i];
  }
  put_word(ip, 10, ~sum_of(ip, ip_header_bytes));
  char* const udp = out + udp_at;
  put_word(udp, 0, word_at(request, udp_at + 2));
  put_word(udp, 2, word_at(request, udp_at));
  put_word(udp, 4, network_order(udp_header_bytes + payload_bytes));
  put_word(udp, 6, 0);
}

// Writes the UDP checksum of a reply with its headers and payload. Replies have one: neither frames that pass
// the kernel by nor those of a device get it from a card, and a value that a wire has changed would be taken for the
// item's.
TD_WORD void write_udp_sum(char* frame, std::uint32_t payload_bytes) {
  const std::uint32_t udp_bytes = udp_header_bytes + payload_bytes;
  const std::uint32_t sum = ~fold(pseudo_header_sum(frame, udp_bytes) + sum_of(frame + udp_at, udp_bytes)) & 0xffff;
  put_word(frame, udp_at + 6, sum != 0 ? sum : 0xffff);  // 0 would say that there is none
}

}  // namespace tandem::ethernet
