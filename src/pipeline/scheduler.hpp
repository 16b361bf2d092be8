// One device's scheduler: a thread that, once a cycle, brings the replica up to date and launches a search of all
// batches that workers have submitted (periodic scheduling, Mega-KV 5). Departures: the CPU itself answers what is not
// worth a device's round trip, so a cycle without batches launches nothing; and inserts and deletes are executed by the
// host and reach the replica through its log (write protocol 6).
//
// Whatever happens to the device, every batch comes back: searched, refused, or (within the deadline) lost with the
// device. If this thread itself is stuck in a driver call, workers take their batches back.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/epoch.hpp"
#include "base/wakeup.hpp"
#include "device/device.hpp"
#include "frames/frames.hpp"
#include "observe/counters.hpp"
#include "pipeline/flight.hpp"
#include "pipeline/round_trip.hpp"
#include "pipeline/waiting.hpp"
#include "placement/device_side.hpp"
#include "placement/mirrored/rewrites.hpp"

namespace tandem {

// What SchedulerOptions::steer is told: totals since the start, and of the replica whether it is current, and whether
// it is that or rests as it was told to.
struct DeviceWork {
  std::uint64_t device_ns = 0, overflows = 0;  // of launches; of the log
  double round_trip_ns = 0;                    // of a launch with nothing to do; 0: not measured
  bool is_current = false, is_settled = false;
};
// Whether the replica is to be kept up, and when to ask again.
struct Steered {
  bool keeps_up = true;
  std::chrono::microseconds again_in{0};
};

struct SchedulerOptions {
  // Minimum time between two launches; 0: a launch follows when the previous one is done, or at once.
  std::chrono::microseconds cycle{0};
  // The device counts as lost if a launch, or a part of an upload, takes longer.
  std::chrono::milliseconds deadline{1000};
  unsigned launches_max = 2;  // in flight together
  // Processor that the thread is bound to, which other threads should leave idle; -1: any. With several devices, the
  // first one's; each next device uses the processor before.
  int processor = -1;
  // Smaller batches are answered by the host, with preset auto; 0: as measured, then each scheduler has a RoundTrip.
  std::uint32_t queries_min = 0;
  bool steal = false;  // workers keep a share of their batches when the device does not keep up (DeviceShare)
  // What the thread sleeps on, if it is also woken by events other than a submission; nullptr: its own.
  std::shared_ptr<WakeUp> wakeup = nullptr;
  // A replica for which the device had no memory, or with copies that failed, is retried after half a second, then
  // after twice that, and so on up to this.
  std::chrono::milliseconds start_again_max{60'000};
  // What the answers to frames depend on (frames.hpp), asked for at each launch; empty: no part asks for frames.
  std::function<FrameRules()> frame_rules = {};
  // Whether the replica rests; empty: it never does. Of the only device. Must not throw.
  std::function<Steered(const DeviceWork&, std::chrono::steady_clock::time_point)> steer = {};
  // Shared::rewrites, and the domain of its readers; nullptr: it stays as it is.
  std::atomic<Rewrites>* rewrites = nullptr;
  EpochDomain* epochs = nullptr;
  // Schedulers of one index without a replica; shared by all of them. While non-zero, no batch is offloaded, and the
  // other schedulers drop their replicas.
  std::shared_ptr<std::atomic<unsigned>> gone = std::make_shared<std::atomic<unsigned>>(0);
};

// Counted since the start. Thread safety: one scheduler adds, any thread reads.
struct SchedulerCounters {
  Counter launches, batches, queries;  // launched; of frames the keys that were answered
  Counter searched_batches;
  Counter refused_batches, failed_batches;
  Counter device_ns;  // of the launches: changes and search
  Counter rests;      // times that the replica was let rest
  Counter cycle_ns;   // from submission of a launch's first batch to its end, summed over launches
};

class Scheduler {
 public:
  // Starts the thread. All arguments outlive it. round_trip: periodically determines which batches are worth a launch;
  // nullptr: those with as many queries as the options say. Throws DeviceError.
  Scheduler(Device& device, DeviceSide& replica, const SchedulerOptions& options = {}, RoundTrip* round_trip = nullptr);
  ~Scheduler();  // REQUIRES: no batch is in flight. Waits for the driver, if the thread is blocked there
  // Ends the thread, as the destructor does first. False: it did not end within `limit`.
  [[nodiscard]] bool stop(std::chrono::milliseconds limit) noexcept;
  // The same without waiting, to end several schedulers together.
  void request_stop() noexcept;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  Device& device() noexcept { return device_; }
  bool steal() const noexcept { return options_.steal; }
  // The part of the index that is on the device.
  const Shard& shard() const noexcept { return replica_.shard(); }
  // Any thread: whether a batch that is submitted now will probably be searched.
  bool serves() const noexcept { return serves_.load(std::memory_order_relaxed) && !is_stuck(); }
  // Any thread: smaller batches are answered sooner by the host.
  std::uint32_t queries_min() const noexcept { return queries_min_.load(std::memory_order_relaxed); }
  // Maximum size of the items that launches return; 0: they return none.
  std::uint32_t image_granules() const noexcept { return replica_.image_granules(); }
  bool has_images() const noexcept { return replica_.has_images(); }
  // Any thread: submits the part of a batch, which is then the scheduler's until its state says otherwise.
  void submit(DevicePart& part) noexcept;

