// A server's worker with memory in place of sockets: the same lane, in the same order (net/lane_stage.hpp), for clients
// of which each sends a part of a batch.
//
//   RV  the requests are copied from the tape into the input arena, as recv() copies them from the socket; raw frames
//       one behind the other, as a packet ring has them
//   PP to WR  the lane, with what a device has answered, located or found; what it leaves alone
//   With dispatch (dispatch.hpp), each batch is divided among the threads, and the lane answers the parcels.
//   SD  each client's replies go to the sink (sink.hpp): pinned values released, the buffer free for the next ones
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/engine/dispatch.hpp"
#include "bench/engine/plan.hpp"
#include "bench/engine/sink.hpp"
#include "bench/engine/tape.hpp"
#include "bench/engine/timeline.hpp"
#include "codec/protocol.hpp"
#include "engine/engine.hpp"
#include "lane/lane.hpp"
#include "net/output_range.hpp"
#include "observe/histogram.hpp"
#include "pipeline/runner.hpp"
#include "planner/planner.hpp"

namespace tandem::bench {

// Receives the end of tasks, for counters that cannot be read inside the lane: RV, SD, and WR for all between them.
class TaskProbe {
 public:
  TaskProbe() = default;
  TaskProbe(const TaskProbe&) = delete;
  TaskProbe& operator=(const TaskProbe&) = delete;
  virtual ~TaskProbe() = default;
  virtual void ended(Task task) = 0;
};

// Thread safety: one thread at a time.
class WireDriver final : private LaneOwner {
 public:
  // Runs batches of up to `batch_queries` requests in up to `batch_bytes` bytes.
  WireDriver(Engine& engine, const EnginePlan& plan, WireProtocol protocol, std::uint32_t batch_queries,
             std::uint64_t batch_bytes, SinkKind sink = SinkKind::copy);
  ~WireDriver() = default;

  // From now on the batches are divided among the group's threads. REQUIRES: the text protocol, plan cpu, and a batch
  // of the group's has as many bytes as this driver's.
  void join(DispatchGroup& group, unsigned number) { dispatch_ = std::make_unique<DispatchMember>(group, number); }
  const DispatchMember* dispatch() const noexcept { return dispatch_.get(); }  // nullptr: none

  // With a chosen plan: chooses that of the next batch, for so many requests that wait. Returns whether a device has a
  // part in it. With any other plan the device has one if the plan says so.
  bool choose(std::uint32_t requests) noexcept;

  // Answered batches.
  struct Answered {
    std::uint64_t queries = 0, reply_bytes = 0;
  };
  // Submits one batch, and answers batches until there is room for the next: this one or earlier ones, or none. Returns
  // the totals of the answered ones. received_ticks: where its latency begins.
  Answered run(const Tape::Slice& batch, std::uint64_t received_ticks = cycles_now());
  // Answers the batches in flight that devices are done with.
  Answered answer_done();
  // Answers all batches in flight.
  Answered finish();
  // The same; their latencies are not recorded.
  Answered finish_untimed();
  // Appends replies also to `*replies`, from the sink; nullptr: does not.
  void keep_replies(std::string* replies) noexcept {
    keeps_ = replies != nullptr;
    sink_.keep(replies);
  }
  const ReplySink& sink() const noexcept { return sink_; }
  // Whether each of a batch's connections is a client of the sink, by its number in the batch. Else all that is sent is
  // client 0's: datagrams leave by one port, and dispatch answers a batch as one.
  bool has_clients() const noexcept { return !in_datagrams_ && dispatch_ == nullptr; }
  void set_probe(TaskProbe* probe) noexcept { probe_ = probe; }

  const Context& context() const noexcept { return *context_; }
  // Ticks from a batch's receipt until its replies were handed over, once for each of its requests.
  const Histogram& latency() const noexcept { return latency_; }
  // Records latencies also in `*timeline`; nullptr: does not.
  void set_timeline(LatencyTimeline* timeline) noexcept { timeline_ = timeline; }

