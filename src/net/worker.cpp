#include "net/worker.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/memory_reserve.hpp"
#include "base/platform.hpp"
#include "base/ticks.hpp"
#include "base/yield.hpp"
#include "net/log.hpp"

namespace tandem::net {

static_assert(sizeof(Connection) <= 512, "a quiet connection's memory, as docs/memory.md states it");

namespace {
// What an event's data names: nullptr is the wake-up, an odd address a UdpPort, an even one a Connection.
constexpr std::uintptr_t udp_tag = 1;

void add_to_epoll(int epoll, int fd, std::uint32_t events, void* data) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = data;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
}
}  // namespace

Worker::Worker(State& state, ServerControl& control, std::vector<Fd> udp)
    : state_(state),
      control_(control),
      planner_(presets()[state.options.preset].preset, state.engine.schedulers(), state.engine.shared().placement),
      context_(state.engine.make_context()),
      runner_(make_runner()),
      in_flight_(runner_->count()),
      lane_(*context_, state.protocol),
      reply_context_{state.engine.shared().heap, state.engine.shared().clock, state.protocol, output_},
      slow_ticks_(static_cast<std::uint64_t>(slow_ns / ns_per_tick())),
      turn_ticks_(static_cast<std::uint64_t>(turn_ns / ns_per_tick())),
      long_pass_ticks_(static_cast<std::uint64_t>(long_pass_ns / ns_per_tick())),
      hot_keys_(state.options.hot_keys ? std::make_unique<HotKeyCounter>(state.engine.shared().hash_seed) : nullptr),
      has_timeouts_(state.options.idle_timeout_s != 0 || state.options.tls.enabled),
      recorder_(state.events, state.prefixes, state.engine.shared()),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  add_to_epoll(epoll_.get(), wakeup_.get(), EPOLLIN, nullptr);
  udp_.reserve(udp.size());
  for (Fd& fd : udp) udp_.emplace_back(std::move(fd));
  for (UdpPort& port : udp_) {
    add_to_epoll(epoll_.get(), port.fd(), EPOLLIN | EPOLLET,
                 reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(&port) | udp_tag));
  }
  begin_intake();
}

// Without the device's memory the host does everything.
std::unique_ptr<Runner> Worker::make_runner() {
  if (planner_.uses_device()) {
    try {
      return std::make_unique<Runner>(*context_, state_.engine.schedulers(), device_batch_queries,
                                      input_arena_bytes + lane_padding_bytes);
    } catch (const DeviceError& error) {
      log().warn("a worker goes without the GPU: {}", error.what());
      planner_.leave_devices();
    }
  }
  return std::make_unique<Runner>(*context_, nullptr, batch_queries, input_arena_bytes + lane_padding_bytes);
}

Worker::~Worker() {
  runner_.reset();
  for (Connection* c = connections_; c != nullptr; c = c->next) close_later(*c);
  free_closed();
}

void Worker::adopt(Fd socket, bool tls, const PeerAddress& client) {
  auto owned = std::make_unique<Connection>(socket.get(), client, state_.protocol, state_.engine.shared().clock);
  Connection* c = owned.get();
  if (tls) {
    c->tls = std::make_unique<TlsSession>(c->fd, state_.engine.shared().clock.now_s());
    unfinished_handshakes_.fetch_add(1, std::memory_order_relaxed);
  }
  note_opened(state_.events, c->fd, client);
  {
    const std::lock_guard lock(connections_mutex_);
    c->next = connections_;
    if (connections_ != nullptr) connections_->previous = c;
    connections_ = c;
    connection_count_.fetch_add(1, std::memory_order_relaxed);
    // Inside the lock: until it is released the worker cannot close, and so free, the connection.
    epoll_event event{};
    event.events = watch_input;
    event.data.ptr = c;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, c->fd, &event) != 0) {
      const int error = errno;
      connections_ = c->next;
      if (connections_ != nullptr) connections_->previous = nullptr;
      connection_count_.fetch_sub(1, std::memory_order_relaxed);
      if (tls) unfinished_handshakes_.fetch_sub(1, std::memory_order_relaxed);
      throw std::system_error(error, std::generic_category(), "epoll_ctl");
    }
    static_cast<void>(socket.release());
    static_cast<void>(owned.release());
  }
}

