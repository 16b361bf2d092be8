// For tests and fuzzing: the same input to two stores, to one with a simulated device that answers requests whole, or
// locates their keys, in a replica or as it alone has the index, with the lane, ahead of the general path, to the other
// without devices. A device's input lies at the end of what may be read, between what could be taken for more of it.
#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "codec/ethernet.hpp"
#include "codec/ethernet_builder.hpp"
#include "codec/udp.hpp"
#include "device/sim/sim_device.hpp"
#include "engine/lane_harness.hpp"
#include "lane/lane.hpp"
#include "pipeline/runner.hpp"

namespace tandem {

class FramesHarness {
 public:
  static constexpr std::uint64_t arena_bytes = 131072;
  static constexpr std::uint32_t keys_max = 4096;

  explicit FramesHarness(const ProtocolOptions& options = {},
                         const EngineOptions& engine = codec::ReplyHarness::small_engine(),
                         std::uint32_t keys = keys_max, const Plan& plan = plan_frames)
      : plan_(plan),
        with_(options, on_device(engine, plan)),
        without_(options, without_devices(engine)),
        runner_(with_.context(), with_.engine().schedulers(), keys, arena_bytes, Runner::Frames::yes, 1),
        lane_(with_.context(), with_.options()) {
    // An answer that is let go leaves marks of items that it has read, which the host is never told.
    runner_.set_patience(std::chrono::hours(1));
    with_.ahead = [this](Parser& parser, std::string_view input, Output& out) {
      if (!is_ahead_ || parser.speaks() != Parser::Speaks::text || !parser.begins_command()) return std::size_t{0};
      return run(parser, input, out);
    };
  }
  ~FramesHarness() { with_.ahead = {}; }

  // Both answer; what they say must be equal.
  struct Answers {
    std::string with, without;
  };
  // The device answers from the input's beginning on, and the lane what it leaves; the parser what follows the first
  // request that neither takes.
  Answers exchange(std::string_view input) { return {with_.exchange(input), without_.exchange(input)}; }
  // The device also answers behind what it leaves. REQUIRES: all the input before has ended; this is whole lines, none
  // of which changes anything.
  Answers exchange_reads(std::string_view input) {
    std::string replies;
    const std::uint64_t at = submit_stream(input);
    std::size_t done = 0;
    is_ahead_ = false;
    while (done < input.size() && !closed()) {
      FrameRun frames;
      if (at != none && runner_.take_frames(at + done, at + input.size(), frames)) {
        replies.append(runner_.reply(frames), frames.reply_bytes);
        count(frames);
        done += frames.bytes;
        continue;
      }
      const std::size_t end = std::min(input.find('\n', done), input.size() - 1) + 1;
      replies += with_.exchange(input.substr(done, end - done));
      done = end;
    }
    is_ahead_ = true;
    if (at != none) runner_.end_answer();
    return {replies, without_.exchange(input)};
  }
  // Datagrams to the device alone: its reply to each; empty: it left the datagram.
  std::vector<std::string> ask(const std::vector<std::string>& datagrams) {
    std::vector<std::string> replies(datagrams.size());
    const std::vector<std::uint64_t> at = submit_each(datagrams, &FrameColumns::add_datagram);
    if (at.empty()) return replies;
    for (std::size_t i = 0; i < datagrams.size(); ++i) {
      FrameRun frames;
      if (at[i] == none || !runner_.take_frames(at[i], at[i] + datagrams[i].size(), frames)) continue;
      TD_ASSERT(frames.bytes == datagrams[i].size() && frames.requests == 1);
      replies[i].assign(runner_.reply(frames), frames.reply_bytes);
      count(frames);
    }
    runner_.end_answer();
    return replies;
  }
  // Likewise raw frames, with `gap` bytes between them.
  std::vector<std::string> ask_raw(const std::vector<std::string>& frames, std::size_t gap = 0) {
    std::vector<std::string> replies(frames.size());
    const std::vector<std::uint64_t> at = submit_each(frames, &FrameColumns::add_frame, gap);
    if (at.empty()) return replies;
    for (std::size_t i = 0; i < frames.size();) {
      FrameRun run;
      if (at[i] == none || !runner_.take_frames(at[i], UINT64_MAX, run)) {
        ++i;
        continue;
      }
      count(run);
      ++runs_of_device;
      const char* reply = runner_.reply(run);
      const char* const end = reply + run.reply_bytes;
      for (const std::size_t behind = i + run.requests; i < behind; ++i) {
        TD_ASSERT(reply + ethernet::header_bytes <= end);
        const std::uint32_t bytes = ethernet::ip_at + ethernet::number_at(reply, ethernet::ip_at + 2);
        TD_ASSERT(reply + bytes <= end);
        replies[i].assign(reply, bytes);
        reply += bytes;
      }
      TD_ASSERT(reply == end && run.begin + run.bytes == at[i - 1] + frames[i - 1].size());
    }
    runner_.end_answer();
    return replies;
  }
  // The host's reply to a raw frame; empty: none.
  std::string host_frame(std::string_view frame) {
    const ethernet::Udp udp = ethernet::read_frame(frame.data(), static_cast<std::uint32_t>(frame.size()));
    UdpFrame header{};
    if (udp.fault != ethernet::Fault::none) return {};
    const std::string_view payload = frame.substr(ethernet::header_bytes, udp.payload_bytes);
    if (!read_udp_frame(payload.data(), payload.size(), header)) return {};
    char reply_header[udp_frame_bytes];
    write_udp_frame({header.request_id, 0, 1}, reply_header);
    return ethernet::reply_frame(
        frame, std::string(reply_header, sizeof reply_header) + ask_host(payload.substr(udp_frame_bytes)));
  }
  std::string ask_host(std::string_view input) { return without_.exchange(input); }
  // Without the device, by the store beside it.
  std::string ask_lane(std::string_view input) {
    is_ahead_ = false;
    std::string replies = with_.exchange(input);
    is_ahead_ = true;
    return replies;
  }
  // All of these at once, a stream each. REQUIRES: the lane takes all of it, and what one stream sets no other one asks
  // for.
  std::vector<Answers> exchange_streams(const std::vector<std::string>& inputs) {
    std::vector<Answers> answers(inputs.size());
    const std::vector<std::uint64_t> at = submit_each(inputs, &FrameColumns::add_stream, 0, lane_padding_bytes);
    TD_ASSERT(!at.empty());
    const InputArena& arena = answering_->input();
    std::vector<LaneSegment> segments;
    std::deque<Parser> parsers;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const char* const begin = arena.begin() + at[i];
      Parser& parser = parsers.emplace_back(with_.options(), with_.engine().shared().clock);
      segments.push_back({.begin = begin, .end = begin + inputs[i].size(), .parser = &parser, .binary = false});
      TD_ASSERT(arena.has_behind(segments.back().end, lane_padding_bytes));
    }
    Output out;
    const std::uint64_t before = located_queries();
    for (std::size_t first = 0; first < segments.size();) {
      lane_.set_answers(runner_.runs(), runner_.located());
      first += lane_.run(std::span(segments).subspan(first), out, output_bytes);
      for (std::size_t i = 0; i < segments.size(); ++i)
        answers[i].with += replies_of(segments[i], out, with_.engine().shared().heap);
      out.clear();
      for (LaneSegment& segment : segments) segment.resume();
    }
    end_answer(before);
    for (std::size_t i = 0; i < inputs.size(); ++i) answers[i].without = ask_host(inputs[i]);
    return answers;
  }
  // Another client's requests to both, which no device sees: from `launched`.
  void exchange_beside(std::string_view input) {
    is_ahead_ = false;
    TD_ASSERT(with_.exchange_beside(input) == without_.exchange(input));
    is_ahead_ = true;
  }
  // Called when a device has searched, before the host goes on; receives what it has located.
  std::function<void(std::span<LocatedKey>)> launched;

