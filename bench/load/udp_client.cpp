// The load generator over UDP with memcached's 8-byte frame.
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "bench/load/client.hpp"
#include "bench/load/udp_reply.hpp"
#include "codec/udp.hpp"

namespace tandem::load {
namespace {

constexpr std::size_t receive_count = 64;
constexpr std::size_t datagram_bytes_max = 65536;
constexpr std::size_t datagram_request_bytes_max = 65507 - udp_frame_bytes;  // of IPv4's largest datagram
constexpr std::size_t slot_count = 4096;
constexpr std::size_t active_max = slot_count / 2;

struct Slot {
  Request request{};
  std::vector<std::uint64_t> keys;
  std::uint64_t sent_ns = 0;
  std::uint16_t id = 0;
  bool is_active = false;
  UdpReply reply;
};

struct Socket {
  net::Fd fd;
  Batch next;
  std::vector<Slot> slots;
  std::uint16_t next_id = 0;
  std::size_t active = 0;
  std::vector<FollowUp> follow_ups;
};

// As over TCP, with each request in its own datagram and a batch in one sendmmsg. Replies may come in any order and in
// several datagrams. A request without a reply within the timeout is counted, and the run continues. Thread safety:
// none.
class UdpClient final : public Client {
 public:
  UdpClient(const Plan& plan, const Address& address, std::uint32_t thread, Recorder& recorder, RunState& state)
      : plan_(plan),
        recorder_(recorder),
        state_(state),
        thread_(thread),
        timeout_ns_(static_cast<std::uint64_t>(plan.options.timeout_s * 1e9)),
        epoll_(check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        input_(receive_count * datagram_bytes_max),
        vectors_(receive_count),
        messages_(receive_count) {
    for (const std::uint32_t number : connections_of(plan.options, thread)) {
      Socket& socket = sockets_.emplace_back();
      socket.fd = connect_datagrams(address);
      socket.slots.resize(slot_count);
      makers_.emplace_back(plan, number);
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = sockets_.size() - 1;
      check(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.fd.get(), &event), "epoll_ctl");
    }
    for (std::size_t i = 0; i < receive_count; ++i) {
      vectors_[i] = {input_.data() + i * datagram_bytes_max, datagram_bytes_max};
      messages_[i].msg_hdr.msg_iov = &vectors_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
    }
  }

  void run(std::uint64_t start_ns) override {
    makes_ahead_ = plan_.phases.size() == 1 || plan_.options.alternation.every_ops != 0;
    Arrival arrival(plan_, thread_, start_ns, makers_);
    is_open_loop_ = arrival.is_open_loop();
    for (std::size_t i = 0; makes_ahead_ && i < sockets_.size(); ++i) makers_[i].make(sockets_[i].next, start_ns);
    std::uint64_t now = monotonic_ns();
    for (; now < start_ns; now = monotonic_ns()) {
      const timespec rest{0, static_cast<long>(std::min<std::uint64_t>(start_ns - now, wait_max_ns))};
      nanosleep(&rest, nullptr);
    }
    issuing_ = recorder_.tick(now);
    for (std::size_t i = 0; !is_open_loop_ && issuing_ && i < sockets_.size(); ++i) send_next(i, now);
    for (;;) {
      now = monotonic_ns();
      issuing_ = recorder_.tick(now);
      if (is_open_loop_) issuing_ = send_due(arrival, now);
      if (failed_ || state_.stop.load(std::memory_order_relaxed) || (!issuing_ && outstanding_ == 0)) break;
      if (now >= next_look_ns_) look_for_losses(now);
      if (!is_open_loop_ && outstanding_ == 0) break;
      epoll_event events[64];
      const int count = wait_for_events(epoll_.get(), events, 64, arrival.next_ns(), plan_.options.spin);
      for (int i = 0; i < count && !failed_; ++i) receive(static_cast<std::size_t>(events[i].data.u64));
    }
    recorder_.close(monotonic_ns());
    if (failed_) state_.stop.store(true, std::memory_order_relaxed);
  }

