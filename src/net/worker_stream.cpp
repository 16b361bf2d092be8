// Streams: answers that the worker sends a piece of in each pass.
#include <algorithm>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "codec/reply.hpp"
#include "net/dump_stream.hpp"
#include "net/log.hpp"
#include "net/worker.hpp"

namespace tandem::net {
namespace {

constexpr int last_calls_max = 256;

// Lines of events, as the log's thread brings them.
class Watch final : public Stream {
 public:
  Watch(EventLog& log, std::shared_ptr<EventLog::Watcher> watcher) noexcept : log_(log), watcher_(std::move(watcher)) {}
  ~Watch() override { log_.remove(*watcher_); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  Step produce(Context&, Output& out) override {
    if (at_ == text_.size()) {
      text_.clear();
      at_ = 0;
      if (!watcher_->take(text_)) return Step::wait;
    }
    const std::size_t bytes = std::min(text_.size() - at_, stream_piece_bytes);
    out.append(text_.data() + at_, bytes);
    at_ += bytes;
    return Step::more;
  }
  bool ends_with_client() const noexcept override { return true; }

 private:
  EventLog& log_;
  std::shared_ptr<EventLog::Watcher> watcher_;
  std::string text_;  // taken, and sent up to at_
  std::size_t at_ = 0;
};

}  // namespace

// A command's answer is a stream: what follows it waits. `text`: where a refusal is written.
void Worker::begin_stream(Connection& c, const StreamRequest& request, Output& text) {
  if (request.kind == StreamRequest::Kind::watch) {
    std::shared_ptr<EventLog::Watcher> watcher;
    try {
      watcher = state_.events.add(request.events, [this] { wake(); });
    } catch (const std::exception& error) {  // no thread for the log, or no memory
      log().warn("a watcher is refused: {}", error.what());
      return text.append(codec::line::watcher_failed);
    }
    if (watcher == nullptr) return text.append(codec::line::too_many_watchers);
    text.append(codec::line::ok);
    c.stream = std::make_unique<Watch>(state_.events, std::move(watcher));
  } else {
    c.stream = make_dump(request, state_.dump_place, state_.engine.shared().clock.now_s());
    if (c.stream == nullptr) return text.append(codec::line::dump_busy);
  }
  c.state.store(ConnectionState::streaming, std::memory_order_relaxed);
  c.stream_index = static_cast<std::uint32_t>(streams_.size());
  streams_.push_back(&c);
  streams_due_ = true;
}

// A streaming connection has an event.
void Worker::serve_stream(Connection& c) {
  if (c.is_blocked() && !drain(c)) return;
  if (c.ended && c.stream->ends_with_client()) return close_later(c);
  streams_due_ = true;
}

// One piece of some streams; the others' turn comes in the next passes.
void Worker::send_streams() {
  streams_due_ = false;
  std::size_t pieces = 0;
  for (std::size_t looked = streams_.size(); looked != 0 && !streams_.empty(); --looked) {
    if (pieces == streams_per_pass) {
      streams_due_ = true;
      return;
    }
    next_stream_ = next_stream_ < streams_.size() ? next_stream_ : 0;
    Connection& c = *streams_[next_stream_++];
    if (c.is_blocked()) continue;
    const Stream::Step step = c.stream->produce(*context_, output_);
    if (step == Stream::Step::wait) continue;
    ++pieces;
    // Before its end is sent: a client that has read it may ask for the next one.
    if (step == Stream::Step::done) drop_stream(c);
    send(c, {&output_, 0, output_.size(), 0, 0});
    output_.clear();
    if (c.is_closed()) continue;
    if (step == Stream::Step::more) {
      streams_due_ |= !c.is_blocked();
    } else if (!c.is_blocked()) {
      end_stream(c);
    }
  }
}

// The server stops: what has happened until now still goes to the clients that watch, as far as their sockets take it.
void Worker::tell_watchers_the_last() {
  if (streams_.empty()) return;
  state_.events.deliver();
  streams_due_ = true;
  // Each call sends a few pieces; dumps, which would go on for long, are cut off.
  for (int i = 0; i < last_calls_max && streams_due_; ++i) send_streams();
}

// The stream has ended and all of it is sent: the connection resumes with the input behind it.
void Worker::end_stream(Connection& c) {
  c.state.store(ConnectionState::reading, std::memory_order_relaxed);
  if (c.closes) return close_later(c, c.close_reason);
  go_on_next_pass(c);
}

void Worker::drop_stream(Connection& c) noexcept {
  c.stream.reset();
  streams_.back()->stream_index = c.stream_index;
  streams_[c.stream_index] = streams_.back();
  streams_.pop_back();
}

}  // namespace tandem::net
