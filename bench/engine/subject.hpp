// The subjects that take turns in a cell of the in-process mode: the store behind its wire format, the embedded store,
// and the loops that bound both. All subjects of a cell get the same operations.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/engine/ceiling.hpp"
#include "bench/engine/dispatch.hpp"
#include "bench/engine/plan.hpp"
#include "bench/engine/sink.hpp"
#include "bench/engine/tape.hpp"
#include "bench/engine/threads.hpp"
#include "bench/engine/timeline.hpp"
#include "engine/engine.hpp"
#include "tandem/store.hpp"

namespace tandem::bench {

// Queries of hot keys, answered ahead of a device.
struct HotMeasured {
  std::uint64_t keys = 0;  // that are hot when the turn ends
  HistogramTotals latency;
  std::vector<LatencyTimeline::Stretch> timeline;
};

// One turn of one subject.
struct Measured {
  Turn turn;
  std::uint64_t misses_expected = 0;  // GETs of keys that were never stored
  std::uint64_t gets = 0, hits = 0, sets = 0, batches = 0, request_bytes = 0, reply_bytes = 0;
  ReplyErrors errors;                        // by counters and sizes; verify() compares values
  std::array<TaskCost, task_count> tasks{};  // of the wire format only ...
  TasksRan ran;                              // ... like this
  double bucket_s = 0;                       // of alternating workloads ...
  std::vector<std::uint64_t> timeline;       // ... operations by time
  std::array<std::uint64_t, 2> ops_of_workload{};
  struct OnDevice {
    std::uint64_t launches = 0, searched = 0, batches = 0, refused_batches = 0, device_ns = 0;
    // Requests that it has answered whole, and lines that it has left, by their reason.
    std::uint64_t answered = 0, left_item = 0, left_length = 0, left_room = 0, left_other = 0;
    std::uint64_t changes = 0, sent_bytes = 0;  // by which its replica followed the store
    OnDevice& operator-=(const OnDevice& other) noexcept;
  };
  HistogramTotals
      latency;  // ticks, of each request: from the receipt of its batch until the hand-over of its batch's replies
  std::vector<LatencyTimeline::Stretch> latency_timeline;
  std::optional<OnDevice> device;  // its scheduler's work, if the plan has a device
  std::optional<HotMeasured> hot;  // if the plan answers them; of the rest `latency` has more
};

// Length of a turn: `seconds`, or a number of operations of each thread. And how a turn of the wire format is driven.
struct TurnLength {
  double seconds = 0.2;
  std::uint64_t ops = 0;  // 0: by time
  // Of all threads together, in an open loop: batches are received when they are due, whatever has been answered. 0: a
  // closed loop, each batch as soon as there is room for it.
  double ops_per_s = 0;
  double timeline_every_s = 0;  // 0: no timeline of latencies
};

// The operations of a cell: for each thread one tape, or two: of workloads that alternate, or in small batches for the
// host and large ones for a device, where a planner chooses.
struct CellTapes {
  std::vector<std::vector<std::unique_ptr<Tape>>> of_thread;
  std::uint32_t batch_queries = 0;  // at most
  double alternate_every_s = 0;     // 0: they do not
  bool getk = false;                // the client compares the keys
  bool may_evict = false;           // a few of the keys were evicted while they were stored
  double evicted_share = 0;         // of the keys
  bool has_fixed_sizes = true;      // of keys and values

  unsigned threads() const noexcept { return static_cast<unsigned>(of_thread.size()); }
};

class Subject {
 public:
  Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;
  virtual ~Subject() = default;
  virtual std::string_view name() const = 0;
  virtual Measured take(const TurnLength& length) = 0;
  // Runs every operation of every tape once and compares all answers, value by value.
  virtual ReplyErrors verify() = 0;
  // Where the store learns which keys are hot: takes turns until their share of the requests is steady.
  virtual void settle_hot_keys() {}
};

inline constexpr std::string_view subject_wire = "tandem", subject_embedded = "tandem embedded",
                                  subject_two_lines = "two-line loop", subject_copy = "copy loop",
                                  subject_wire_getk = "tandem getk", subject_embedded_getk = "tandem embedded getk";

class TaskProbe;
class WireDriver;

class WireSubject final : public Subject {
 public:
  WireSubject(Engine& engine, const EnginePlan& plan, const CellTapes& tapes, SinkKind sink);
  ~WireSubject() override;
  std::string_view name() const override { return tapes_.getk ? subject_wire_getk : subject_wire; }
  Measured take(const TurnLength& length) override;
  ReplyErrors verify() override;
  void settle_hot_keys() override;
  // Runs the first thread's tape once, on this thread; `probe` receives the end of each task. Returns the number of
  // operations.
  std::uint64_t probe(TaskProbe& probe, std::uint64_t ops_max);

 private:
  struct Thread;
  void for_each_driver(const std::function<void(const WireDriver&)>& f) const;
  std::uint64_t step(Thread& thread, std::uint64_t start_ticks);
  std::size_t lane_for(Thread& thread, std::uint64_t start_ticks) const;
  void begin_turn(Thread& thread, const TurnLength& length, std::uint64_t start_ticks, unsigned number);
  std::uint64_t answer_until_due(Thread& thread);
  void compare_last(const Thread& thread, ReplyErrors& errors) const;

  Measured::OnDevice on_device() const;

  Engine& engine_;
  const CellTapes& tapes_;
  const bool answers_hot_;
  std::uint64_t every_ticks_ = 0, bucket_ticks_ = 0;
  std::unique_ptr<DispatchGroup> dispatch_;  // nullptr: the plan has none
  std::vector<std::unique_ptr<Thread>> threads_;
};

// get_batch() for batches of reads only, execute() for other batches. With getk the items' keys are copied out, too,
// since the caller needs them for the comparison.
class EmbeddedSubject final : public Subject {
 public:
  EmbeddedSubject(Store& store, const workload::KeySpace& keys, const CellTapes& tapes);
  std::string_view name() const override { return tapes_.getk ? subject_embedded_getk : subject_embedded; }
  Measured take(const TurnLength& length) override;
  ReplyErrors verify() override;

 private:
  struct Thread {
    explicit Thread(Session s) : session(std::move(s)) {}
    Session session;
    bool reads_only = true;
    std::vector<std::string_view> keys;
    std::vector<Request> requests;  // when some are stores
    std::vector<char> out;
    std::size_t next = 0;
    std::uint64_t done = 0, left = 0, hits = 0, stored = 0;
  };
  template <class Visitor>
  void run(Thread& thread, std::size_t first, std::size_t count, Visitor& visit);

  const workload::KeySpace& keys_;
  const CellTapes& tapes_;
  const KeyCheck check_;
  std::vector<Thread> threads_;
};

class CeilingSubject final : public Subject {
 public:
  CeilingSubject(const Ceiling& ceiling, bool copies, const workload::KeySpace& keys, const CellTapes& tapes);
  std::string_view name() const override { return copies_ ? subject_copy : subject_two_lines; }
  Measured take(const TurnLength& length) override;
  ReplyErrors verify() override { return {}; }  // it gives no answers

 private:
  const Ceiling& ceiling_;
  const bool copies_;
  const CellTapes& tapes_;
  std::vector<std::vector<char>> out_;
};

}  // namespace tandem::bench
