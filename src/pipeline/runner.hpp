// A worker's runner: carries flights through the stages of their plans. Several are in flight together, filled,
// searched by devices and answered in turn, so that neither host nor devices wait for the other (Mega-KV 7.1: three
// buffers). Queries stay where they are from PP to WR. The server's workers, the embedded store's sessions and the
// benchmark all run their batches with one.
//
// Stages of the host follow each other strip by strip (Executor); MM, which comes before a device's search in a plan's
// text, runs with them: nothing needs a slot before Insert.
//
// Thread safety: one thread at a time.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "pipeline/device_share.hpp"
#include "pipeline/executor.hpp"
#include "pipeline/flight.hpp"
#include "pipeline/schedulers.hpp"
#include "plan/plan.hpp"
#include "task/parse.hpp"

namespace tandem {

class Runner final : public InFlight {
 public:
  static constexpr unsigned flights_default = 3;  // beside devices; of the host alone there is one

  // Flights of `capacity` queries and `input_bytes` of input each. schedulers: of the devices; nullptr: there are none.
  // The context tells it when epochs must end. Throws DeviceError (no memory that a device can read),
  // std::runtime_error (no place among the epochs).
  Runner(Context& context, const Schedulers* schedulers, std::uint32_t capacity, std::uint64_t input_bytes = 0,
         unsigned flights = flights_default);
  ~Runner() override;  // what is in flight is waited for, and not answered

  bool has_devices() const noexcept { return schedulers_.has_value(); }
  unsigned count() const noexcept { return static_cast<unsigned>(flights_.size()); }
  unsigned in_flight() const noexcept { return in_flight_; }
  // Whether one is free; the number and the batch of the one to fill next. REQUIRES: can_fill().
  bool can_fill() const noexcept { return in_flight_ < count(); }
  unsigned next() const noexcept { return (oldest_ + in_flight_) % count(); }
  Batch& filling() noexcept { return flights_[next()]->batch(); }

  // Whether devices would run their stages of this plan now. False: all of it is the host's, or waits for them.
  bool can_begin(const Plan& plan) const noexcept {
    return has_devices() && plan.uses(Processor::device) && schedulers_->serves();
  }
  // The batch that was filled is on its way: the stages of devices begin, but for the share of it that the host keeps
  // (Scheduler::steal()). Its keys and values stay as they are until it is answered. REQUIRES: can_fill(); the plan is
  // feasible with the store's placement.
  void submit(const Plan& plan) noexcept;

  // Number of the one that was submitted first. REQUIRES: in_flight() != 0.
  unsigned oldest() const noexcept { return oldest_; }
  // A look at the oldest. Who keeps looking gets it: searched, or after some times the scheduler's deadline without.
  bool oldest_is_done() noexcept { return look_at(*flights_[oldest_]); }
  // Looks until the oldest is done, or until it was submitted so long ago. REQUIRES: in_flight() != 0.
  bool wait_for_oldest(std::chrono::microseconds age_max) noexcept;
  // The oldest batch, for run(): what is left of its stages, or all of them if devices did not run theirs. Waits for
  // the devices, at most until the schedulers' deadline. REQUIRES: in_flight() != 0.
  Batch& begin_answer();
  // That batch is answered: its place is free.
  void end_answer() noexcept;
  // Both, and run() between them.
  void answer_oldest(ResponseWriter& writer);

  // PP of what came for a batch, of a flight or not (task::parse()).
  task::Parsed parse(Batch& batch, const task::Received& received, bool timed) {
    return task::parse(context_.tasks, batch, received, timed);
  }
  // Runs the host's stages of a batch, of a flight or not, and has its queries answered.
  void run(Batch& batch, ResponseWriter& writer) { executor_.run(batch, writer); }
  // Between two batches: lends the devices a hand.
  void relieve() const noexcept {
    if (TD_UNLIKELY(has_devices())) schedulers_->relieve();
  }

  void let_go() noexcept override;

 private:
  bool look_at(Flight& flight) noexcept;
  Plan plan_to_begin(const Plan& plan, std::uint32_t queries) noexcept;

  Context& context_;
  Executor executor_;
  const std::optional<Schedulers> schedulers_;
  std::vector<std::unique_ptr<Flight>> flights_;
  unsigned oldest_ = 0, in_flight_ = 0;
  bool waited_ = false;  // for the devices, with the oldest
  DeviceShare share_;
};

}  // namespace tandem
