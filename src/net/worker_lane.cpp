// The fast lane of a pass: what connections sent is offered to it, all together, before the parser sees the rest.
#include "net/worker.hpp"

namespace tandem::net {

// Whether this pass has a lane: who watches, and who reads the log, is told of single requests, and a worker that has a
// device asks it first.
bool Worker::has_lane() const noexcept {
  return !runner_->has_devices() && recorder_.flags() == 0 && state_.verbosity.load(std::memory_order_relaxed) < 2 &&
         lane_.may_run();
}

// The connection's input waits for the lane. False: it is not for it.
bool Worker::wait_for_lane(Connection& c, const char* begin, const char* end, std::uint64_t waits_since) {
  if (!pass_has_lane_ || c.fill != nullptr || c.large_waits) return false;
  const Parser::Begins begins = c.parser.begins();
  if (begins == Parser::Begins::neither || lane_segments_.size() == UINT16_MAX) return false;
  lane_segments_.push_back({.begin = begin, .end = end, .binary = begins == Parser::Begins::packet});
  if (TD_UNLIKELY(waits_since != 0)) {
    in_.oldest_receipt = std::min(in_.oldest_receipt, waits_since);
  } else if (TD_UNLIKELY(in_.sampled)) {
    waits_since = cycles_now();
  }
  lane_waits_.push_back({&c, waits_since});
  return true;
}

// Answers what waits for the lane, and parses what it leaves.
void Worker::run_lane() {
  if (lane_segments_.empty()) return;
  if (in_.entries.empty()) ahead_.clear();
  const std::span<LaneSegment> all(lane_segments_);
  std::vector<std::string_view>* const keys = TD_UNLIKELY(in_.sampled) && hot_keys_ != nullptr ? &lane_keys_ : nullptr;
  for (std::size_t i = 0; i < all.size();) {
    const std::span<LaneSegment> left = all.subspan(i);
    const std::size_t done = lane_.run(left, output_, output_flush_bytes, sampled_, keys);
    for (std::size_t k = 0; k < left.size(); ++k) end_lane(left[k], lane_waits_[i + k], k < done);
    output_.clear();
    i += done;
    // The output was full. Who does not read it waits; the others go on.
    if (i == all.size() || done == left.size()) break;
    if (done == 0 && all[i].rest == all[i].begin) break;  // there is no lane any more
    for (LaneSegment& segment : all.subspan(i))
      segment = {.begin = segment.rest, .end = segment.end, .binary = segment.binary, .rest = segment.rest};
    if (lane_waits_[i].connection->is_blocked() || lane_waits_[i].connection->is_closed()) ++i;
  }
  record_lane();
  for (std::size_t i = 0; i < all.size(); ++i) go_on_after_lane(all[i], lane_waits_[i]);
  lane_segments_.clear();
  lane_waits_.clear();
}

// SD of a segment's replies, unless the lane is done with it and leaves something: those are sent together.
void Worker::end_lane(LaneSegment& segment, LaneWait& wait, bool done) {
  Connection& c = *wait.connection;
  pass_parsed_ += segment.queries;
  pass_answered_ += segment.queries;
  for (std::size_t command = 0; command < lane_command_count; ++command)
    wait.commands[command] += segment.commands[command];
  for (const LaneCommand meta : {LaneCommand::meta_read, LaneCommand::meta_read_key, LaneCommand::meta_store})
    counters_.cmd_meta.add(segment.commands[static_cast<std::size_t>(meta)]);
  const std::size_t bytes = segment.output_end - segment.output_begin;
  if (bytes == 0) return;
  if (done && segment.rest != segment.end) {
    wait.ahead_begin = ahead_.size();
    wait.ahead_bytes = bytes;
    ahead_.append(output_.data() + segment.output_begin, bytes);
    return;
  }
  const std::uint64_t begin = TD_UNLIKELY(sampled_) ? cycles_now() : 0;
  send(c, {&output_, segment.output_begin, segment.output_end, 0, 0});
  if (TD_UNLIKELY(sampled_)) {
    wait.sent_at = cycles_now();
    context_->tasks.cycles[static_cast<std::size_t>(Task::send)].add(wait.sent_at - begin);
  }
}

// What the lane has not answered is parsed.
void Worker::go_on_after_lane(const LaneSegment& segment, const LaneWait& wait) {
  Connection& c = *wait.connection;
  if (c.is_closed()) return;
  if (TD_LIKELY(segment.rest == segment.end && c.kept.size() == 0)) return go_on_next_pass(c);
  add_entry(&c, segment.rest, segment.end);
  Entry& entry = in_.entries.back();
  entry.ahead_begin = wait.ahead_begin;
  entry.ahead_bytes = wait.ahead_bytes;
  if (TD_UNLIKELY(wait.waits_since != 0)) went_on(entry, wait.waits_since);
  if (TD_UNLIKELY(c.is_blocked())) {
    send_ahead(entry);
    entry.stop = Stop::yield;
    return;
  }
  parse(c);
  // Nothing follows in this pass.
  if (!in_.entries.empty() && in_.entries.back().connection == &c &&
      in_.entries.back().first_query == in_.batch->size())
    send_ahead(in_.entries.back());
}

// The lane's replies to the entry's connection, before its others.
void Worker::send_ahead(Entry& entry) {
  if (TD_LIKELY(entry.ahead_bytes == 0)) return;
  send(*entry.connection, {&ahead_, entry.ahead_begin, entry.ahead_begin + entry.ahead_bytes, 0, 0});
  entry.ahead_bytes = 0;
}
void Worker::write_ahead(Entry& entry) {
  output_.append(ahead_.data() + entry.ahead_begin, entry.ahead_bytes);
  entry.ahead_bytes = 0;
}

// Latencies of the commands that the lane has answered, and keys asked for, as record_batch() does.
void Worker::record_lane() noexcept {
  const std::uint64_t now = cycles_now();
  const bool slow = now - std::min(in_.begin, in_.oldest_receipt) > slow_ticks_;
  if (TD_UNLIKELY(in_.sampled || slow)) {
    constexpr Command command_of[lane_command_count] = {Command::get, Command::gets, Command::mg, Command::mg,
                                                        Command::get, Command::set,  Command::ms, Command::set};
    for (const LaneWait& wait : lane_waits_) {
      const std::uint64_t from = wait.waits_since != 0 ? wait.waits_since : in_.begin;
      const std::uint64_t to = wait.sent_at != 0 ? wait.sent_at : now;
      for (std::size_t i = 0; i < lane_command_count; ++i) {
        if (wait.commands[i] == 0) continue;
        latency_.of(command_of[i]).record(to > from ? to - from : 0, wait.commands[i] * (slow ? 1 : Sampler::mean));
      }
    }
  }
  if (in_.batch->size() == 0) {
    in_.begin = now;
    in_.oldest_receipt = UINT64_MAX;
  }
  if (TD_LIKELY(lane_keys_.empty())) return;
  // A few of the keys, as evenly as a strip's are drawn.
  constexpr std::size_t keys_per_draw = std::size_t{4} * strip_queries_max;
  const std::size_t step = std::max<std::size_t>(1, lane_keys_.size() / (4 + lane_keys_.size() / keys_per_draw));
  const std::size_t first = step == 1 ? 0 : sampler_.draw() % step;
  hot_keys_->record(state_.engine.shared().clock.now_s(), [&](HotKeyCounter& counter) {
    for (std::size_t i = first; i < lane_keys_.size(); i += step)
      counter.offer(lane_keys_[i], static_cast<std::uint32_t>(step));
  });
  lane_keys_.clear();
}

}  // namespace tandem::net
