// The program that the kernel runs for each packet of an interface: it gives the server's datagrams to its AF_XDP
// sockets and passes everything else to the kernel's own network stack. Written as instructions, so that a build needs
// no compiler for BPF.
#pragma once
#include <linux/bpf.h>

#include <array>
#include <cstdint>
#include <vector>

namespace tandem::net {

// What the sockets get: whole IPv4 packets without options, of UDP, sent to this interface, one of these addresses and
// this port. The rest (TCP, ARP, IPv6, VLANs, fragments, options, longer frames) goes to the kernel, which serves what
// of it is the server's through its UDP and TCP sockets.
struct XdpMatch {
  std::array<std::uint8_t, 6> mac{};     // of the interface
  std::vector<std::uint32_t> addresses;  // in network byte order; at most xdp_addresses_max
  std::uint16_t port = 0;
  std::uint32_t frame_bytes_max = 0;
};
inline constexpr std::size_t xdp_addresses_max = 64;

// map: descriptor of a map of sockets by receive queue. A queue without a socket has its packets passed, too.
std::vector<bpf_insn> make_xdp_program(const XdpMatch& match, int map);

}  // namespace tandem::net
