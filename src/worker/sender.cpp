#include "worker/sender.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "net/system_calls.hpp"

namespace tandem::net {
namespace {

bool would_block() noexcept { return errno == EAGAIN || errno == EINTR; }

// The connection's replies go through OpenSSL.
bool is_encrypted(const Connection& c) noexcept { return TD_UNLIKELY(c.tls != nullptr) && !c.tls->kernel_sends(); }

std::ptrdiff_t try_send(Connection& c, iovec* parts, std::size_t count) {
  if (is_encrypted(c)) return c.tls->send(parts, count);
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  return sendmsg(c.fd, &message, MSG_NOSIGNAL);
}

}  // namespace

// Returns how many bytes the socket took. The connection may be closed afterwards.
std::size_t Sender::send_now(Connection& c, const char* from, std::size_t bytes) {
  return note_sent(c, is_encrypted(c) ? c.tls->send(from, bytes) : send_bytes(c.fd, from, bytes));
}

std::size_t Sender::note_sent(Connection& c, std::ptrdiff_t sent) {
  if (TD_UNLIKELY(sent < 0)) {
    if (!would_block()) connections_.close(c);
    return 0;
  }
  worker_.counters.bytes_written.add(static_cast<std::uint64_t>(sent));
  return static_cast<std::size_t>(sent);
}

void Sender::send(Connection& c, std::string_view replies) {
  if (TD_LIKELY(!c.is_blocked() && !c.is_closed())) replies.remove_prefix(send_now(c, replies.data(), replies.size()));
  if (TD_LIKELY(replies.empty()) || c.is_closed()) return;
  copy_.append(replies);
  send_copy(c);
}

// As many stretches of the range as one system call takes.
std::size_t Sender::send_stretches(Connection& c, const OutputRange& range) {
  iovec parts[send_segments_max];
  std::size_t count = 0;
  range.for_each([&](const char* p, std::size_t bytes, Location) {
    if (count < send_segments_max) parts[count++] = {const_cast<char*>(p), bytes};
  });
  return note_sent(c, try_send(c, parts, count));
}

void Sender::send_lent(Connection& c, const OutputRange& range) {
  std::size_t sent = send_stretches(c, range);
  if (c.is_closed()) return drop_pins(range);
  range.for_each([&](const char* p, std::size_t bytes, Location) {
    const std::size_t gone = std::min(sent, bytes);
    sent -= gone;
    copy_.append(p + gone, bytes - gone);
  });
  drop_pins(range);
  send_copy(c);
}

void Sender::send_copy(Connection& c) {
  send(c, {&copy_, 0, copy_.size(), 0, 0});
  copy_.clear();
  if (TD_UNLIKELY(copy_.capacity() > output_bytes_kept)) copy_.release();
}

void Sender::send(Connection& c, const OutputRange& range) {
  if (range.empty()) return;
  if (TD_UNLIKELY(c.is_closed())) return drop_pins(range);
  if (TD_UNLIKELY(c.is_blocked())) {
    hold(c, range);
    return;
  }
  if (TD_UNLIKELY(range.is_lent())) return send_lent(c, range);
  if (TD_UNLIKELY(range.has_externals())) return wait_for_socket(c, range);
  const std::size_t sent = send_now(c, range.output->data() + range.begin, range.copied_bytes());
  if (TD_LIKELY(sent == range.copied_bytes()) || c.is_closed()) return;
  OutputRange rest = range;
  rest.begin += sent;
  wait_for_socket(c, rest);
}

// Has the connection keep it, and sends what it has of values.
TD_NOINLINE void Sender::wait_for_socket(Connection& c, const OutputRange& rest) {
  if (hold(c, rest) && (!rest.has_externals() || !drain(c)) && !c.is_closed()) {
    worker_.counters.blocked.add();
    c.state.store(ConnectionState::blocked, std::memory_order_relaxed);
    connections_.watch(c, Connections::watch_output);
  }
}

// Moves output into the connection's own buffer. False: there is no memory, or a limit is reached, and the connection
// is closed.
bool Sender::hold(Connection& c, const OutputRange& range) {
  const auto refuse = [&, this] {
    drop_pins(range);
    connections_.close(c);
    return false;
  };
  Heap& heap = worker_.heap();
  // Output may be held for long. Where half of all pages are pinned already, values that share their page are copied.
  const bool copies = TD_UNLIKELY(heap.pins_many_pages());
  const auto is_copied = [&heap, copies](Location pin) {
    return pin == no_location || (copies && heap.class_of(pin) != huge_class);
  };
  std::uint64_t copied = 0, pinned = 0;
  range.for_each([&](const char*, std::size_t bytes, Location pin) { (is_copied(pin) ? copied : pinned) += bytes; });
  if (!limits_.charge(c, worker_.server.unsent, copied)) return refuse();
  if (!limits_.charge(c, worker_.server.pinned, pinned)) {
    worker_.server.unsent.give_back(copied);
    return refuse();
  }
  try {
    auto fresh = c.is_blocked() ? nullptr : std::make_unique<Unsent>();
    (fresh != nullptr ? *fresh : *c.unsent).reserve(static_cast<std::size_t>(copied), range.stretches_max());
    if (fresh != nullptr) connections_.block(c, std::move(fresh));
  } catch (const std::bad_alloc&) {
    worker_.server.unsent.give_back(copied);
    worker_.server.pinned.give_back(pinned);
    worker_.counters.closed_for_room.add();
    worker_.counters.response_obj_oom.add();
    return refuse();
  }
  range.for_each([&, &unsent = *c.unsent](const char* p, std::size_t bytes, Location pin) {
    if (!is_copied(pin)) return unsent.append_pinned(p, bytes, pin);
    unsent.append(p, bytes);
    if (pin != no_location) heap.unpin(pin);
  });
  return true;
}

bool Sender::drain(Connection& c) {
  for (;;) {
    iovec parts[send_segments_max];
    const std::size_t count = c.unsent->next(parts, send_segments_max);
    if (count == 0) break;
    const std::ptrdiff_t sent = try_send(c, parts, count);
    if (sent < 0) {
      if (errno == EINTR) continue;  // edge-triggered: no event follows
      if (errno == EFAULT) touch_pages(parts, count);
      if (!would_block()) connections_.close(c);
      return false;
    }
    worker_.counters.bytes_written.add(static_cast<std::uint64_t>(sent));
    c.unsent->sent(static_cast<std::size_t>(sent), worker_.heap());
    connections_.touch(c);
  }
  connections_.unblock(c);
  if (TD_UNLIKELY(c.tls != nullptr)) c.readable = true;  // OpenSSL may have input that waited for output
  if (c.state.load(std::memory_order_relaxed) == ConnectionState::blocked) {
    c.state.store(c.stream != nullptr ? ConnectionState::streaming : ConnectionState::reading,
                  std::memory_order_relaxed);
    connections_.watch(c, Connections::watch_input);
  }
  if (c.closes && c.stream == nullptr) connections_.close(c, c.close_reason);
  return !c.is_closed();
}

void Sender::unpin(const OutputRange& range) const noexcept {
  for (std::size_t i = range.externals_begin; i < range.externals_end; ++i) {
    if (const Location pin = range.output->externals()[i].pin; pin != no_location) worker_.heap().unpin(pin);
  }
}

}  // namespace tandem::net
