// The load generator over UDP with memcached's 8-byte frame.
#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "recorder.hpp"
#include "sockets.hpp"
#include "udp_frame.hpp"
#include "wire.hpp"

namespace tandem::bench {

// As TcpLoad, each request in a datagram of its own, a batch in one sendmmsg. Replies may come in any order and in
// several datagrams. A request that got no reply within `loss_ns` counts as timed out. Thread safety: none.
class UdpLoad {
 public:
  // `wire` must leave UdpFrame::bytes before each request.
  UdpLoad(const RunOptions& options, Wire& wire, Recorder& recorder)
      : options_(options),
        wire_(wire),
        recorder_(recorder),
        epoll_(check(epoll_create1(0), "epoll_create1")),
        sockets_(options.connections),
        input_(receive_count * max_datagram) {
    const sockaddr_in address = address_of(options.host, options.port);
    for (Socket& socket : sockets_) {
      socket.descriptor = Descriptor(check(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket"));
      check(connect(socket.descriptor.get(), generic(address), sizeof address), "connect");
      set_option(socket.descriptor.get(), SOL_SOCKET, SO_RCVBUF, 4 << 20);
      socket.slots.resize(slot_count);
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.ptr = &socket;
      check(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.descriptor.get(), &event), "epoll_ctl");
      wire_.make(socket.next);
      if (socket.next.requests.size() > slot_count / 2) throw std::invalid_argument("pipeline too deep for UDP");
    }
    for (size_t i = 0; i < receive_count; ++i) {
      vectors_[i] = {input_.data() + i * max_datagram, max_datagram};
      messages_[i].msg_hdr.msg_iov = &vectors_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
    }
  }

  void run() {
    uint64_t now = now_ns();
    recorder_.start(now);
    Schedule schedule(options_.rate_per_s, wire_.ops_per_batch(), now);
    is_open_loop_ = schedule.is_open_loop();
    spins_ = options_.spin || is_open_loop_;
    if (!is_open_loop_)
      for (Socket& socket : sockets_) send_next(socket, now_ns());
    for (;;) {
      now = now_ns();
      issuing_ = recorder_.tick(now);
      if (is_open_loop_) issuing_ = send_due(schedule, now);
      if (!issuing_ && outstanding_ == 0) break;
      if (now > next_loss_check_ns_) find_losses(now);
      epoll_event events[64];
      const int count = epoll_wait(epoll_.get(), events, 64, spins_ ? 0 : max_wait_ms);
      for (int i = 0; i < count; ++i) receive(*static_cast<Socket*>(events[i].data.ptr));
    }
    recorder_.close(now_ns());
  }

 private:
  struct Slot {
    Request request{};
    uint64_t sent_ns = 0;
    uint16_t id = 0;
    bool active = false;
    uint16_t part_count = 0;  // seen so far of a reply in several datagrams
    std::vector<std::string> parts;
  };

  struct Socket {
    Descriptor descriptor;
    Batch next;
    std::vector<Slot> slots;
    uint16_t next_id = 0;
    size_t active = 0;
  };

  static constexpr size_t receive_count = 64;
  static constexpr size_t max_datagram = 65536;
  static constexpr size_t slot_count = 4096;
  static constexpr uint64_t loss_ns = 1'000'000'000;
  static constexpr int max_wait_ms = 50;

  // Returns whether more is to be sent. What was due before the end of the run is, however late it is.
  bool send_due(Schedule& schedule, uint64_t now) {
    while (schedule.next_ns() < recorder_.close_ns()) {
      Socket& socket = sockets_[turn_];
      if (schedule.next_ns() > now || socket.active + socket.next.requests.size() > slot_count / 2) return true;
      recorder_.sent_late(schedule.next_ns(), now);
      send_next(socket, schedule.next_ns());
      schedule.advance();
      turn_ = turn_ + 1 == sockets_.size() ? 0 : turn_ + 1;
      now = now_ns();
    }
    return false;
  }

  void send_next(Socket& socket, uint64_t start_ns) {
    Batch& batch = socket.next;
    const size_t count = batch.requests.size();
    const uint64_t sent_ns = now_ns();
    send_vectors_.resize(count);
    send_messages_.resize(count);
    char* at = batch.buffer.data();
    for (size_t i = 0; i < count; ++i) {
      const uint16_t id = take_id(socket);
      Slot& slot = socket.slots[id % slot_count];
      slot.request = batch.requests[i];
      slot.request.start_ns = start_ns;
      slot.sent_ns = sent_ns;
      slot.id = id;
      slot.active = true;
      slot.part_count = 0;
      UdpFrame{id, 0, 1}.write(at);
      const size_t bytes = UdpFrame::bytes + slot.request.bytes;
      send_vectors_[i] = {at, bytes};
      send_messages_[i] = {};
      send_messages_[i].msg_hdr.msg_iov = &send_vectors_[i];
      send_messages_[i].msg_hdr.msg_iovlen = 1;
      at += bytes;
    }
    socket.active += count;
    outstanding_ += count;
    for (size_t sent = 0; sent < count;) {
      const int n = sendmmsg(socket.descriptor.get(), &send_messages_[sent], static_cast<unsigned>(count - sent), 0);
      if (n > 0) {
        sent += static_cast<size_t>(n);
      } else if (errno == EAGAIN) {
        pollfd writable{socket.descriptor.get(), POLLOUT, 0};
        check(poll(&writable, 1, 1000), "poll");
      } else if (errno != EINTR) {
        check(-1, "sendmmsg");
      }
    }
    wire_.make(batch);
  }

  // The next identifier whose slot no unanswered request holds: at most half of the slots are held.
  static uint16_t take_id(Socket& socket) {
    while (socket.slots[socket.next_id % slot_count].active) ++socket.next_id;
    return socket.next_id++;
  }

  void receive(Socket& socket) {
    const int count = recvmmsg(socket.descriptor.get(), messages_, receive_count, MSG_DONTWAIT, nullptr);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    check(count, "recvmmsg");  // ECONNREFUSED: nobody listens
    const uint64_t now = now_ns();
    for (int i = 0; i < count; ++i)
      take_datagram(socket, {input_.data() + static_cast<size_t>(i) * max_datagram, messages_[i].msg_len}, now);
    if (!is_open_loop_ && issuing_ && socket.active == 0) send_next(socket, now);
  }

  void take_datagram(Socket& socket, std::string_view datagram, uint64_t now) {
    if (datagram.size() < UdpFrame::bytes) return recorder_.wrong("datagram without frame", datagram);
    const UdpFrame frame = UdpFrame::read(datagram);
    datagram.remove_prefix(UdpFrame::bytes);
    Slot& slot = socket.slots[frame.id % slot_count];
    if (!slot.active || slot.id != frame.id) return;  // to a request that has timed out
    if (frame.count == 0 || frame.sequence >= frame.count) return recorder_.wrong("frame out of range", datagram);
    if (frame.count == 1) return finish(socket, slot, datagram, now);
    if (slot.part_count == 0) slot.parts.assign(frame.count, {});
    if (slot.parts.size() != frame.count || !slot.parts[frame.sequence].empty())
      return recorder_.wrong("frames of one reply disagree", datagram);
    slot.parts[frame.sequence] = datagram;
    if (++slot.part_count < frame.count) return;
    std::string whole;
    for (const std::string& part : slot.parts) whole += part;
    finish(socket, slot, whole, now);
  }

  void finish(Socket& socket, Slot& slot, std::string_view reply, uint64_t now) {
    const ReplyCheck checked = wire_.check(slot.request, reply);
    if (checked.status != ReplyStatus::complete || checked.bytes != reply.size()) {
      recorder_.wrong("wrong reply", reply);
    } else {
      recorder_.reply(slot.request, checked.hits, now);
    }
    release(socket, slot);
  }

  void release(Socket& socket, Slot& slot) {
    slot.active = false;
    --socket.active;
    --outstanding_;
  }

  void find_losses(uint64_t now) {
    next_loss_check_ns_ = now + loss_ns / 4;
    for (Socket& socket : sockets_) {
      if (socket.active == 0) continue;
      for (Slot& slot : socket.slots) {
        if (!slot.active || now < slot.sent_ns + loss_ns) continue;
        recorder_.timed_out(slot.request, now);
        release(socket, slot);
      }
      if (!is_open_loop_ && issuing_ && socket.active == 0) send_next(socket, now_ns());
    }
  }

  RunOptions options_;
  Wire& wire_;
  Recorder& recorder_;
  Descriptor epoll_;
  std::vector<Socket> sockets_;
  std::vector<char> input_;
  iovec vectors_[receive_count]{};
  mmsghdr messages_[receive_count]{};
  std::vector<iovec> send_vectors_;
  std::vector<mmsghdr> send_messages_;
  bool is_open_loop_ = false;
  bool spins_ = false;
  bool issuing_ = true;
  size_t turn_ = 0;
  uint64_t outstanding_ = 0;
  uint64_t next_loss_check_ns_ = 0;
};

}  // namespace tandem::bench
