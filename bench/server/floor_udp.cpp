// The bare UDP server: one thread, recvmmsg, the ready-made replies of canned.hpp behind memcached's 8-byte frame,
// sendmmsg. Requests and replies of one datagram only.
//
//   floor_udp --port 11300 --key-size 16 --value-size 64

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "canned.hpp"
#include "sockets.hpp"
#include "udp_frame.hpp"

namespace tandem::bench {
namespace {

class FloorUdpServer {
 public:
  FloorUdpServer(uint16_t port, size_t key_bytes, size_t value_bytes, bool use_epoll)
      : replies_(key_bytes, value_bytes),
        socket_(check(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket")),
        use_epoll_(use_epoll),
        input_(batch * datagram_bytes),
        output_(batch * datagram_bytes) {
    const sockaddr_in address = address_of("127.0.0.1", port);
    set_option(socket_.get(), SOL_SOCKET, SO_RCVBUF, 4 << 20);
    check(bind(socket_.get(), generic(address), sizeof address), "bind");
    for (size_t i = 0; i < batch; ++i) {
      in_vectors_[i] = {&input_[i * datagram_bytes], datagram_bytes - CannedReplies::read_margin};
      in_[i].msg_hdr.msg_name = &peers_[i];
      in_[i].msg_hdr.msg_iov = &in_vectors_[i];
      in_[i].msg_hdr.msg_iovlen = 1;
      out_[i].msg_hdr.msg_iov = &out_vectors_[i];
      out_[i].msg_hdr.msg_iovlen = 1;
      out_[i].msg_hdr.msg_namelen = sizeof(sockaddr_in);
    }
    if (!use_epoll_) return;
    epoll_ = Descriptor(check(epoll_create1(0), "epoll_create1"));
    epoll_event event{};
    event.events = EPOLLIN;
    check(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket_.get(), &event), "epoll_ctl");
  }

  [[noreturn]] void run() {
    epoll_event event;
    for (;;) {
      if (use_epoll_) epoll_wait(epoll_.get(), &event, 1, -1);
      for (size_t i = 0; i < batch; ++i) in_[i].msg_hdr.msg_namelen = sizeof(sockaddr_in);
      serve(recvmmsg(socket_.get(), in_, batch, use_epoll_ ? MSG_DONTWAIT : MSG_WAITFORONE, nullptr));
    }
  }

 private:
  static constexpr size_t batch = 64;
  static constexpr size_t datagram_bytes = 65536;

  void serve(int received) {
    size_t out_bytes = 0;
    size_t count = 0;
    for (size_t i = 0; received > 0 && i < static_cast<size_t>(received); ++i) {
      const char* datagram = &input_[i * datagram_bytes];
      if (in_[i].msg_len < UdpFrame::bytes) continue;
      const size_t start = out_bytes;
      // The request's frame is the reply's: its identifier, datagram 0 of 1.
      if (output_.size() < start + UdpFrame::bytes) output_.resize(2 * start + UdpFrame::bytes);
      std::memcpy(&output_[start], datagram, UdpFrame::bytes);
      out_bytes += UdpFrame::bytes;
      replies_.answer(datagram + UdpFrame::bytes, datagram + in_[i].msg_len, output_, out_bytes);
      out_vectors_[count].iov_len = out_bytes - start;
      out_[count].msg_hdr.msg_name = &peers_[i];
      ++count;
    }
    char* at = output_.data();  // known only now: answer() may have moved the buffer
    for (size_t i = 0; i < count; ++i) {
      out_vectors_[i].iov_base = at;
      at += out_vectors_[i].iov_len;
    }
    for (size_t sent = 0; sent < count;) {
      const int n = sendmmsg(socket_.get(), &out_[sent], static_cast<unsigned>(count - sent), 0);
      sent += n > 0 ? static_cast<size_t>(n) : 1;  // a datagram that cannot be sent is lost, as UDP's may be
    }
  }

  CannedReplies replies_;
  Descriptor socket_;
  Descriptor epoll_;
  bool use_epoll_;
  std::vector<char> input_;
  std::vector<char> output_;
  sockaddr_in peers_[batch]{};
  iovec in_vectors_[batch]{};
  iovec out_vectors_[batch]{};
  mmsghdr in_[batch]{};
  mmsghdr out_[batch]{};
};

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  CLI::App app("Bare recvmmsg/sendmmsg server with ready-made replies: the UDP floor of the server benchmark");
  uint16_t port = 11300;
  size_t key_bytes = 16;
  size_t value_bytes = 64;
  bool use_epoll = false;
  app.add_option("-p,--port", port, "UDP port on 127.0.0.1")->capture_default_str();
  app.add_option("--key-size", key_bytes, "bytes of a reply's key")->capture_default_str();
  app.add_option("--value-size", value_bytes, "bytes of a reply's value")->capture_default_str();
  app.add_flag("--epoll", use_epoll, "wait in epoll_wait, as a server with more than one socket must, not in recvmmsg");
  CLI11_PARSE(app, argc, argv);
  try {
    tandem::bench::FloorUdpServer(port, key_bytes, value_bytes, use_epoll).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "floor_udp: %s\n", error.what());
    return 1;
  }
}
