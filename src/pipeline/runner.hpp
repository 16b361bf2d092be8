// A worker's runner: carries flights through the stages of their plans. Several are in flight together, filled,
// searched by devices and answered in turn, so that neither host nor devices wait for the other (Mega-KV 7.1: three
// buffers). Queries stay in place from PP to WR. The server's workers, the embedded store's sessions and the benchmark
// all run their batches with one.
//
// The host's stages are the lane's. MM, which precedes a device's search in a plan's text, runs with them: no task
// needs a slot before Insert.
//
// Thread safety: one thread at a time.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "frames/frame_runs.hpp"
#include "frames/located_keys.hpp"
#include "pipeline/device_share.hpp"
#include "pipeline/flight.hpp"
#include "pipeline/schedulers.hpp"
#include "plan/plan.hpp"

namespace tandem {

class Runner final : public InFlight {
 public:
  static constexpr unsigned flights_default = 3;  // beside devices; of the host alone there is one
  // Whether devices may begin with batches' input (begins_with_input()), for which these have columns if there is one
  // device.
  enum class Frames : std::uint8_t { no, yes };

  // Flights of `capacity` queries and `input_bytes` of input each. schedulers: of the devices; nullptr: there are none.
  // The context calls it when epochs must end. Throws DeviceError (no memory that a device can read),
  // std::runtime_error (no place among the epochs).
  Runner(Context& context, const Schedulers* schedulers, std::uint32_t capacity, std::uint64_t input_bytes = 0,
         Frames frames = Frames::no, unsigned flights = flights_default);
  // After how long with devices flights leave their epochs, so that memory can be reclaimed, and are the host's. For
  // tests on a busy machine, which wait for the devices' answers however late they are.
  void set_patience(std::chrono::milliseconds patience) noexcept { patience_ = patience; }
  ~Runner() override;  // waits for what is in flight, without answering it

  bool has_devices() const noexcept { return schedulers_.has_value(); }
  unsigned count() const noexcept { return static_cast<unsigned>(flights_.size()); }
  unsigned in_flight() const noexcept { return in_flight_; }
  // Whether a flight is free; number and batch of the next one to fill. REQUIRES: can_fill().
  bool can_fill() const noexcept { return in_flight_ < count(); }
  unsigned next() const noexcept { return (oldest_ + in_flight_) % count(); }
  Batch& filling() noexcept { return flights_[next()]->batch(); }

  // Whether devices would run their stages of this plan now. False: the host runs all of it, or waits for them.
  bool can_begin(const Plan& plan) const noexcept {
    return has_devices() && plan.uses(Processor::device) && schedulers_->serves();
  }
  // The requests of the next flight's input that a device may answer whole, or of which it may locate the keys;
  // nullptr: there are none with this plan.
  FrameColumns* frames_to_fill(const Plan& plan) noexcept {
    return can_begin(plan) ? frames_for(plan, next()) : nullptr;
  }
  // Whether there would be such requests if devices served. False: with this plan they search for queries at most.
  bool has_frames(const Plan& plan) noexcept { return frames_for(plan, 0) != nullptr; }
  // Submits them, for a batch without queries: what is left of the input is parsed when begin_answer() has returned the
  // batch. cas: replies tell CAS ids. REQUIRES: frames_to_fill() of the plan are not empty.
  void submit_frames(const Plan& plan, bool cas) noexcept;
  // Submits the filled batch: the devices' stages begin, except for the share that the host keeps (Scheduler::steal()).
  // Its keys and values must stay in place until it is answered. REQUIRES: can_fill(); the plan is feasible with the
  // store's placement.
  void submit(const Plan& plan) noexcept;