  void always_defer() noexcept { lane_.always_defer(); }
  void set_time(std::uint32_t now_s) {
    with_.set_time(now_s);
    without_.set_time(now_s);
  }
  bool closed() const noexcept { return with_.closed(); }
  const StoreCounters& counters_with() noexcept { return with_.context().counters; }
  const StoreCounters& counters_without() noexcept { return without_.context().counters; }
  const Context& context_with() noexcept { return with_.context(); }
  const IndexPlacement& placement_with() noexcept { return with_.engine().shared().placement; }
  std::uint64_t keys_of_device = 0, hits_of_device = 0, lines_of_device = 0;
  std::uint64_t runs_of_device = 0;                    // of raw frames
  std::array<std::uint64_t, frame_left_count> left{};  // by the device, by reason
  std::size_t output_bytes = 4096;  // at which a run of the lane ends: few, so that it does in the middle
  unsigned runs_of_lane() const noexcept { return runs_of_lane_; }
  std::size_t skip = 0;  // bytes between the input's end and the arena's, fewer than frame_unit_bytes

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  static EngineOptions without_devices(EngineOptions engine) {
    engine.devices.clear();
    return engine;
  }
  static EngineOptions on_device(EngineOptions engine, const Plan& plan) {
    if (engine.devices.empty()) engine.devices = {make_sim_device({.memory_bytes = std::uint64_t{256} << 20})};
    engine.index_on_device = plan == plan_located_index;
    if (locates_keys(plan)) {
      engine.device_values = {};
    } else if (engine.device_values.bytes == 0) {
      engine.device_values = {.bytes = std::uint64_t{64} << 20};
    }
    return engine;
  }

