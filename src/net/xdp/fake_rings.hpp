// The rings of an AF_XDP socket without a kernel, for tests: what arrives and what is sent are frames in lists, and a
// frame that is not where it should be ends the program.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/platform.hpp"
#include "net/event_fd.hpp"
#include "net/xdp/xdp_port.hpp"

namespace tandem::net::test {

class FakeQueue {
 public:
  FakeQueue()
      : memory_(std::make_unique<char[]>(std::size_t{xdp_frames} * xdp_frame_bytes)), owned_(xdp_frames, true) {}

  // A frame arrives. False: the port has offered none that is free, so the kernel would drop it.
  bool arrive(std::string_view frame, std::uint32_t headroom = xdp_headroom_bytes) {
    TD_ASSERT(frame.size() <= xdp_frame_bytes - headroom);
    if (to_fill_.empty()) return false;
    const std::uint64_t address = to_fill_.front() + headroom;
    to_fill_.pop_front();
    std::memcpy(memory_.get() + address, frame.data(), frame.size());
    received_.push_back({address, static_cast<std::uint32_t>(frame.size())});
    event_.notify();
    return true;
  }
  // Takes what was sent; its frames are the port's again.
  std::vector<std::string> take_out() {
    std::vector<std::string> all;
    for (const XdpFrame& f : kernel_sends_) {
      all.emplace_back(memory_.get() + f.address, f.bytes);
      completed_.push_back(f.address);
    }
    kernel_sends_.clear();
    return all;
  }
  std::size_t offered() const { return to_fill_.size(); }
  std::size_t calls() const { return calls_; }

  // XdpRings, for FakeRings
  int fd() const { return event_.get(); }
  char* memory() const { return memory_.get(); }
  unsigned take_received(std::span<XdpFrame> frames) {
    return take(received_, frames, [](const XdpFrame& f) { return f.address; });
  }
  unsigned take_sent(std::span<std::uint64_t> addresses) {
    return take(completed_, addresses, [](std::uint64_t address) { return address; });
  }
  unsigned offer(std::span<const std::uint64_t> addresses) {
    for (const std::uint64_t address : addresses) {
      give(address);
      to_fill_.push_back(address);
    }
    TD_ASSERT(to_fill_.size() <= xdp_ring_places);
    return static_cast<unsigned>(addresses.size());
  }
  bool put(const XdpFrame& frame) {
    TD_ASSERT(frame.bytes <= xdp_frame_bytes);
    give(frame.address);
    put_.push_back(frame);
    TD_ASSERT(put_.size() + kernel_sends_.size() <= xdp_ring_places);
    return true;
  }
  void send() {
    ++calls_;
    kernel_sends_.insert(kernel_sends_.end(), put_.begin(), put_.end());
    put_.clear();
  }

 private:
  // The port has given the frame away: it must have had it, whole.
  void give(std::uint64_t address) {
    TD_ASSERT(address % xdp_frame_bytes == 0);
    TD_ASSERT(owned_.at(address / xdp_frame_bytes));
    owned_[address / xdp_frame_bytes] = false;
  }
  template <class T, class AddressOf>
  unsigned take(std::deque<T>& from, std::span<T> to, AddressOf address_of) {
    const std::size_t count = std::min(from.size(), to.size());
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = from.front();
      from.pop_front();
      const std::uint64_t frame = address_of(to[i]) / xdp_frame_bytes;
      TD_ASSERT(!owned_.at(frame));
      owned_[frame] = true;
    }
    return static_cast<unsigned>(count);
  }

  EventFd event_;
  std::unique_ptr<char[]> memory_;
  std::vector<bool> owned_;  // by the port
  std::deque<std::uint64_t> to_fill_, completed_;
  std::deque<XdpFrame> received_;
  std::vector<XdpFrame> put_, kernel_sends_;
  std::size_t calls_ = 0;
};
// What a port owns of it.
class FakeRings {
 public:
  explicit FakeRings(std::shared_ptr<FakeQueue> queue) : queue_(std::move(queue)) {}
  int fd() const { return queue_->fd(); }
  std::string address() const { return "xdp:fake:0"; }
  char* memory() const { return queue_->memory(); }
  unsigned take_received(std::span<XdpFrame> frames) { return queue_->take_received(frames); }
  unsigned take_sent(std::span<std::uint64_t> addresses) { return queue_->take_sent(addresses); }
  unsigned offer(std::span<const std::uint64_t> addresses) { return queue_->offer(addresses); }
  bool put(const XdpFrame& frame) { return queue_->put(frame); }
  void send() { queue_->send(); }

 private:
  std::shared_ptr<FakeQueue> queue_;
};
static_assert(XdpRings<FakeRings>);

}  // namespace tandem::net::test
