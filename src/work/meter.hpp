// What a thread measures of its own work (docs/monitoring.md): the cycles of the tasks outside the lane (RV, SD) and of
// PP, latencies of commands, and the most requested keys. One pass in Sampler::mean is sampled: its tasks are timed.
//
// Thread safety: the thread of the work, except for latency() and hot_keys(): any thread may read their results.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/key_sample.hpp"
#include "base/platform.hpp"
#include "base/ticks.hpp"
#include "observe/hot_keys.hpp"
#include "observe/latency.hpp"
#include "plan/task.hpp"
#include "task/context.hpp"
#include "work/intake.hpp"

namespace tandem {

class Meter {
 public:
  // The context outlives the meter. has_hot_keys: the keys are sampled, too.
  Meter(Context& context, bool has_hot_keys);

  void begin_pass() noexcept {
    sampled_ = sampler_.next();
    if (TD_UNLIKELY(sampled_)) begin_sample();
  }
  void end_pass() noexcept {
    if (TD_UNLIKELY(sampled_)) end_sample();
    parsed_ = answered_ = 0;
  }
  bool sampled() const noexcept { return sampled_; }

  // Queries of this pass.
  void parsed(std::uint64_t queries) noexcept { parsed_ += queries; }
  void answered(std::uint64_t queries) noexcept { answered_ += queries; }

  // Adds the cycles of its life to the task's counter, in a sampled pass.
  class Timed {
   public:
    Timed(Meter& meter, Task task) noexcept {
      if (TD_LIKELY(!meter.sampled_)) return;
      counter_ = &meter.context_.tasks.cycles[index_of(task)];
      begin_ = cycles_now();
    }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;
    ~Timed() {
      if (TD_UNLIKELY(counter_ != nullptr)) counter_->add(cycles_now() - begin_);
    }

   private:
    Counter* counter_ = nullptr;
    std::uint64_t begin_ = 0;
  };

  // The intake's commands are answered: records their latencies, if it is sampled or slow. Restarts its clock.
  void record(Intake& in) noexcept;
  // Where keys are put for record_keys(); nullptr: the intake's keys are not sampled. They are views of its input.
  KeySample* keys_of(const Intake& in) noexcept {
    return TD_UNLIKELY(in.sampled) && hot_keys_ != nullptr ? &lane_keys_ : nullptr;
  }
  // Records some of them. REQUIRES: their bytes are there, i.e. no reply was sent (its connection may be closed then)
  // and no rest was kept.
  void record_keys() noexcept {
    if (TD_UNLIKELY(!lane_keys_.keys().empty())) draw_keys();
  }

  const LatencyCounters& latency() const noexcept { return latency_; }
  HotKeyCounter* hot_keys() const noexcept { return hot_keys_.get(); }  // nullptr: turned off

 private:
  void draw_keys() noexcept;
  void begin_sample() noexcept;
  void end_sample() noexcept;
  bool is_slow(const Intake& in, std::uint64_t now) const noexcept { return in.ticks_until(now) > slow_ticks_; }

  Context& context_;
  const std::uint64_t slow_ticks_;
  bool sampled_ = false;
  Sampler sampler_{static_cast<std::uint32_t>(cycles_now() >> 4)};  // of passes
  std::uint64_t parsed_ = 0, answered_ = 0;
  std::array<std::uint64_t, task_count> cycles_before_{};  // of a sampled pass
  std::uint64_t parsed_before_ = 0;                        // the same: queries of PP
  KeySample lane_keys_;
  LatencyCounters latency_;
  std::unique_ptr<HotKeyCounter> hot_keys_;
};

}  // namespace tandem
