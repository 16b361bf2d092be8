// A UDP port that is a socket: many datagrams per system call.
#pragma once
#include <memory>

#include "net/fd.hpp"
#include "net/udp_port.hpp"

namespace tandem::net {

class UdpSocket final : public UdpPort {
 public:
  explicit UdpSocket(Fd fd);
  ~UdpSocket() override;

  int fd() const noexcept override { return fd_.get(); }
  std::string address() const override;
  unsigned receive(NetCounters& counters) noexcept override;
  void send(const Output& output, std::span<const UdpMessage> messages, NetCounters& counters) noexcept override;

 private:
  void queue(std::span<const iovec> pieces, const UdpFrame* frame, const UdpReply& to, NetCounters& counters) noexcept;
  void flush(NetCounters& counters) noexcept;

  struct Buffers;
  Fd fd_;
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace tandem::net
