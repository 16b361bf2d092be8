// Bounds of an AF_XDP socket, each with its reason.
#pragma once
#include <cstddef>
#include <cstdint>

#include "codec/ethernet.hpp"
#include "codec/udp.hpp"

namespace tandem::net {

// A frame of an Ethernet with packets of 1,500 bytes and the kernel's room before it; the smallest size that the kernel
// takes. With the numbers below 5 MiB a queue.
inline constexpr std::uint32_t xdp_frame_bytes = 2048;
// Frames for requests: twice what a socket of the usual size (212,992 bytes) holds. They are used in turn, so that more
// would only push other data out of the processor's caches.
inline constexpr std::uint32_t xdp_request_frames = 512;
// Frames for replies: a reply of 2 MiB (udp_reply_bytes_max) is 1,507 datagrams.
inline constexpr std::uint32_t xdp_reply_frames = 2048;
inline constexpr std::uint32_t xdp_frames = xdp_request_frames + xdp_reply_frames;
// What the kernel keeps before a received frame (XDP_PACKET_HEADROOM). Longer frames go to the kernel's stack.
inline constexpr std::uint32_t xdp_headroom_bytes = 256;
inline constexpr std::uint32_t xdp_received_bytes_max = xdp_frame_bytes - xdp_headroom_bytes;
// Places in each of a socket's rings: for all frames.
inline constexpr std::uint32_t xdp_ring_places = 2048;
static_assert(xdp_request_frames <= xdp_ring_places && xdp_reply_frames <= xdp_ring_places);
// Frames that a pass looks at, requests or not.
inline constexpr unsigned xdp_frames_per_pass = 256;

static_assert(ethernet::header_bytes + udp_datagram_bytes_max <= xdp_frame_bytes);
// Packets of a smaller MTU would not hold a reply's datagram.
inline constexpr int xdp_mtu_min =
    static_cast<int>(ethernet::ip_header_bytes + ethernet::udp_header_bytes + udp_datagram_bytes_max);

}  // namespace tandem::net
