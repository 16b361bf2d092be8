#include "net/udp_socket.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "lane/lane.hpp"
#include "net/endpoint.hpp"
#include "net/system_calls.hpp"

namespace tandem::net {
namespace {
constexpr unsigned replies_max = 64;                 // datagrams per sendmmsg
constexpr unsigned pieces_max = 1 + udp_pieces_max;  // the frame, and what it frames
}  // namespace

struct UdpSocket::Buffers {
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

UdpSocket::UdpSocket(Fd fd) : fd_(std::move(fd)), buffers_(std::make_unique<Buffers>()) {
  for (unsigned i = 0; i < datagrams_per_pass; ++i) {
    datagrams_[i].data = buffers_->slots.get() + i * datagram_slot_bytes;
    buffers_->in_parts[i] = {datagrams_[i].data, datagram_slot_bytes - lane_padding_bytes};
    msghdr& header = buffers_->in[i].msg_hdr;
    header.msg_iov = &buffers_->in_parts[i];
    header.msg_iovlen = 1;
    header.msg_name = &buffers_->peers[i];
    header.msg_namelen = sizeof buffers_->peers[i];
  }
}
UdpSocket::~UdpSocket() = default;

std::string UdpSocket::address() const { return local_text(fd_.get()); }

unsigned UdpSocket::receive(NetCounters& /*counters*/) noexcept {
  Buffers& b = *buffers_;
  for (unsigned i = 0; i < b.in_count; ++i) b.in[i].msg_hdr.msg_namelen = sizeof b.peers[i];
  int count;
  do {  // no event would tell of them again
    count = recvmmsg(fd_.get(), b.in, datagrams_per_pass, MSG_DONTWAIT, nullptr);
  } while (count < 0 && errno == EINTR);
  b.in_count = count > 0 ? static_cast<unsigned>(count) : 0;
  for (unsigned i = 0; i < b.in_count; ++i) datagrams_[i].bytes = b.in[i].msg_len;
  has_more = b.in_count == datagrams_per_pass;
  return b.in_count;
}

void UdpSocket::send(const Output& output, std::span<const UdpMessage> messages, NetCounters& counters) noexcept {
  for (const UdpMessage& m : messages) {
    cut_reply(m.to.request_id, m.range(output),
              [&](std::span<const iovec> pieces, const UdpFrame* frame) { queue(pieces, frame, m.to, counters); });
  }
  flush(counters);
}

void UdpSocket::queue(std::span<const iovec> pieces, const UdpFrame* frame, const UdpReply& to,
                      NetCounters& counters) noexcept {
  Buffers& b = *buffers_;
  if (b.out_count == replies_max) flush(counters);
  const unsigned i = b.out_count++;
  iovec* part = b.out_parts[i];
  if (frame != nullptr) {
    write_udp_frame(*frame, b.frames[i]);
    *part++ = {b.frames[i], udp_frame_bytes};
  }
  part = std::copy(pieces.begin(), pieces.end(), part);
  msghdr& header = b.out[i].msg_hdr;
  header.msg_iov = b.out_parts[i];
  header.msg_iovlen = static_cast<std::size_t>(part - b.out_parts[i]);
  header.msg_name = &b.peers[to.datagram];
  header.msg_namelen = b.in[to.datagram].msg_hdr.msg_namelen;
}

void UdpSocket::flush(NetCounters& counters) noexcept {
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
    if (errno == EFAULT) touch_pages(b.out_parts[done], b.out[done].msg_hdr.msg_iovlen);
    counters.udp_replies_dropped.add();  // this peer cannot be reached
    ++done;
  }
  b.out_count = 0;
}

}  // namespace tandem::net