 private:
  bool send_due(Arrival& arrival, std::uint64_t now) {
    const std::uint64_t close_ns = recorder_.close_ns();
    if (close_ns != UINT64_MAX && now > close_ns + timeout_ns_ && arrival.next_ns() < close_ns) {
      recorder_.never_sent(arrival.ops_until(close_ns), arrival.next_ns(), now);
      return false;
    }
    while (arrival.next_ns() < close_ns && !failed_) {
      const std::size_t index = arrival.connection();
      Socket& socket = sockets_[index];
      const std::uint64_t due = arrival.next_ns();
      if (due > now || socket.active + plan_.options.pipeline > active_max) return true;
      if (!makes_ahead_) makers_[index].make(socket.next, now);
      const std::uint64_t ops = socket.next.ops;
      if (ops == 0) {
        arrival.sent(0, false, UINT64_MAX);
        continue;
      }
      recorder_.sent_late(due, now);
      send(socket, socket.next, due);
      const std::uint64_t next_due_ns = arrival.replays() ? makers_[index].next_due_ns() : 0;
      if (makes_ahead_) makers_[index].make(socket.next, now);
      arrival.sent(ops, !makes_ahead_ || socket.next.ops != 0, next_due_ns);
      now = monotonic_ns();
    }
    return false;
  }

  void send_next(std::size_t index, std::uint64_t now) {
    Socket& socket = sockets_[index];
    if (!makes_ahead_) makers_[index].make(socket.next, now);
    if (socket.next.requests.empty()) return;
    send(socket, socket.next, now);
    if (makes_ahead_) makers_[index].make(socket.next, now);
  }

  // Sends a batch with the start time `start_ns`; 0: with the requests' own.
  void send(Socket& socket, Batch& batch, std::uint64_t start_ns) {
    const std::size_t count = batch.requests.size();
    const std::uint64_t sent_ns = monotonic_ns();
    send_vectors_.resize(count);
    send_messages_.resize(count);
    char* at = batch.buffer.data();
    const std::uint64_t* keys = batch.keys.data();
    for (std::size_t i = 0; i < count; ++i) {
      const Request& request = batch.requests[i];
      if (request.bytes > datagram_request_bytes_max) throw std::invalid_argument("a request does not fit a datagram");
      const std::uint16_t id = take_id(socket);
      Slot& slot = socket.slots[id % slot_count];
      slot.request = request;
      if (start_ns != 0) slot.request.start_ns = start_ns;
      if (request.key_count > 1) {
        slot.keys.assign(keys, keys + request.key_count);
        keys += request.key_count;
      } else {
        slot.keys.assign(1, request.key);
      }
      slot.sent_ns = sent_ns;
      slot.id = id;
      slot.is_active = true;
      slot.reply.clear();
      write_udp_frame({id, 0, 1}, at);
      const std::size_t bytes = udp_frame_bytes + request.bytes;
      send_vectors_[i] = {at, bytes};
      send_messages_[i] = {};
      send_messages_[i].msg_hdr.msg_iov = &send_vectors_[i];
      send_messages_[i].msg_hdr.msg_iovlen = 1;
      at += bytes;
    }
    socket.active += count;
    outstanding_ += count;
    recorder_.sent(batch.size);
    for (std::size_t sent = 0; sent < count && !failed_;) {
      const int n = sendmmsg(socket.fd.get(), &send_messages_[sent], static_cast<unsigned>(count - sent), 0);
      if (n > 0) {
        sent += static_cast<std::size_t>(n);
      } else if (errno == EAGAIN) {
        pollfd writable{socket.fd.get(), POLLOUT, 0};
        check(poll(&writable, 1, 1000), "poll");
      } else if (errno != EINTR) {
        fail("send", errno);
      }
    }
  }

  // The next identifier with a free slot: at most half of the slots are in use.
  static std::uint16_t take_id(Socket& socket) noexcept {
    while (socket.slots[socket.next_id % slot_count].is_active) ++socket.next_id;
    return socket.next_id++;
  }

  void receive(std::size_t index) {
    Socket& socket = sockets_[index];
    const int count = recvmmsg(socket.fd.get(), messages_.data(), receive_count, MSG_DONTWAIT, nullptr);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count < 0) return fail("receive", errno);  // ECONNREFUSED: no listener
    const std::uint64_t now = monotonic_ns();
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const std::string_view datagram(input_.data() + i * datagram_bytes_max, messages_[i].msg_len);
      recorder_.received(datagram.size());
      take_datagram(socket, datagram, now);
    }
    go_on(index, now);
  }

