// A UDP port that is an AF_XDP socket: frames of one receive queue of an interface, past the kernel's network stack.
// The kernel and the worker share the frames' memory. Requests are parsed where they arrived, replies are written into
// frames, and at most one system call sends those of a pass.
//
// Some frames are for requests, the rest for replies: the stack of the latter hands out those that are still in the
// processor's caches. A frame for requests is held (since the last receive()) or with the kernel; one for replies is
// free or with the kernel. Behind each frame for requests lies another frame, as the lane's padding.
#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codec/ethernet.hpp"
#include "net/udp_port.hpp"
#include "net/xdp/limits.hpp"

namespace tandem::net {

// A frame's bytes: at most xdp_frame_bytes from an address in the shared memory on.
struct XdpFrame {
  std::uint64_t address;
  std::uint32_t bytes;
};

// The four rings of a socket and their memory: xdp_frames frames of xdp_frame_bytes, each at a multiple of that. Tests
// have rings of their own.
template <class R>
concept XdpRings =
    std::move_constructible<R> && requires(R r, std::span<XdpFrame> frames, std::span<std::uint64_t> addresses,
                                           std::span<const std::uint64_t> empty, XdpFrame frame) {
      { r.fd() } -> std::same_as<int>;
      { r.address() } -> std::same_as<std::string>;
      { r.memory() } -> std::same_as<char*>;
      { r.take_received(frames) } -> std::same_as<unsigned>;  // fills a part of the span
      { r.take_sent(addresses) } -> std::same_as<unsigned>;   // the same
      { r.offer(empty) } -> std::same_as<unsigned>;           // to be filled; how many the ring took
      { r.put(frame) } -> std::same_as<bool>;                 // to be sent; false: the ring is full
      { r.send() } -> std::same_as<void>;                     // tells the kernel of what was put
    };

template <XdpRings Rings>
class BasicXdpPort final : public UdpPort {
 public:
  explicit BasicXdpPort(Rings rings) : rings_(std::move(rings)) {
    held_.reserve(xdp_request_frames);
    free_.reserve(xdp_reply_frames);
    for (std::uint64_t i = 0; i < xdp_frames; ++i)
      (i < xdp_request_frames ? held_ : free_).push_back(i * xdp_frame_bytes);
    offer_held();
  }

  int fd() const noexcept override { return rings_.fd(); }
  std::string address() const override { return rings_.address(); }

  unsigned receive(NetCounters& counters) noexcept override {
    offer_held();
    take_back_sent();
    count_ = 0;
    has_more = true;
    // Frames that are no requests end a pass, too: other connections wait for their turn.
    while (count_ < datagrams_per_pass && held_.size() < xdp_frames_per_pass) {
      std::array<XdpFrame, datagrams_per_pass> frames;
      const unsigned taken = rings_.take_received({frames.data(), datagrams_per_pass - count_});
      if (taken == 0) {
        has_more = false;
        break;
      }
      for (unsigned i = 0; i < taken; ++i) take(frames[i], counters);
    }
    return count_;
  }

  void send(const Output& output, std::span<const UdpMessage> messages, NetCounters& counters) noexcept override {
    for (const UdpMessage& m : messages) {
      cut_reply(m.to.request_id, m.range(output), [&](std::span<const iovec> pieces, const UdpFrame* frame) {
        const std::uint32_t bytes = put(pieces, frame, m.to.datagram);
        if (TD_UNLIKELY(bytes == 0)) counters.udp_replies_dropped.add();
        counters.bytes_written.add(bytes);
      });
    }
    rings_.send();
  }

 private:
  static std::uint64_t frame_of(std::uint64_t address) noexcept {
    return address & ~std::uint64_t{xdp_frame_bytes - 1};
  }

  void offer_held() noexcept {
    if (held_.empty()) return;
    // The ring has room for all frames for requests.
    [[maybe_unused]] const unsigned taken = rings_.offer(held_);
    TD_ASSERT(taken == held_.size());
    held_.clear();
  }

  void take(const XdpFrame& frame, NetCounters& counters) noexcept {
    counters.xdp_frames.add();
    held_.push_back(frame_of(frame.address));
    char* const bytes = rings_.memory() + frame.address;
    const ethernet::Udp udp = ethernet::read_frame(bytes, frame.bytes);
    if (TD_UNLIKELY(udp.fault != ethernet::Fault::none)) {
      const bool is_sum = udp.fault == ethernet::Fault::ip_sum || udp.fault == ethernet::Fault::udp_sum;
      (is_sum ? counters.xdp_wrong_sums : counters.xdp_wrong_frames).add();
      return;
    }
    datagrams_[count_].data = bytes + ethernet::header_bytes;
    datagrams_[count_++].bytes = udp.payload_bytes;
  }

  void take_back_sent() noexcept {
    std::array<std::uint64_t, 64> sent;
    unsigned count;
    do {
      count = rings_.take_sent(sent);
      free_.insert(free_.end(), sent.begin(), sent.begin() + count);
    } while (count == sent.size());
  }

  // Writes one datagram of a reply to a request. Returns its bytes; 0: all frames are on their way.
  std::uint32_t put(std::span<const iovec> pieces, const UdpFrame* udp_frame, std::uint32_t request) noexcept {
    if (TD_UNLIKELY(free_.empty())) {
      rings_.send();
      take_back_sent();
      if (free_.empty()) return 0;
    }
    const std::uint64_t address = free_.back();
    char* const bytes = rings_.memory() + address;
    char* to = bytes + ethernet::header_bytes;
    if (udp_frame != nullptr) {
      write_udp_frame(*udp_frame, to);
      to += udp_frame_bytes;
    }
    for (const iovec& piece : pieces) {
      std::memcpy(to, piece.iov_base, piece.iov_len);
      to += piece.iov_len;
    }
    const auto frame_bytes = static_cast<std::uint32_t>(to - bytes);
    const std::uint32_t payload_bytes = frame_bytes - ethernet::header_bytes;
    ethernet::write_reply_headers(datagrams_[request].data - ethernet::header_bytes, payload_bytes, bytes);
    ethernet::write_udp_sum(bytes, payload_bytes);
    if (!rings_.put({address, frame_bytes})) return 0;
    free_.pop_back();
    return payload_bytes;
  }

  Rings rings_;
  // Addresses of frames; neither grows beyond what was reserved.
  std::vector<std::uint64_t> held_, free_;
  unsigned count_ = 0;  // of the last receive()
};

}  // namespace tandem::net
