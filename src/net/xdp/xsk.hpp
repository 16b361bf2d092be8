// An AF_XDP socket on one receive queue of an interface, by libxdp: its four rings and the memory of its frames.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "net/xdp/xdp_port.hpp"

namespace tandem::net {

class Xsk {
 public:
  // native: the driver runs the program, so the socket may share its memory with the device. Throws XdpError.
  Xsk(const std::string& interface, unsigned queue, bool native);
  Xsk(Xsk&&) noexcept;
  Xsk& operator=(Xsk&&) = delete;
  ~Xsk();

  bool has_zero_copy() const noexcept { return zero_copy_; }
  // XdpRings
  int fd() const noexcept { return fd_; }
  std::string address() const;
  char* memory() const noexcept { return memory_; }
  unsigned take_received(std::span<XdpFrame> frames) noexcept;
  unsigned take_sent(std::span<std::uint64_t> addresses) noexcept;
  unsigned offer(std::span<const std::uint64_t> addresses) noexcept;
  bool put(const XdpFrame& frame) noexcept;
  void send() noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  char* memory_ = nullptr;
  int fd_ = -1;
  bool zero_copy_ = false;
};
static_assert(XdpRings<Xsk>);

}  // namespace tandem::net