  void go_on(std::size_t index, std::uint64_t now) {
    Socket& socket = sockets_[index];
    if (!socket.follow_ups.empty() && (is_open_loop_ || socket.active == 0) && socket.active < active_max) {
      makers_[index].make_follow_ups(follow_up_batch_, socket.follow_ups);
      socket.follow_ups.clear();
      send(socket, follow_up_batch_, 0);
    }
    if (is_open_loop_ || socket.active != 0) return;
    issuing_ = recorder_.tick(now);
    if (issuing_) send_next(index, now);
  }

  void take_datagram(Socket& socket, std::string_view datagram, std::uint64_t now) {
    if (datagram.size() < udp_frame_bytes) return recorder_.wrong_reply(nullptr, "a datagram without frame", datagram);
    const UdpReplyFrame frame = UdpReplyFrame::read(datagram);
    Slot& slot = socket.slots[frame.id % slot_count];
    if (!slot.is_active || slot.id != frame.id) return;  // to a request that has timed out
    const std::string_view payload = datagram.substr(udp_frame_bytes);
    std::string_view reply = payload;
    if (frame.total != 1 || frame.sequence != 0 || slot.request.kind == RequestKind::multiget) {
      const UdpReply::Status status = slot.reply.add(frame, payload);
      if (status == UdpReply::Status::more) return;
      if (status == UdpReply::Status::wrong) {
        recorder_.wrong_reply(&slot.request, "frames that do not fit each other", datagram);
        return release(socket, slot);
      }
      reply = slot.reply.bytes();
    }
    const ReplyCheck checked = plan_.codec_of(slot.request).check(slot.request, slot.keys.data(), reply);
    // A get of several keys may have more messages.
    if (checked.status == ReplyStatus::partial && slot.request.kind == RequestKind::multiget) return;
    if (checked.status == ReplyStatus::partial) {
      recorder_.wrong_reply(&slot.request, "a reply that ends too early", reply);
    } else if (checked.status == ReplyStatus::wrong) {
      recorder_.wrong_reply(&slot.request, checked.what, reply);
    } else if (checked.bytes != reply.size()) {
      recorder_.wrong_reply(&slot.request, "more than a reply in a datagram", reply);
    } else {
      recorder_.reply(slot.request, checked, reply, now);
      if (slot.request.op == workload::OpKind::read_modify_write && slot.request.kind == RequestKind::get)
        socket.follow_ups.push_back({slot.request.key, slot.request.start_ns, slot.request.value_bytes,
                                     slot.request.ttl_s, slot.request.phase});
    }
    release(socket, slot);
  }

  void release(Socket& socket, Slot& slot) noexcept {
    slot.is_active = false;
    --socket.active;
    --outstanding_;
  }

  void look_for_losses(std::uint64_t now) {
    next_look_ns_ = now + timeout_ns_ / 8;
    for (std::size_t index = 0; index < sockets_.size(); ++index) {
      Socket& socket = sockets_[index];
      if (socket.active == 0) continue;
      for (Slot& slot : socket.slots) {
        if (!slot.is_active || now < slot.sent_ns + timeout_ns_) continue;
        recorder_.timed_out(slot.request, now, fmt::format("no whole reply within {} s", plan_.options.timeout_s));
        release(socket, slot);
      }
      go_on(index, now);
    }
  }

  void fail(std::string_view call, int error) {
    recorder_.connection_failed(fmt::format("{}: {}", call, std::generic_category().message(error)));
    failed_ = true;
  }

  const Plan& plan_;
  Recorder& recorder_;
  RunState& state_;
  const std::uint32_t thread_;
  const std::uint64_t timeout_ns_;
  net::Fd epoll_;
  std::vector<Socket> sockets_;
  std::vector<RequestMaker> makers_;
  std::vector<char> input_;
  std::vector<iovec> vectors_;
  std::vector<mmsghdr> messages_;
  std::vector<iovec> send_vectors_;
  std::vector<mmsghdr> send_messages_;
  Batch follow_up_batch_;
  bool is_open_loop_ = false, makes_ahead_ = true, issuing_ = true, failed_ = false;
  std::uint64_t outstanding_ = 0, next_look_ns_ = 0;
};

}  // namespace

std::unique_ptr<Client> make_udp_client(const Plan& plan, const Address& address, std::uint32_t thread,
                                        Recorder& recorder, RunState& state) {
  return std::make_unique<UdpClient>(plan, address, thread, recorder, state);
}

}  // namespace tandem::load
