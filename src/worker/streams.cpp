#include "worker/streams.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "codec/reply.hpp"
#include "net/log.hpp"
#include "worker/dump_stream.hpp"

namespace tandem::net {
namespace {

constexpr int last_calls_max = 256;

// Lines of events, which the log's thread delivers.
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

void Streams::begin(Connection& c, const StreamRequest& request, Output& text) {
  std::unique_ptr<Stream> stream;
  if (request.kind == StreamRequest::Kind::watch) {
    std::shared_ptr<EventLog::Watcher> watcher;
    try {
      watcher = worker_.server.events.add(request.events, [this] { wakeup_.notify(); });
    } catch (const std::exception& error) {  // no thread for the log, or no memory
      log().warn("a watcher is refused: {}", error.what());
      return text.append(codec::line::watcher_failed);
    }
    if (watcher == nullptr) return text.append(codec::line::too_many_watchers);
    text.append(codec::line::ok);
    stream = std::make_unique<Watch>(worker_.server.events, std::move(watcher));
  } else {
    stream = make_dump(request, worker_.server.dump_place, worker_.clock().now_s());
    if (stream == nullptr) return text.append(codec::line::dump_busy);
  }
  connections_.begin_stream(c, std::move(stream));
  are_due_ = true;
}

void Streams::serve(Connection& c) {
  if (c.is_blocked() && !sender_.drain(c)) return;
  if (c.ended && c.stream->ends_with_client()) return connections_.close(c);
  are_due_ = true;
}

void Streams::send(Output& buffer) {
  const auto& streams = connections_.streams();
  are_due_ = false;
  std::size_t pieces = 0;
  for (std::size_t looked = streams.size(); looked != 0 && !streams.empty(); --looked) {
    if (pieces == streams_per_pass) {
      are_due_ = true;
      return;
    }
    next_ = next_ < streams.size() ? next_ : 0;
    Connection& c = streams[next_++];
    if (c.is_blocked()) continue;
    const Stream::Step step = c.stream->produce(*worker_.context, buffer);
    if (step == Stream::Step::wait) continue;
    ++pieces;
    // Before its end is sent: a client that has read it may ask for the next one.
    if (step == Stream::Step::done) connections_.end_stream(c);
    sender_.send(c, {&buffer, 0, buffer.size(), 0, 0});
    buffer.clear();
    if (c.is_closed()) continue;
    if (step == Stream::Step::more) {
      are_due_ |= !c.is_blocked();
    } else if (!c.is_blocked()) {
      end(c);
    }
  }
}

void Streams::send_last_events(Output& buffer) {
  if (connections_.streams().empty()) return;
  worker_.server.events.deliver();
  are_due_ = true;
  // Each call sends a few pieces. The number of calls is bounded: a dump may be long, and is cut off.
  for (int i = 0; i < last_calls_max && are_due_; ++i) send(buffer);
}

// The stream has ended and all of it is sent: the connection resumes with the input behind it.
void Streams::end(Connection& c) {
  c.state.store(ConnectionState::reading, std::memory_order_relaxed);
  if (c.closes) return connections_.close(c, c.close_reason);
  connections_.serve_again(c);
}

}  // namespace tandem::net
