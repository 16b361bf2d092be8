// A thread's work (work/work.hpp) with memory in place of sockets: the same class that a server's worker has, for
// clients of which each sends a part of a batch.
//
//   RV  the requests are copied from the tape into the work's input, as recv() copies them from the socket; raw frames
//       one behind the other, as a packet ring has them
//   SD  each client's replies go to the sink (sink.hpp): pinned values released, the buffer free for the next ones
//
// A client may have batches in flight while it sends the next one; the work answers in order. With dispatch
// (dispatch.hpp), each batch is divided among the threads, and the work answers the parcels.
#pragma once
#include <chrono>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ticks.hpp"
#include "bench/engine/dispatch.hpp"
#include "bench/engine/plan.hpp"
#include "bench/engine/sink.hpp"
#include "bench/engine/tape.hpp"
#include "bench/engine/timeline.hpp"
#include "codec/protocol.hpp"
#include "engine/engine.hpp"
#include "observe/histogram.hpp"
#include "work/work.hpp"

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
class WireDriver final : private Sink {
 public:
  // Runs batches of up to `batch_queries` requests in up to `batch_bytes` bytes.
  WireDriver(Engine& engine, const EnginePlan& plan, WireProtocol protocol, std::uint32_t batch_queries,
             std::uint64_t batch_bytes, SinkKind sink = SinkKind::copy);
  ~WireDriver() = default;

  // From now on the batches are divided among the group's threads. REQUIRES: the text protocol, plan cpu, and a batch
  // of the group's has as many bytes as this driver's.
  void join(DispatchGroup& group, unsigned number) { dispatch_ = std::make_unique<DispatchMember>(group, number); }
  const DispatchMember* dispatch() const noexcept { return dispatch_.get(); }  // nullptr: none

  // Whether a device has a part in the plan of a batch of so many requests.
  bool asks_device(std::uint32_t requests) noexcept;

  // Answered batches.
  struct Answered {
    std::uint64_t queries = 0, reply_bytes = 0;
  };
  // Answers a batch: this one or, while devices have it, earlier ones, or none. Returns the totals of the answered
  // ones. received_ticks: where its latency begins. Throws std::runtime_error: a request is none.
  Answered run(const Tape::Slice& batch, std::uint64_t received_ticks = cycles_now());
  // Answers the batches in flight that devices are done with.
  Answered answer_done();
  // Answers all batches in flight.
  Answered finish();
  // The same; their latencies are not recorded.
  Answered finish_untimed();
  // Appends replies also to `*replies`, from the sink, in the order of the requests; nullptr: does not.
  void keep_replies(std::string* replies) noexcept {
    kept_ = replies;
    planner_.set_reports(replies == nullptr);  // what is verified waits for each batch
  }
  const ReplySink& sink() const noexcept { return sink_; }
  // Whether each of a batch's connections is a client of the sink, by its number in the batch. Else all that is sent is
  // client 0's: datagrams leave by one port, and dispatch answers a batch as one.
  bool has_clients() const noexcept { return !in_datagrams_ && dispatch_ == nullptr; }
  // As Runner::set_patience(), for tests.
  void set_patience(std::chrono::milliseconds patience) noexcept { work_.runner().set_patience(patience); }
  void set_probe(TaskProbe* probe) noexcept { probe_ = probe; }

  const Context& context() const noexcept { return *context_; }
  // Ticks from a batch's receipt until its replies were handed over, once for each of its requests.
  const Histogram& latency() const noexcept { return latency_; }
  // Those of them that the host has answered by hot keys, ahead of a device.
  const Histogram& hot_latency() const noexcept { return hot_latency_; }
  // Records latencies also in `*timeline`, and those by hot keys in `*hot`; nullptr: does not.
  void set_timeline(LatencyTimeline* timeline, LatencyTimeline* hot) noexcept {
    timeline_ = timeline;
    hot_timeline_ = hot;
  }

 private:
  // One that sends a part of each batch.
  struct Client {
    Client(const ProtocolOptions& options, const Clock& clock) noexcept : parser(options, clock) {}

    Parser parser;
    std::uint32_t number = 0;  // of the sink
    std::string kept;          // replies, while they are kept
  };

  // --- Sink
  void begin_run(std::uint64_t now) override { engine_.keep_time(now); }
  void send(Asker& to, const OutputRange& replies, bool ends) override;
  void send_message(Asker& to, const OutputRange& message) override;
  void send_whole(Asker& to, std::string_view replies) override;
  void end_run(std::uint64_t queries, std::uint64_t metas) override;
  void answered_all(Intake& in) override;
  std::uint64_t bytes() const override { return bytes_; }
  void ended(Asker& asker, const LaneSegment& segment, std::uint64_t since) override;
  void control(Asker& asker, const Query& query) override;
  void drop_message(Asker& asker, const OutputRange& message) override;

  Client& client(std::size_t number);
  void receive(const Tape::Slice& batch);
  void send_frame(Asker& to, const OutputRange& message);
  void put(Client& to, const char* bytes, std::size_t count);
  void record_latency(std::uint64_t received_ticks, std::uint64_t queries, bool by_hot_keys = false);
  void take_kept();
  void end_task(Task task) noexcept {
    if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(task);
  }

  // --- wire_dispatched.cpp
  void run_dispatched(const Tape::Slice& requests, std::uint64_t received_ticks);
  bool execute(std::span<Parcel* const> parcels);
  void answer_dispatched();
  void take_dispatched();

  Engine& engine_;
  Engine::ContextPtr context_;
  ProtocolOptions options_;
  Planner planner_;
  Meter meter_;
  Work work_;
  std::deque<Client> clients_;                // by their number in a batch
  std::unique_ptr<DispatchMember> dispatch_;  // nullptr: batches are not divided
  bool executes_parcels_ = false;             // the work's askers are parcels
  std::vector<char> received_;                // a batch that is divided
  std::vector<std::string_view> inputs_;
  std::uint64_t bytes_ = 0;  // of requests and replies
  bool is_binary_, in_datagrams_, is_raw_;
  std::vector<char> frame_;  // a raw reply
  ReplySink sink_;
  std::string* kept_ = nullptr;
  Answered answered_;
  Histogram latency_, hot_latency_;
  LatencyTimeline *timeline_ = nullptr, *hot_timeline_ = nullptr;
  bool timed_ = true;  // latencies are recorded
  TaskProbe* probe_ = nullptr;
  bool sends_ = false;  // in this run, for the probe
};

}  // namespace tandem::bench