  // Has the device answer what `fill` puts in; again while a busy machine's scheduler is late, which would leave
  // everything to the host. False: no piece was put in.
  template <class Fill>
  bool submit(Fill fill) {
    for (;;) {
      FrameColumns* const columns = runner_.frames_to_fill(plan_);
      if (columns == nullptr) {  // the replica is not ready yet
        std::this_thread::yield();
        continue;
      }
      InputArena& arena = runner_.filling().input();
      arena.reuse();
      char* const room = arena.room();
      surround(room);
      columns->clear();
      fill(*columns, room);
      if (columns->empty()) return false;
      runner_.submit_frames(plan_, with_.options().cas);
      answering_ = &runner_.begin_answer();
      if (locates_keys(plan_) ? runner_.begin_located() : runner_.begin_frames()) {
        located_ = columns;
        const auto of_this = columns->left();
        for (std::size_t i = 0; i < of_this.size(); ++i) left[i] += of_this[i];
        return true;
      }
      runner_.end_answer();
    }
  }
  // One behind the other, with `gap` bytes between them and `behind` bytes behind the last one, up to the arena's end.
  // Returns where each lies in the arena, none: it was not added; nothing: there is no answer.
  std::vector<std::uint64_t> submit_each(const std::vector<std::string>& datagrams,
                                         bool (FrameColumns::*add)(std::uint64_t, std::uint64_t) noexcept,
                                         std::size_t gap = 0, std::size_t behind = 0) {
    std::vector<std::uint64_t> at;
    const bool answered = submit([&](FrameColumns& columns, char* arena) {
      std::uint64_t bytes = skip + behind;
      for (const std::string& d : datagrams) bytes += d.size() + gap;
      TD_ASSERT(bytes <= arena_bytes);
      std::uint64_t begin = arena_bytes - bytes + gap;
      at.clear();
      for (const std::string& d : datagrams) {
        std::memcpy(arena + begin, d.data(), d.size());
        at.push_back((columns.*add)(begin, d.size()) ? begin : none);
        begin += d.size() + gap;
      }
    });
    return answered ? at : std::vector<std::uint64_t>();
  }
  // Returns where it lies in the arena: before its last `behind` bytes.
  std::uint64_t submit_stream(std::string_view input, std::uint64_t behind = 0) {
    if (input.size() + behind > arena_bytes - skip) return none;
    const std::uint64_t at = arena_bytes - skip - behind - input.size();
    const bool answered = submit([&](FrameColumns& columns, char* arena) {
      std::memcpy(arena + at, input.data(), input.size());
      columns.add_stream(at, input.size());
    });
    return answered ? at : none;
  }
  static void surround(char* arena) {
    constexpr std::string_view decoy = "\r\nget k1\r\nmg k1 v\r\n k1 k2\r\n";
    for (std::uint64_t i = 0; i < arena_bytes; ++i) arena[i] = decoy[i % decoy.size()];
  }
  // The lane answers all that it takes, with what the device has told.
  std::size_t run(Parser& parser, std::string_view input, Output& out) {
    const std::uint64_t at = submit_stream(input, lane_padding_bytes);
    if (at == none) return 0;
    if (launched && locates_keys(plan_)) {
      std::vector<LocatedKey> all;
      FrameColumns::Place place;
      while (const FrameRun* const run = located_->next_run(place)) {
        const auto* const keys = reinterpret_cast<const LocatedKey*>(located_->reply(*run));
        all.insert(all.end(), keys, keys + run->keys);
      }
      launched(all);
      place = {};
      for (std::size_t i = 0; const FrameRun* const run = located_->next_run(place); i += run->keys)
        std::memcpy(const_cast<char*>(located_->reply(*run)), all.data() + i, run->keys * sizeof(LocatedKey));
    }
    const char* const begin = answering_->input().begin() + at;
    LaneSegment segment{.begin = begin, .end = begin + input.size(), .parser = &parser, .binary = false};
    TD_ASSERT(answering_->input().has_behind(segment.end, lane_padding_bytes));
    segment.rest = begin;
    const std::uint64_t before = located_queries();
    Output of_run;
    for (;;) {
      lane_.set_answers(runner_.runs(), runner_.located());
      if (!lane_.may_run()) break;
      const std::size_t done = lane_.run({&segment, 1}, of_run, output_bytes, ++runs_of_lane_ % 3 == 0);
      out.append(replies_of(segment, of_run, with_.engine().shared().heap));
      of_run.clear();
      if (done != 0 || segment.rest == segment.begin) break;
      segment.resume();
    }
    end_answer(before);
    return static_cast<std::size_t>(segment.rest - begin);
  }
  // located_before: by earlier flights.
  void end_answer(std::uint64_t located_before) {
    keys_of_device += located_queries() - located_before;
    if (FrameRuns* const runs = runner_.runs(); runs != nullptr) {
      keys_of_device += runs->counts().keys;
      hits_of_device += runs->counts().hits;
      lines_of_device += runs->counts().requests;
    }
    runner_.end_answer();
  }
  std::uint64_t located_queries() noexcept { return with_.context().tasks.on_device[index_of(Task::search)].get(); }
  void count(const FrameRun& frames) {
    keys_of_device += frames.keys;
    hits_of_device += frames.hits;
    lines_of_device += frames.requests;
  }

  const Plan plan_;
  codec::ReplyHarness with_, without_;
  Runner runner_;
  Lane lane_;
  const Batch* answering_ = nullptr;
  const FrameColumns* located_ = nullptr;  // of that batch
  bool is_ahead_ = true;
  unsigned runs_of_lane_ = 0;  // some of which are timed
};

}  // namespace tandem