  // How long a worker waits for a batch before it takes it back: enough for the deadlines of two launches and of a
  // measurement in succession.
  std::chrono::milliseconds patience() const noexcept { return 4 * options_.deadline; }
  // Called by the batch's worker: from now on the device counts as lost, and the part is the worker's again.
  void take_back(DevicePart& part) noexcept;
  bool is_stuck() const noexcept { return stuck_.load(std::memory_order_acquire); }
  // Takes the part of a worker that ends. This thread frees its memory once it no longer references it, so that only
  // this thread waits if the driver blocks.
  void keep(std::unique_ptr<DevicePart> part) noexcept;

  // Called by a worker between two batches, under no stripe: drains the log when it fills faster than launches drain
  // it.
  void relieve() noexcept {
    if (TD_UNLIKELY(replica_.wants_relief())) replica_.relieve();
  }

  // Any thread: SchedulerOptions::cycle, from the next launch on.
  void set_cycle(std::chrono::microseconds cycle) noexcept {
    cycle_us_.store(cycle.count(), std::memory_order_relaxed);
  }

  const SchedulerCounters& counters() const noexcept { return counters_; }
  // Any thread: power draw of the device's board, a few seconds old at most; none: unknown.
  std::optional<std::uint32_t> power_mw() const noexcept {
    const std::uint32_t mw = power_mw_.load(std::memory_order_relaxed);
    return mw != 0 ? std::optional(mw) : std::nullopt;
  }
  // Any thread: the costs behind the threshold; zeros without a measurement.
  RoundTrip::Costs costs() const noexcept { return costs_.load(); }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Launch {
    DeviceMark from = 0, to = 0;
    ReplicaLaunch searched;
    TimePoint begun;  // when its first batch was submitted
    Waiting waiting;  // since it was launched and the previous one has ended
    std::vector<DevicePart*> batches;
  };

  void run() noexcept;
  void take_queue() noexcept;
  void launch() noexcept;
  bool launch_search(const ReplicaLaunch& launched, std::size_t count) noexcept;
  bool launch_frames(const ReplicaLaunch& launched, std::size_t count, FrameAnswers answers) noexcept;
  std::size_t count_to_launch() const noexcept;
  void land() noexcept;
  bool follow() noexcept;
  void go_with_others() noexcept;
  void obey() noexcept;
  std::chrono::milliseconds nap_most() const noexcept;
  void let_rest() noexcept;
  void wake_replica() noexcept;
  void settle_rewrites() noexcept;
  void watch_replica() noexcept;
  void measure() noexcept;
  bool is_measure_due() const noexcept;
  void ask_power() noexcept;
  bool can_launch() const noexcept;
  void release_kept() noexcept;
  static void give_back(DevicePart& part, DevicePart::State state) noexcept;
  std::size_t refuse_frames(std::size_t count, FrameAnswers answers) noexcept;
  void refuse_all() noexcept;

  Device& device_;
  DeviceSide& replica_;
  const SchedulerOptions options_;
  RoundTrip* const round_trip_;
  std::atomic<DevicePart*> queue_{nullptr};  // newest first
  std::vector<DevicePart*> ready_;
  ReplicaState state_ = ReplicaState::absent;
  bool is_gone_ = false;                     // it lost its replica by itself, and is counted in options_.gone
  bool waits_for_others_ = false;            // it dropped its replica because another scheduler has none
  bool rests_ = false;                       // as steer() said
  std::optional<std::uint64_t> rest_stamp_;  // of batches that may have answers of the replica, while it rests
  std::chrono::microseconds steer_every_{0};
  TimePoint steer_after_{}, start_again_after_{}, current_since_{};
  std::chrono::milliseconds start_pause_;
  TimePoint ready_since_{}, last_launch_{}, last_work_{}, measure_after_{};
  DeviceMark replica_waits_for_ = 0;
  Waiting replica_waiting_;
  std::deque<Launch> launches_;
  DeviceArray<FrameCursors> frame_cursors_;
  std::vector<Launch> spare_;
  SchedulerCounters counters_;
  // The values may be of two measurements.
  struct SharedCosts {
    std::atomic<double> device_ns{0}, device_query_ns{0}, host_query_ns{0};
    RoundTrip::Costs load() const noexcept {
      return {device_ns.load(std::memory_order_relaxed), device_query_ns.load(std::memory_order_relaxed),
              host_query_ns.load(std::memory_order_relaxed)};
    }
    void store(const RoundTrip::Costs& c) noexcept {
      device_ns.store(c.device_ns, std::memory_order_relaxed);
      device_query_ns.store(c.device_query_ns, std::memory_order_relaxed);
      host_query_ns.store(c.host_query_ns, std::memory_order_relaxed);
    }
  };
  SharedCosts costs_;
  std::atomic<std::int64_t> cycle_us_;
  std::atomic<std::uint32_t> queries_min_;
  std::atomic<std::uint32_t> power_mw_{0};  // 0: unknown. Asked by this thread, since the driver may block
  TimePoint ask_power_after_{};
  std::atomic<bool> serves_{false}, stopping_{false}, sleeps_{false}, stuck_{false}, ended_{false};
  std::mutex kept_mutex_;
  std::unique_ptr<DevicePart> kept_;  // a list
  std::atomic<bool> keeps_{false};
  const std::shared_ptr<WakeUp> wakeup_;
  std::thread thread_;
};

}  // namespace tandem
