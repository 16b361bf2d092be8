#include "net/udp_port.hpp"

#include <netinet/in.h>

#include <cerrno>

#include "protocol/udp.hpp"

namespace tandem::net {
namespace {
constexpr unsigned replies_max = 64;  // datagrams per sendmmsg
constexpr unsigned pieces_max =
    4;  // of a datagram: the frame, and at most three stretches, since a pinned one is longer than a datagram
}  // namespace
static_assert(copied_value_bytes_max > udp_payload_bytes_max);

struct UdpPort::Buffers {
  mmsghdr in[datagrams_per_pass]{};
  iovec in_parts[datagrams_per_pass];
  sockaddr_storage peers[datagrams_per_pass];
  std::unique_ptr<char[]> slots{new char[datagrams_per_pass * datagram_slot_bytes]};

  unsigned in_count = 0;  // of the last receive()

  mmsghdr out[replies_max]{};
  iovec out_parts[replies_max][pieces_max];
  char frames[replies_max][udp_frame_bytes];
  unsigned out_count = 0;
};

UdpPort::UdpPort(Fd fd) : fd_(std::move(fd)), buffers_(std::make_unique<Buffers>()) {
  for (unsigned i = 0; i < datagrams_per_pass; ++i) {
    buffers_->in_parts[i] = {buffers_->slots.get() + i * datagram_slot_bytes, datagram_slot_bytes};
    msghdr& header = buffers_->in[i].msg_hdr;
    header.msg_iov = &buffers_->in_parts[i];
    header.msg_iovlen = 1;
    header.msg_name = &buffers_->peers[i];
    header.msg_namelen = sizeof buffers_->peers[i];
  }
}
UdpPort::UdpPort(UdpPort&&) noexcept = default;
UdpPort::~UdpPort() = default;

unsigned UdpPort::receive() noexcept {
  Buffers& b = *buffers_;
  for (unsigned i = 0; i < b.in_count; ++i) b.in[i].msg_hdr.msg_namelen = sizeof b.peers[i];
  const int count = recvmmsg(fd_.get(), b.in, datagrams_per_pass, MSG_DONTWAIT, nullptr);
  b.in_count = count > 0 ? static_cast<unsigned>(count) : 0;
  return b.in_count;
}

UdpPort::Datagram UdpPort::datagram(unsigned i) const noexcept {
  return {buffers_->slots.get() + i * datagram_slot_bytes, buffers_->in[i].msg_len};
}

void UdpPort::reply(const UdpReply& to, const OutputRange& range, NetCounters& counters) noexcept {
  const std::size_t bytes = range.copied_bytes() + static_cast<std::size_t>(range.pinned_bytes());
  const auto total = static_cast<std::uint16_t>((bytes + udp_payload_bytes_max - 1) / udp_payload_bytes_max);
  iovec pieces[pieces_max - 1];
  std::size_t count = 0, filled = 0;
  std::uint16_t sequence = 0;
  range.for_each([&](const char* p, std::size_t left, Location) {
    while (left != 0) {
      const std::size_t taken = std::min(left, udp_payload_bytes_max - filled);
      pieces[count++] = {const_cast<char*>(p), taken};
      p += taken;
      left -= taken;
      filled += taken;
      if (filled == udp_payload_bytes_max) {
        queue(pieces, count, to, sequence++, total, counters);
        count = filled = 0;
      }
    }
  });
  if (filled != 0) queue(pieces, count, to, sequence, total, counters);
}

void UdpPort::queue(const iovec* pieces, std::size_t count, const UdpReply& to, std::uint16_t sequence,
                    std::uint16_t total, NetCounters& counters) noexcept {
  Buffers& b = *buffers_;
  if (b.out_count == replies_max) flush(counters);
  const unsigned i = b.out_count++;
  write_udp_frame({to.request_id, sequence, total}, b.frames[i]);
  b.out_parts[i][0] = {b.frames[i], udp_frame_bytes};
  for (std::size_t k = 0; k < count; ++k) b.out_parts[i][k + 1] = pieces[k];
  msghdr& header = b.out[i].msg_hdr;
  header.msg_iov = b.out_parts[i];
  header.msg_iovlen = count + 1;
  header.msg_name = &b.peers[to.datagram];
  header.msg_namelen = b.in[to.datagram].msg_hdr.msg_namelen;
}

void UdpPort::flush(NetCounters& counters) noexcept {
  Buffers& b = *buffers_;
  unsigned done = 0;
  while (done < b.out_count) {
    const int sent = sendmmsg(fd_.get(), b.out + done, b.out_count - done, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      for (unsigned i = done; i < done + static_cast<unsigned>(sent); ++i) counters.bytes_written.add(b.out[i].msg_len);
      done += static_cast<unsigned>(sent);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == ENOBUFS) {
      counters.udp_replies_dropped.add(b.out_count - done);
      break;
    }
    counters.udp_replies_dropped.add();  // this peer cannot be reached
    ++done;
  }
  b.out_count = 0;
}

}  // namespace tandem::net