 private:
  void report(std::uint64_t request_bytes) noexcept;
  // Each datagram has one command.
  bool before_row(LaneSegment& /*segment*/, bool /*begins*/) override { return true; }
  void answered(const LaneSegment& /*segment*/, const Query& /*query*/, const Result& /*result*/) override {}
  // One connection's requests, a datagram or a raw frame, from the input's beginning.
  struct Segment {
    std::uint32_t begin, end, client;
  };
  using Segments = std::vector<Segment>;
  // The same for the lane.
  struct LaneInput {
    std::vector<LaneSegment> segments;
    std::vector<std::uint32_t> clients;  // of each
  };
  // A client's replies in the output.
  struct Replies {
    std::uint32_t client;
    net::OutputRange range;
  };
  static Segment place(std::string_view requests, std::uint32_t client, Batch& batch);
  void receive(const Tape::Slice& requests, Batch& batch, Segments& segments);
  std::string_view requests_of(const Batch& batch, Segment segment) const;
  bool begin_frames(const Segments& segments);
  Parser& lane_parser(std::size_t number);
  void place(const Batch& batch, const Segments& segments, LaneInput& input);
  bool begin_keys(Batch& batch, LaneInput& input);
  void run_lane(LaneInput& input, const Batch* found);
  void finish(LaneSegment& segment, std::uint32_t client);
  void execute_alone(LaneSegment& segment);
  void take_replies(const LaneSegment& segment, std::uint32_t client);
  void answer_oldest();
  void answer_frames(Batch& batch, Segments& segments);
  void answer_datagrams(Batch& batch, const Segments& datagrams);
  void answer(Batch& batch, const Segments& segments);
  void run_planned(const Tape::Slice& requests, std::uint64_t received_ticks);
  void run_dispatched(const Tape::Slice& requests, std::uint64_t received_ticks);
  bool execute(std::span<Parcel* const> parcels);
  void execute_all(std::span<Parcel* const> parcels);
  void answer_dispatched();
  void take_dispatched();
  void send_frame(const LaneSegment& segment, std::uint32_t client);
  void send(std::uint32_t client, const char* bytes, std::size_t count);
  void hand_over();
  void record_latency(std::uint64_t received_ticks, std::uint64_t queries);
  void end_task(Task task, std::uint64_t& begin) noexcept;

  Engine& engine_;
  Engine::ContextPtr context_;
  std::unique_ptr<Runner> runner_;
  ProtocolOptions options_;
  Lane lane_;
  std::vector<std::uint64_t> received_;       // of each flight, ticks
  std::vector<Segments> segments_;            // of each flight: input that a device answers; empty: it has keys ...
  std::vector<LaneInput> inputs_in_flight_;   // ... of this input
  Segments taken_;                            // of the flight that is being answered
  LaneInput input_;                           // of a batch that no device has
  std::deque<Parser> lane_parsers_;           // by the number of a segment
  std::unique_ptr<DispatchMember> dispatch_;  // nullptr: batches are not divided
  Parcel* executed_ = nullptr;                // the output is its replies
  std::vector<std::string_view> inputs_;
  Plan plan_;
  std::uint64_t bytes_ = 0;         // of requests and replies
  std::optional<Planner> planner_;  // chooses the plan; nothing: it is constant
  bool is_binary_, in_datagrams_, is_raw_;
  std::vector<char> frame_;  // a raw reply
  Output output_;
  std::vector<Replies> output_replies_;  // all of the output, in order
  ReplySink sink_;
  bool keeps_ = false;  // the sink keeps replies, for a reader of all: they come in the order of the requests
  Answered answered_;
  Histogram latency_;
  LatencyTimeline* timeline_ = nullptr;
  bool timed_ = true;  // latencies are recorded
  TaskProbe* probe_ = nullptr;
  bool sampled_ = false;
  Sampler sampler_{static_cast<std::uint32_t>(cycles_now() >> 4)};
};

}  // namespace tandem::bench