  // Number of the flight that was submitted first. REQUIRES: in_flight() != 0.
  unsigned oldest() const noexcept { return oldest_; }
  // Polls the oldest. Repeated calls always complete it: searched, or unsearched after several times the scheduler's
  // deadline.
  bool oldest_is_done() noexcept { return look_at(*flights_[oldest_]); }
  // Polls until the oldest is done, or was submitted longer than `age_max` ago. REQUIRES: in_flight() != 0.
  bool wait_for_oldest(std::chrono::microseconds age_max) noexcept;
  // The oldest batch, whose remaining stages, or all of them, are the host's. Waits for the
  // devices, at most until the schedulers' deadline. REQUIRES: in_flight() != 0.
  Batch& begin_answer();
  // Of the oldest, between begin_answer() and end_answer(): whether a device has answered requests of its input, or has
  // located their keys.
  bool begin_frames() noexcept;
  bool begin_located() noexcept;
  // What the device has answered then, for the lane, in each of its runs; nullptr: nothing or, as the epoch has ended
  // that protects the items it has read, nothing any more.
  FrameRuns* runs() noexcept { return TD_UNLIKELY(has_runs_) && flights_[oldest_]->holds_epoch() ? &*runs_ : nullptr; }
  LocatedKeys* located() noexcept {
    return TD_UNLIKELY(located_.has_value()) && flights_[oldest_]->holds_epoch() ? &*located_ : nullptr;
  }
  // Takes the run that begins at `at`, of the datagram or raw frames that end at `end`; marks what it has read, and
  // counts it. REQUIRES: as FrameRuns::find().
  bool take_frames(std::uint64_t at, std::uint64_t end, FrameRun& run) noexcept {
    return at < end && runs() != nullptr && take(runs_->find(arena() + at), run);
  }
  // The same for a run that is all of [at, end), as of most streams. False: there is none, and nothing has changed.
  bool take_whole_frames(std::uint64_t at, std::uint64_t end, FrameRun& run) noexcept {
    return runs() != nullptr && take(runs_->find_whole(arena() + at, arena() + end), run);
  }
  const char* reply(const FrameRun& run) const noexcept { return flights_[oldest_]->frames()->reply(run); }
  // Nothing but replies that are still to be sent needs the device's answers any more, or they are not used, were
  // refused or came late: ends their epoch. Does nothing outside begin_answer() and end_answer().
  void end_answers() noexcept {
    if (!is_answering_) return;
    located_.reset();
    flights_[oldest_]->let_go();
  }
  // That batch is answered: frees its flight.
  void end_answer() noexcept;
  // Called between two batches: drains the replicas' logs if needed.
  void relieve() const noexcept {
    if (TD_UNLIKELY(has_devices())) schedulers_->relieve();
  }

  void let_go() noexcept override;

 private:
  FrameColumns* frames_for(const Plan& plan, unsigned flight) noexcept {
    const bool has_frames = locates_keys(plan) ? may_locate_ : begins_with_input(plan);
    return has_frames ? flights_[flight]->frames() : nullptr;
  }
  void add_frames(DevicePart& part, std::uint32_t capacity, std::uint64_t input_bytes);
  bool look_at(Flight& flight) noexcept;
  void give_way() noexcept;
  void count_left(const FrameColumns& frames) noexcept;
  void count_taken(const FrameCounts& taken) noexcept;
  bool take(bool is_found, FrameRun& run) noexcept;
  const char* arena() noexcept { return flights_[oldest_]->batch().input().begin(); }
  Plan plan_to_begin(const Plan& plan, std::uint32_t queries) noexcept;

  Context& context_;
  const std::optional<Schedulers> schedulers_;
  std::vector<std::unique_ptr<Flight>> flights_;
  unsigned oldest_ = 0, in_flight_ = 0;
  bool waited_ = false;                 // for the devices, with the oldest
  std::uint64_t gave_way_ = 0;          // ticks
  bool is_answering_ = false;           // the oldest
  std::optional<FrameRuns> runs_;       // there are none without columns for replies
  bool has_runs_ = false;               // of the oldest
  std::optional<LocatedKeys> located_;  // of the oldest
  const bool may_locate_;               // the lane takes candidates for keys of this index
  DeviceShare share_;
  std::chrono::milliseconds patience_{10};
};

}  // namespace tandem
