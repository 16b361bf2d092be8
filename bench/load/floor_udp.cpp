#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstring>

#include "bench/load/floor.hpp"
#include "codec/udp.hpp"

namespace tandem::load {
namespace {

class UdpFloorWorker final : public FloorWorker {
 public:
  UdpFloorWorker(net::Fd socket, const FloorOptions& options, const CannedReplies& replies)
      : replies_(replies),
        socket_(std::move(socket)),
        use_epoll_(options.use_epoll),
        input_(batch * datagram_bytes),
        output_(batch * datagram_bytes) {
    for (std::size_t i = 0; i < batch; ++i) {
      in_vectors_[i] = {&input_[i * datagram_bytes], datagram_bytes - CannedReplies::read_margin};
      in_[i].msg_hdr.msg_name = &peers_[i];
      in_[i].msg_hdr.msg_iov = &in_vectors_[i];
      in_[i].msg_hdr.msg_iovlen = 1;
      out_[i].msg_hdr.msg_iov = &out_vectors_[i];
      out_[i].msg_hdr.msg_iovlen = 1;
    }
    // So that stop() is noticed on an idle socket.
    const timeval look{0, 100'000};
    check(setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look), "SO_RCVTIMEO");
    if (!use_epoll_) return;
    epoll_ = net::Fd(check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1"));
    epoll_event event{};
    event.events = EPOLLIN;
    check(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket_.get(), &event), "epoll_ctl");
  }

  void run() override {
    epoll_event event;
    while (!stop_.load(std::memory_order_relaxed)) {
      if (use_epoll_ && epoll_wait(epoll_.get(), &event, 1, 100) <= 0) continue;
      for (auto& message : in_) message.msg_hdr.msg_namelen = sizeof(sockaddr_storage);
      serve(recvmmsg(socket_.get(), in_.data(), batch, use_epoll_ ? MSG_DONTWAIT : MSG_WAITFORONE, nullptr));
    }
  }

  void stop() noexcept override { stop_.store(true, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t batch = 64;
  static constexpr std::size_t datagram_bytes = 65536;

  void serve(int received) {
    std::size_t out_bytes = 0;
    std::size_t count = 0;
    for (std::size_t i = 0; received > 0 && i < static_cast<std::size_t>(received); ++i) {
      const char* datagram = &input_[i * datagram_bytes];
      if (in_[i].msg_len < udp_frame_bytes) continue;
      const std::size_t start = out_bytes;
      // The reply has the request's frame: its identifier, datagram 0 of 1.
      if (output_.size() < start + udp_frame_bytes) output_.resize(2 * start + udp_frame_bytes);
      std::memcpy(&output_[start], datagram, udp_frame_bytes);
      out_bytes += udp_frame_bytes;
      replies_.answer(datagram + udp_frame_bytes, datagram + in_[i].msg_len, output_, out_bytes);
      out_vectors_[count].iov_len = out_bytes - start;
      out_[count].msg_hdr.msg_name = &peers_[i];
      out_[count].msg_hdr.msg_namelen = in_[i].msg_hdr.msg_namelen;
      ++count;
    }
    char* at = output_.data();  // only now: answer() may have moved the buffer
    for (std::size_t i = 0; i < count; ++i) {
      out_vectors_[i].iov_base = at;
      at += out_vectors_[i].iov_len;
    }
    for (std::size_t sent = 0; sent < count;) {
      const int n = sendmmsg(socket_.get(), &out_[sent], static_cast<unsigned>(count - sent), 0);
      sent += n > 0 ? static_cast<std::size_t>(n) : 1;  // a datagram that cannot be sent is dropped, which UDP permits
    }
  }

  const CannedReplies& replies_;
  net::Fd socket_, epoll_;
  const bool use_epoll_;
  std::atomic<bool> stop_{false};
  std::vector<char> input_, output_;
  std::array<sockaddr_storage, batch> peers_{};
  std::array<iovec, batch> in_vectors_{}, out_vectors_{};
  std::array<mmsghdr, batch> in_{}, out_{};
};

}  // namespace

std::unique_ptr<FloorWorker> make_udp_floor(net::Fd socket, const FloorOptions& options, const CannedReplies& replies) {
  return std::make_unique<UdpFloorWorker>(std::move(socket), options, replies);
}

}  // namespace tandem::load
