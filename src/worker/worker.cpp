#include "worker/worker.hpp"

#include <algorithm>
#include <utility>

#include "base/platform.hpp"
#include "base/ticks.hpp"
#include "base/yield.hpp"

namespace tandem::net {

namespace {
// What an event's data names: nullptr is the wake-up, an odd address a UdpPort, an even one a Connection.
constexpr std::uintptr_t udp_tag = 1;

WorkOptions work_options(const State& state, const ConnectionLimits& limits) noexcept {
  constexpr std::uint64_t bytes_per_key = 24;
  return {.keys_input_bytes = bytes_per_key * device_batch_queries,
          .turn_ticks = limits.turn_ticks(),
          .controls_per_turn = state.options.requests_per_event};
}
}  // namespace

Worker::Worker(State& state, ServerControl& control, UdpPorts udp)
    : own_(state),
      connections_(state, *own_.context, own_.counters, own_.recorder),
      limits_(state, own_.counters, connections_),
      sender_(own_, connections_, limits_),
      streams_(own_, wakeup_, connections_, sender_),
      udp_(std::move(udp)),
      work_(*own_.context, state.protocol, own_.planner, own_.make_runner(), own_.meter, replies_,
            work_options(state, limits_)),
      responder_(own_, control, streams_, work_.output()),
      replies_(own_, connections_, limits_, sender_, responder_, work_.output()),
      receiver_(own_, connections_, limits_, work_) {
  connections_.watch_file(wakeup_.get(), EPOLLIN, nullptr);
  for (const auto& port : udp_) {
    connections_.watch_file(port->fd(), EPOLLIN | EPOLLET,
                            reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(port.get()) | udp_tag));
  }
}

Worker::~Worker() = default;

void Worker::run() {
  // Without timeouts there is nothing to do without an event.
  const int timeout_ms = limits_.has_timeouts() ? 1000 : -1;
  while (!own_.server.stopping.load(std::memory_order_acquire)) pass(timeout_ms);
  work_.finish();
  streams_.send_last_events(work_.output());
  connections_.close_all(CloseReason::shutdown);
  end_pass();
}

void Worker::begin_pass() noexcept {
  ++own_.pass;
  own_.counters.passes.add();
  pass_begin_ = cycles_now();
  own_.server.engine.keep_time(pass_begin_);  // times to live count from it
  limits_.begin_pass(own_.pass, pass_begin_);
  if (const std::uint32_t flags = own_.server.events.flags(); TD_UNLIKELY(flags != own_.recorder.flags())) {
    own_.recorder.set_flags(flags);
    own_.context->observer = (flags & ~EventLog::detail_flag) != 0 ? &own_.recorder : nullptr;
  }
  // Clients that watch, or the log, are told of single requests.
  work_.begin_pass(pass_begin_, own_.recorder.flags() != 0 || own_.is_verbose(2));
  receiver_.begin_pass();
}

// Receives from the UDP socket that was all there was to serve in the last pass, without asking epoll. False: not worth
// it, or nothing came.
bool Worker::pass_udp() {
  constexpr unsigned luck_max = 8, luck_lost = 4, probe_every = 32, passes_max = 16;
  if (++udp_passes_ > passes_max || cycles_now() - udp_since_ > limits_.turn_ticks())
    return false;  // connections may be ready
  if (udp_luck_ == 0 && own_.pass % probe_every != 0) return false;
  begin_pass();
  const bool lucky = receiver_.receive(*udp_alone_) != 0;
  udp_luck_ = lucky ? std::min(udp_luck_ + 1, luck_max) : udp_luck_ - std::min(udp_luck_, luck_lost);
  if (lucky) work_.end();
  end_pass();
  return lucky;
}

bool Worker::has_datagrams() const noexcept {
  return std::any_of(udp_.begin(), udp_.end(), [](const auto& p) { return p->has_more && p->batches_in_flight == 0; });
}

// How long a pass may wait for input.
int Worker::patience_ms(bool has_input, int timeout_ms) const noexcept {
  constexpr unsigned looks_max = 1000;  // some hundred microseconds; a device that takes longer is polled rarely
  if (has_input) return 0;
  if (TD_LIKELY(work_.in_flight() == 0)) return timeout_ms;
  return idle_looks_ < looks_max ? 0 : 1;
}

void Worker::pass(int timeout_ms) {
  const bool in_flight = TD_UNLIKELY(work_.in_flight() != 0);
  if (TD_UNLIKELY(udp_alone_ != nullptr) && !streams_.are_due() && !in_flight && pass_udp()) return;
  udp_alone_ = nullptr;
  udp_passes_ = 0;
  const bool has_input = this->has_input();
  epoll_event events[events_per_pass];
  const int count = connections_.wait(events, events_per_pass, patience_ms(has_input, timeout_ms));
  if (TD_UNLIKELY(limits_.has_timeouts())) limits_.check_timeouts();
  const bool answers = TD_UNLIKELY(in_flight) && work_.answers_ready();
  if (count > 0 || has_input || answers) {
    idle_looks_ = 0;
    begin_pass();
    while (TD_UNLIKELY(answers) && work_.answers_ready()) work_.answer_oldest();
    connections_.take_waiting(serving_);
    // New input first: connections that wait have had a share already.
    for (int i = 0; i < count; ++i) {
      if (i + 1 < count) prefetch_read(events[i + 1].data.ptr);
      handle(events[i]);
    }
    for (Connection* c : serving_) serve(*c);
    serving_.clear();
    for (const auto& port : udp_) {
      if (TD_UNLIKELY(port->has_more)) receiver_.receive(*port);
    }
    if (count > 1 || connections_.has_waiting()) udp_alone_ = nullptr;
    work_.end();
    if (TD_UNLIKELY(streams_.are_due())) streams_.send(work_.output());
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
    streams_.note_wakeup();
  } else if (TD_UNLIKELY((data & udp_tag) != 0)) {
    udp_alone_ = reinterpret_cast<UdpPort*>(data & ~udp_tag);
    udp_since_ = pass_begin_;
    receiver_.receive(*udp_alone_);
  } else {
    Connection& c = *static_cast<Connection*>(event.data.ptr);
    c.readable = true;
    if (TD_UNLIKELY((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)) c.ended = true;
    serve(c);
  }
}

void Worker::serve(Connection& c) {
  if (c.pass.load(std::memory_order_relaxed) == own_.pass || c.is_closed()) return;
  if (TD_UNLIKELY(c.in_flight)) return;  // it is served when its answers are sent
  c.pass.store(own_.pass, std::memory_order_relaxed);
  if (TD_UNLIKELY(c.is_blocked() || c.stream != nullptr)) {
    if (c.stream != nullptr) return streams_.serve(c);
    // OpenSSL may hold input that no event tells of.
    if (!sender_.drain(c) || (!c.resumes && c.tls == nullptr)) return;
  }
  receiver_.receive(c);
}

void Worker::end_pass() noexcept {
  work_.end_pass();
  if (TD_UNLIKELY(work_.output().capacity() > output_bytes_kept)) work_.output().release();
  limits_.end_pass();
  connections_.free_closed();
}

Worker::Buffers Worker::buffers() const noexcept {
  const std::uint64_t arenas = work_.runner().count();
  return {arenas + connections_.kept_inputs(),
          arenas * (input_arena_bytes + lane_padding_bytes) + connections_.kept_bytes(), connections_.kept_outputs()};
}

void Worker::for_each_connection(const std::function<void(const Connection&)>& f) const { connections_.for_each(f); }

}  // namespace tandem::net
