// One thread's work, from received input to replies: a server's worker and a thread of the benchmark have one each, and
// a Sink that says what only they can do.
//
// Input is placed in the arena of an intake (room(), add()), or lent. end() chooses what answers it: the lane at once,
// or after a device, which has it in a flight meanwhile; flights are answered in the order in which they were handed
// over. The lane (lane/lane.hpp) takes the input of all askers together, with what a device has answered, located or
// found. What it leaves is then answered one segment after the other: the command at its rest alone, outside an epoch,
// and the lane behind that.
//
// An asker with input in flight must not be received from, so that its replies come in order, unless the work is
// `in_order`. Input that waits for a device which is late is answered here otherwise, after milliseconds, so that one
// device does not delay other devices' input.
//
// Thread safety: one thread at a time.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/ticks.hpp"
#include "codec/output.hpp"
#include "codec/protocol.hpp"
#include "lane/lane.hpp"
#include "pipeline/runner.hpp"
#include "planner/planner.hpp"
#include "work/intake.hpp"
#include "work/meter.hpp"
#include "work/sink.hpp"

namespace tandem {

struct WorkOptions {
  // So much input has probably as many keys as a flight: more is not waited for where devices search for keys.
  std::uint64_t keys_input_bytes = UINT64_MAX;
  // Of a stream, before its next row; and its control commands, a few of which are a turn.
  std::uint64_t turn_ticks = UINT64_MAX;
  std::uint32_t controls_per_turn = UINT32_MAX;
  bool in_order = false;  // input is answered in the order of its receipt, however late a device is
};

class Work final : LaneOwner {
 public:
  // All outlive the work; the sink need not be constructed yet. runner: its flights' batches have the arenas.
  Work(Context& context, const ProtocolOptions& protocol, Planner& planner, std::unique_ptr<Runner> runner,
       Meter& meter, Sink& sink, const WorkOptions& options);
  ~Work();  // waits for what is in flight, without answering it
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // rows_only: all commands are rows, of each of which the sink is told.
  void begin_pass(std::uint64_t now, bool rows_only = false) noexcept;
  // REQUIRES: what was received is answered or handed over.
  void end_pass() noexcept;

  // Room for so many bytes of input and the lane's padding, at a cache line's begin; makes it by answering what was
  // received before. REQUIRES: bytes <= the arena's, less the padding.
  char* room(std::size_t bytes) {
    if (TD_UNLIKELY(!input().has_room(bytes + lane_padding_bytes) || !has_place() || is_full_of_keys())) {
      empty_input();
      TD_ASSERT(input().has_room(bytes + lane_padding_bytes));
    }
    return input().room();
  }
  // Has a stream's input wait, of so many bytes at the last room(). waits_since: when it was received, if not in this
  // pass; else 0. fills: as Asker has it.
  void add(void* owner, Parser& parser, std::size_t bytes, std::uint64_t waits_since = 0, bool fills = false) {
    const char* const begin = place(bytes);
    TD_ASSERT(input().has_behind(begin + bytes, lane_padding_bytes));
    lend(owner, parser, begin, begin + bytes, waits_since, fills);
  }
  // The same of input that lies elsewhere: answer_here() must follow. follows: as LaneSegment has it.
  void lend(void* owner, Parser& parser, const char* begin, const char* end, std::uint64_t waits_since = 0,
            bool fills = false, bool follows = false);
  // Has a datagram wait, frame included, which is copied where a device reads it. Its owner keeps it until it is
  // answered. follows: the datagram before is of the same port.
  void add_datagram(void* owner, Parser& parser, const char* frame, std::size_t bytes, bool follows);
  // The same of datagrams in the arena, where a sender has put them: place() takes so many bytes at the last room().
  // is_raw: as Asker has it.
  const char* place(std::size_t bytes) noexcept {
    const char* const begin = input().room();
    input().take(bytes);
    return begin;
  }
  void add_placed(void* owner, Parser& parser, const char* begin, std::size_t bytes, bool is_raw);

  // All input of the pass was received: answers it, or hands it over.
  void end() {
    if (TD_UNLIKELY(runner_->has_devices())) return end_beside_device();
    answer_here();
  }
  // Answers what waits, by the host.
  void answer_here() {
    sink_.begin_run(cycles_now());
    answer();
  }
  // Whether devices have a part in the plan of so many requests now.
  bool asks_device(std::uint32_t requests) const noexcept { return runner_->can_begin(planner_.plan_for(requests)); }

  unsigned in_flight() const noexcept { return runner_->in_flight(); }
  // Whether the intake that was handed over first can be answered without waiting.
  bool answers_ready() const noexcept { return runner_->in_flight() != 0 && runner_->oldest_is_done(); }
  // Answers it; waits for devices, if need be. REQUIRES: in_flight() != 0.
  void answer_oldest();
  void finish() {
    while (runner_->in_flight() != 0) answer_oldest();
  }

  // Of requests and replies, as the sink counts them, without the requests that are in flight.
  std::uint64_t bytes() const { return sink_.bytes() - std::min(sink_.bytes(), bytes_in_flight_); }