void Worker::run() {
  // Without timeouts nothing happens by itself: sleep until there is something to do.
  const int timeout_ms = has_timeouts_ ? 1000 : -1;
  while (!state_.stopping.load(std::memory_order_acquire)) pass(timeout_ms);
  while (runner_->in_flight() != 0) answer_oldest();
  tell_watchers_the_last();
  {
    const std::lock_guard lock(connections_mutex_);
    for (Connection* c = connections_; c != nullptr; c = c->next) close_later(*c, CloseReason::shutdown);
  }
  end_pass();
}

void Worker::begin_pass() noexcept {
  ++pass_;
  in_pass_ = true;
  handshake_steps_left_ = tls_handshake_steps_per_pass;
  counters_.passes.add();
  pass_begin_ = in_.begin = in_.since = cycles_now();
  datagrams_begin_ns_ = 0;
  sampled_ = in_.sampled = sampler_.next();
  if (TD_UNLIKELY(sampled_)) begin_sample();
  if (const std::uint32_t flags = state_.events.flags(); TD_UNLIKELY(flags != recorder_.flags())) {
    recorder_.set_flags(flags);
    context_->observer = (flags & ~EventLog::detail_flag) != 0 ? &recorder_ : nullptr;
  }
  pass_has_lane_ = has_lane();
}

// Receives from the UDP socket that was all there was to serve in the last pass, without asking epoll. False: not worth
// it, or nothing came.
bool Worker::pass_udp() {
  constexpr unsigned luck_max = 8, luck_lost = 4, probe_every = 32, passes_max = 16;
  if (++udp_passes_ > passes_max || cycles_now() - udp_since_ > turn_ticks_) return false;  // others may have come
  if (udp_luck_ == 0 && pass_ % probe_every != 0) return false;
  begin_pass();
  const bool lucky = serve_udp(*udp_alone_) != 0;
  udp_luck_ = lucky ? std::min(udp_luck_ + 1, luck_max) : udp_luck_ - std::min(udp_luck_, luck_lost);
  if (lucky) run_batch(false);
  end_pass();
  return lucky;
}

// How long a pass may wait for input.
int Worker::patience_ms(int timeout_ms) const noexcept {
  constexpr unsigned looks_max = 1000;  // some hundred microseconds; a device that takes longer is looked at rarely
  if (!waiting_.empty() || udp_waits_ || streams_due_) return 0;
  if (TD_LIKELY(runner_->in_flight() == 0)) return timeout_ms;
  return idle_looks_ < looks_max ? 0 : 1;
}

void Worker::pass(int timeout_ms) {
  const bool in_flight = TD_UNLIKELY(runner_->in_flight() != 0);
  if (TD_UNLIKELY(udp_alone_ != nullptr) && !streams_due_ && !in_flight && pass_udp()) return;
  udp_alone_ = nullptr;
  udp_passes_ = 0;
  epoll_event events[events_per_pass];
  const int count = epoll_wait(epoll_.get(), events, events_per_pass, patience_ms(timeout_ms));
  if (TD_UNLIKELY(has_timeouts_)) {
    const std::uint32_t now_s = state_.engine.shared().clock.now_s();
    if (now_s != timeouts_checked_s_) check_timeouts(now_s);
  }
  const bool answers = TD_UNLIKELY(in_flight) && has_answers();
  if (count > 0 || !waiting_.empty() || udp_waits_ || streams_due_ || answers) {
    idle_looks_ = 0;
    begin_pass();
    while (TD_UNLIKELY(answers) && has_answers()) answer_oldest();
    serving_.swap(waiting_);
    for (Connection* c : serving_) c->waiting = false;
    const bool udp_waits = std::exchange(udp_waits_, false);
    // New input first: who has had a share already comes last.
    for (int i = 0; i < count; ++i) {
      if (i + 1 < count) prefetch_read(events[i + 1].data.ptr);
      handle(events[i]);
    }
    for (Connection* c : serving_) serve(*c);
    serving_.clear();
    if (TD_UNLIKELY(udp_waits)) {
      for (UdpPort& port : udp_) serve_udp(port);
    }
    if (count > 1 || !waiting_.empty()) udp_alone_ = nullptr;
    run_lane();
    run_batch(false);
    if (TD_UNLIKELY(streams_due_)) send_streams();
  } else if (TD_UNLIKELY(in_flight)) {
    ++idle_looks_;
    yield_processor();
  }
  end_pass();
}

