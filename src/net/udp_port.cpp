#include "net/udp_port.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "codec/udp.hpp"
#include "net/system_calls.hpp"

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
  int count;
  do {  // no event would tell of them again
    count = recvmmsg(fd_.get(), b.in, datagrams_per_pass, MSG_DONTWAIT, nullptr);
  } while (count < 0 && errno == EINTR);
  b.in_count = count > 0 ? static_cast<unsigned>(count) : 0;
  return b.in_count;
}

UdpPort::Datagram UdpPort::datagram(unsigned i) const noexcept {
  return {buffers_->slots.get() + i * datagram_slot_bytes, buffers_->in[i].msg_len};
}

void UdpPort::reply(const UdpReply& to, const OutputRange& range, NetCounters& counters) noexcept {
  const std::size_t bytes = range.copied_bytes() + static_cast<std::size_t>(range.pinned_bytes()) - udp_frame_bytes;
  if (TD_LIKELY(bytes <= udp_payload_bytes_max)) {
    // Values this short are not pinned: the reply is one stretch, its frame included.
    iovec whole{const_cast<char*>(range.output->data()) + range.begin, range.copied_bytes()};
    queue({&whole, 1}, to, counters);
    return;
  }
  const auto total = static_cast<std::uint16_t>((bytes + udp_payload_bytes_max - 1) / udp_payload_bytes_max);
  iovec pieces[pieces_max];
  std::size_t count = 1, filled = 0, skipped = udp_frame_bytes;  // the first piece is the frame
  std::uint16_t sequence = 0;
  const auto close = [&] {
    if (buffers_->out_count == replies_max) flush(counters);
    char* const frame = buffers_->frames[buffers_->out_count];
    write_udp_frame({to.request_id, sequence++, total}, frame);
    pieces[0] = {frame, udp_frame_bytes};
    queue({pieces, count}, to, counters);
    count = 1;
    filled = 0;
  };
  range.for_each([&](const char* p, std::size_t left, Location) {
    const std::size_t skip = std::min(left, std::exchange(skipped, 0));  // the frame that it would have as one datagram
    p += skip;
    left -= skip;
    while (left != 0) {
      const std::size_t taken = std::min(left, udp_payload_bytes_max - filled);
      pieces[count++] = {const_cast<char*>(p), taken};
      p += taken;
      left -= taken;
      filled += taken;
      if (filled == udp_payload_bytes_max) close();
    }
  });
  if (filled != 0) close();
}

void UdpPort::queue(std::span<const iovec> pieces, const UdpReply& to, NetCounters& counters) noexcept {
  Buffers& b = *buffers_;
  if (b.out_count == replies_max) flush(counters);
  const unsigned i = b.out_count++;
  std::copy(pieces.begin(), pieces.end(), b.out_parts[i]);
  msghdr& header = b.out[i].msg_hdr;
  header.msg_iov = b.out_parts[i];
  header.msg_iovlen = pieces.size();
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
    if (errno == EFAULT) touch_pages(b.out_parts[done], b.out[done].msg_hdr.msg_iovlen);
    counters.udp_replies_dropped.add();  // this peer cannot be reached
    ++done;
  }
  b.out_count = 0;
}

}  // namespace tandem::net
