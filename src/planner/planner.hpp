// Which processor runs which task of a batch.
//
// Thread safety: any thread; one that has joined a steering, its own thread alone.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "pipeline/schedulers.hpp"
#include "placement/index_placement.hpp"
#include "plan/placement.hpp"
#include "planner/steering.hpp"
#include "preset/preset.hpp"

namespace tandem {

// The present placement: an index on devices is rebuilt on the host when one is lost. schedulers: of the devices;
// nullptr: there are none.
inline Placement placement_of(const Schedulers* schedulers, const IndexPlacement& placement) noexcept {
  if (placement.wants_search()) return Placement::on_device;
  if (schedulers == nullptr) return Placement::host;
  return schedulers->image_granules() != 0 ? Placement::mirrored_values : Placement::mirrored;
}

// A constant plan for each preset, or one plan for all batches; or, beside a steering, what its controller has chosen.
class Planner {
 public:
  // schedulers: of the devices; nullptr: there are none. They and the placement outlive the planner.
  Planner(Preset preset, const Schedulers* schedulers, const IndexPlacement& placement) noexcept
      : schedulers_(row_of(preset).offload == Offload::never ? nullptr : schedulers),
        placement_(placement),
        offload_(row_of(preset).offload),
        index_on_device_(row_of(preset).index_on_device()) {}
  // Throws std::invalid_argument: the plan is not feasible with the present placement.
  Planner(const Plan& plan, const Schedulers* schedulers, const IndexPlacement& placement)
      : schedulers_(plan.uses(Processor::device) ? schedulers : nullptr),
        placement_(placement),
        offload_(Offload::always),
        index_on_device_(placement.wants_search()),
        given_(plan) {
    require_feasible(placement_of(schedulers, placement), plan);
  }

  bool uses_device() const noexcept { return schedulers_ != nullptr; }
  // For a caller that turns out to have no access to devices.
  void leave_devices() noexcept { schedulers_ = nullptr; }

  // Whether it has joined one.
  bool is_steered() const noexcept { return board_ != nullptr; }
  // From now on the plan is chosen by what this thread and others report; not if the preset, or a given plan, leaves
  // nothing to choose. nullptr: there is no steering. Throws std::bad_alloc.
  void join(Steering* steering) {
    if (steering == nullptr || offload_ != Offload::when_sooner || given_) return;
    steering_ = steering;
    board_ = steering->join();
  }
  // Totals of a thread since its start. bytes: of requests and replies.
  struct Work {
    std::uint64_t queries = 0, sets = 0, bytes = 0;
  };
  static Work work_of(const StoreCounters& c, std::uint64_t bytes) noexcept {
    const std::uint64_t changes = c.cmd_set.get() + c.delete_hits.get() + c.incr_hits.get() + c.decr_hits.get();
    const std::uint64_t misses = c.delete_misses.get() + c.incr_misses.get() + c.decr_misses.get();
    return {c.cmd_get.get() + c.cmd_touch.get() + changes + misses, changes, bytes};
  }
  // Work begins: plans are those of the present choice. ticks: cycles_now(). REQUIRES: is_steered().
  void begin(std::uint64_t ticks) noexcept {
    option_ = steering_->option_of(board_->number);
    // A thread does not sleep for so short a time, and what it waits for a device is a cost of that plan.
    constexpr std::uint64_t short_ticks = 10'000;
    begun_ = waits_ || ticks - ended_ < short_ticks ? ended_ : ticks;
  }
  // That has been done since the beginning, or since the last call. waits: a device has batches of this thread.
  // REQUIRES: is_steered().
  void end(std::uint64_t ticks, const Work& work, bool waits) noexcept {
    const std::uint64_t bytes = std::max(work.bytes, work_.bytes);  // requests may be in flight that were waiting
    if (TD_LIKELY(reports_)) {
      board_->queries[option_].add(work.queries - work_.queries);
      board_->ticks[option_].add(ticks > begun_ ? ticks - begun_ : 0);
      board_->sets.add(work.sets - work_.sets);
      board_->bytes.add(bytes - work_.bytes);
    }
    work_ = {work.queries, work.sets, bytes};
    waits_ = waits;
    begun_ = ended_ = ticks;
  }

  // Until the next begin() this thread does nothing, and no device has anything of it. What it has done since end() is
  // not reported.
  void pause(const Work& work) noexcept {
    work_ = work;
    waits_ = false;
  }

  // False: what is done from now on is no load that comes again.
  void set_reports(bool reports) noexcept { reports_ = reports; }

  // For a batch of `queries` queries.
  const Plan& plan_for(std::uint32_t queries) const noexcept {
    if (schedulers_ == nullptr || queries == 0) return plan_cpu;
    if (placement_.wants_search()) return given_ ? *given_ : feasible_plans(Placement::on_device).front();
    if (index_on_device_ || !schedulers_->serves()) return plan_cpu;
    if (given_) return *given_;
    if (board_ != nullptr) {
      if (option_ != Steering::device || queries < steering_->queries_min()) return plan_cpu;
    } else if (offload_ == Offload::when_sooner && queries < schedulers_->queries_min()) {
      return plan_cpu;
    }
    // A device may have had no memory for images.
    const bool has_images = schedulers_->image_granules() != 0 && schedulers_->has_images();
    return feasible_plans(has_images ? Placement::mirrored_values : Placement::mirrored).front();
  }

 private:
  const Schedulers* schedulers_;
  const IndexPlacement& placement_;
  Offload offload_;
  bool index_on_device_;  // at the start; when a device is lost, the host takes the index back for good
  std::optional<Plan> given_;
  Steering* steering_ = nullptr;
  std::shared_ptr<PlanBoard> board_;
  std::uint8_t option_ = Steering::host_beside;
  Work work_{};
  std::uint64_t begun_ = 0, ended_ = 0;
  bool waits_ = false, reports_ = true;
};

}  // namespace tandem