void Worker::handle(const epoll_event& event) {
  const auto data = reinterpret_cast<std::uintptr_t>(event.data.ptr);
  if (TD_UNLIKELY(data == 0)) {
    wakeup_.reset();
    streams_due_ = !streams_.empty();
  } else if (TD_UNLIKELY((data & udp_tag) != 0)) {
    udp_alone_ = reinterpret_cast<UdpPort*>(data & ~udp_tag);
    udp_since_ = pass_begin_;
    serve_udp(*udp_alone_);
  } else {
    Connection& c = *static_cast<Connection*>(event.data.ptr);
    c.readable = true;
    if (TD_UNLIKELY((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)) c.ended = true;
    serve(c);
  }
}

void Worker::end_pass() noexcept {
  in_.batch->input().reuse();
  if (std::exchange(in_pass_, false) && TD_UNLIKELY(cycles_now() - pass_begin_ > long_pass_ticks_))
    none_still_before_s_ = state_.engine.shared().clock.now_s() + stands_still_s + 1;
  if (TD_UNLIKELY(output_.capacity() > output_bytes_kept)) output_.release();
  ahead_.clear();
  if (TD_UNLIKELY(ahead_.capacity() > output_bytes_kept)) ahead_.release();
  if (TD_UNLIKELY(sampled_)) end_sample();
  pass_parsed_ = pass_answered_ = 0;
  if (TD_UNLIKELY(memory_reserve_missing() != 0)) save_memory();
  if (TD_UNLIKELY(!closed_.empty())) free_closed();
}

void Worker::free_closed() noexcept {
  for (Connection* c : closed_) {
    if (c->waiting) std::erase(waiting_, c);
    const bool stopping = state_.stopping.load(std::memory_order_relaxed);  // memcached is silent then
    if (TD_UNLIKELY((state_.events.flags() & watch_event::connevents) != 0) && !stopping)
      recorder_.closed(c->fd, c->peer, c->close_reason);
    {
      const std::lock_guard lock(connections_mutex_);
      (c->previous != nullptr ? c->previous->next : connections_) = c->next;
      if (c->next != nullptr) c->next->previous = c->previous;
    }
    if (state_.verbosity.load(std::memory_order_relaxed) >= 2) log().debug("<{} connection closed.", c->fd);
    ::close(c->fd);
    state_.kept.give_back(state_.kept_cost(c->kept_counted));
    count_kept(*c, 0);
    delete c;
    connection_count_.fetch_sub(1, std::memory_order_relaxed);
    state_.connection_closed();
  }
  closed_.clear();
}

// The pass used up memory that is kept for its end. If much of it cannot be had again, the connection with the largest
// buffers is closed, unless they are so small that it would not help.
void Worker::save_memory() noexcept {
  constexpr std::size_t helps_bytes = 16 << 10;
  if (refill_memory_reserve() || !memory_is_short()) return;
  const auto buffers = [](const Connection& c) {
    return c.kept.capacity() + (c.is_blocked() ? c.unsent->copied_bytes() : 0);
  };
  Connection* most = nullptr;
  const std::lock_guard lock(connections_mutex_);
  for (Connection* c = connections_; c != nullptr; c = c->next) {
    if (c->is_closed() || c->in_flight || buffers(*c) < helps_bytes) continue;
    if (most == nullptr || buffers(*c) > buffers(*most)) most = c;
  }
  if (most == nullptr) return;
  counters_.closed_for_room.add();
  close_later(*most);
}

// It has neither sent nor read for a while, and nothing of it is in this pass or in flight: an entry would name it.
// What it did while this worker was busy with others is not known yet.
bool Worker::stands_still(const Connection& c) const noexcept {
  const std::uint32_t now_s = state_.engine.shared().clock.now_s();
  if (now_s < none_still_before_s_ || cycles_now() - pass_begin_ > long_pass_ticks_) return false;
  const std::uint32_t active_s = c.last_active_s.load(std::memory_order_relaxed);
  return !c.is_closed() && !c.in_flight && c.pass.load(std::memory_order_relaxed) != pass_ && active_s < now_s &&
         now_s - active_s > stands_still_s;
}

// Of those whose large value has not come whole; nullptr: none stands still, or all that do together do not make room
// for `bytes`. While that is so they are not all looked at again in the same second.
Connection* Worker::longest_still_filling(std::uint64_t bytes) noexcept {
  const std::uint32_t now_s = state_.engine.shared().clock.now_s();
  const auto helps = [&, this] {
    return stood_still_bytes_ != 0 &&
           state_.filling.used_bytes() + bytes <= state_.filling.limit_bytes() + stood_still_bytes_;
  };
  if (stood_still_s_ == now_s && !helps()) return nullptr;
  stood_still_s_ = now_s;
  stood_still_bytes_ = 0;
  Connection* longest = nullptr;
  const std::lock_guard lock(connections_mutex_);
  for (Connection* c = connections_; c != nullptr; c = c->next) {
    if (c->fill == nullptr || !stands_still(*c)) continue;
    stood_still_bytes_ += c->fill->value_bytes;
    if (longest == nullptr ||
        c->last_active_s.load(std::memory_order_relaxed) < longest->last_active_s.load(std::memory_order_relaxed))
      longest = c;
  }
  return helps() ? longest : nullptr;
}

// The descriptor stays open until the pass ends, so that no new connection gets its number while an entry names it.
void Worker::close_later(Connection& c, CloseReason reason) noexcept {
  if (c.is_closed()) return;
  TD_ASSERT(!c.in_flight || state_.stopping.load(std::memory_order_relaxed));
  c.close_reason = reason;
  if (c.stream != nullptr) drop_stream(c);
  c.state.store(ConnectionState::closed, std::memory_order_relaxed);
  if (c.is_blocked()) drop_unsent(c);
  if (c.fill != nullptr) {
    state_.engine.abandon_fill(*context_, c.fill->location);
    state_.filling.give_back(c.fill->value_bytes);
    c.fill.reset();
  }
  if (TD_UNLIKELY(c.tls != nullptr)) close_tls(c);
  closed_.push_back(&c);
}

void Worker::check_timeouts(std::uint32_t now_s) {
  timeouts_checked_s_ = now_s;
  if (state_.options.idle_timeout_s != 0) close_idle(now_s);
  close_unfinished_handshakes(now_s);
}

void Worker::close_idle(std::uint32_t now_s) {
  const std::lock_guard lock(connections_mutex_);
  for (Connection* c = connections_; c != nullptr; c = c->next) {
    const std::uint32_t active_s = c->last_active_s.load(std::memory_order_relaxed);
    // It may have come, or the clock have gone, since now_s was read.
    if (active_s >= now_s || now_s - active_s <= state_.options.idle_timeout_s || c->is_closed()) continue;
    if (c->stream != nullptr && !c->is_blocked()) continue;  // it listens, as it should
    if (c->in_flight) continue;                              // it waits for its answers
    counters_.idle_kicks.add();
    close_later(*c, CloseReason::idle_timeout);
  }
}

void Worker::watch(Connection& c, std::uint32_t events) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &c;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, c.fd, &event) != 0) close_later(c);
}

Worker::Buffers Worker::buffers() const noexcept {
  const std::uint64_t arenas = runner_->count();
  return {arenas + kept_inputs_.get(), arenas * (input_arena_bytes + lane_padding_bytes) + kept_bytes_.get(),
          kept_outputs_.get()};
}

void Worker::for_each_connection(const std::function<void(const Connection&)>& f) const {
  const std::lock_guard lock(connections_mutex_);
  for (const Connection* c = connections_; c != nullptr; c = c->next) f(*c);
}

}  // namespace tandem::net