  // Replies are put here; empty between two runs.
  Output& output() noexcept { return output_; }
  Runner& runner() noexcept { return *runner_; }
  const Runner& runner() const noexcept { return *runner_; }
  // That is being filled; within answer_oldest(), the one that is answered.
  const Intake& in() const noexcept { return in_; }
  // Whether devices begin with the input of this pass, and whether they search for keys of other input.
  bool asks_with_input() const noexcept { return asks_with_input_; }
  bool asks_with_keys() const noexcept { return asks_with_keys_; }

 private:
  // What a run has answered.
  struct Ended {
    std::uint64_t queries = 0, metas = 0;
  };

  // --- work.cpp: intakes and flights
  InputArena& input() noexcept { return in_.batch->input(); }
  bool has_place() const noexcept { return in_.segments.size() != UINT16_MAX; }
  bool is_full_of_keys() noexcept {
    return TD_UNLIKELY(asks_with_keys_) && !asks_with_input_ && input().used_bytes() >= options_.keys_input_bytes;
  }
  void empty_input();
  void begin_intake();
  LaneSegment& add_segment(const char* begin, const char* end, Parser& parser);
  void add_message(void* owner, Parser& parser, const char* frame, const char* end, bool is_raw);
  template <class Submit>
  void hand_over(Submit submit);
  bool free_flight();

  // --- hot.cpp: by hot keys, ahead of a device
  void answer_hot();
  void end_hot();

  // --- choose.cpp: host or device
  void choose_for_pass() noexcept;
  void end_beside_device();
  bool ask();
  bool ask_with_input();
  bool ask_with_keys();
  const Plan& plan_of_waiting() const noexcept;
  bool fill(FrameColumns& frames) const;
  void send_whole_answers();
  bool take_whole(const LaneSegment& segment, const Asker& asker, FrameRun& run);

  // --- answer.cpp: what waits
  void answer();
  void take_answers() noexcept;
  void end_answers() noexcept;
  template <class MayRun>
  void run_while(MayRun may_run);
  void run_all();
  void run_while_it_may();
  void run_asked();
  void open_raw() noexcept;
  void pass_over(LaneSegment& segment) noexcept;
  std::uint64_t executed() const noexcept { return context_.tasks.queries_total.get(); }
  bool waits_for_search(std::size_t number) const noexcept;
  std::size_t run_lane(std::span<LaneSegment> segments);
  std::size_t run_from(std::size_t first);
  std::size_t resume_at(std::size_t first, bool has_ended);
  std::size_t pass_followers(std::size_t first) const noexcept;
  void note_rows(std::size_t first);
  static void count(const LaneSegment& segment, Asker& asker, Ended& ended) noexcept;
  void add(const Ended& ended) {
    meter_.parsed(ended.queries);
    meter_.answered(ended.queries);
    in_.queries += ended.queries;
    sink_.end_run(ended.queries, ended.metas);
  }
  void send_message(Asker& asker, const OutputRange& message) {
    has_messages_ = true;
    sink_.send_message(asker, message);
  }
  void flush() {
    const Meter::Timed timed(meter_, Task::send);
    sink_.flush();
    has_messages_ = false;
  }
  void end_segment(const LaneSegment& segment, Asker& asker, bool is_cut, bool is_done, Ended& ended);
  void end_datagram(const LaneSegment& segment, Asker& asker, bool is_cut);
  void drop_open_message();
  bool before_row(LaneSegment& segment, bool begins) override;
  void answered(const LaneSegment& segment, const Query& query, const Result& result) override;

  // --- rest.cpp: what the lane has left
  void finish_segment(std::size_t number);
  void go_on(std::size_t number);
  bool goes_on(const LaneSegment& segment, const Asker& asker) const noexcept;
  void run_one(std::size_t number);
  bool act(std::size_t number);
  bool act_for_stream(std::size_t number);
  bool act_for_datagram(std::size_t number);
  ParseStop take_and_execute(std::size_t number);
  void execute(std::size_t number);
  void send_rest(const LaneSegment& segment, Asker& asker);
  bool finish_large(std::size_t number);

  Context& context_;
  Planner& planner_;
  const std::unique_ptr<Runner> runner_;
  Meter& meter_;
  Sink& sink_;
  const WorkOptions options_;
  const bool cas_;  // replies of devices tell CAS ids
  Lane lane_;
  Output output_;
  Intake in_;
  std::vector<Intake> in_flight_;  // by the number of the flight
  std::uint64_t bytes_in_flight_ = 0;
  // Of answer_hot(): what it has answered; whether a segment follows; where each one's asker is then.
  Intake hot_;
  std::vector<std::uint8_t> followed_;
  std::vector<std::uint32_t> places_;
  std::uint64_t pass_begin_ = 0;  // ticks
  bool rows_only_ = false;
  bool asks_with_input_ = false, asks_with_keys_ = false;
  bool has_messages_ = false;          // of datagrams, that wait for flush()
  bool takes_datagrams_ = false;       // which a device can only answer whole
  const LaneSegment* open_ = nullptr;  // whose message ends the output, not whole; nullptr: all are
  std::size_t asked_ = 0;              // the segment of the last before_row()
};

}  // namespace tandem
