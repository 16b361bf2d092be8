// One device's scheduler: a thread that, once a cycle, brings the replica up to date and launches a search of all
// batches that workers have handed over (periodic scheduling, Mega-KV 5). Departures: the CPU answers by itself what is
// not worth a device's round trip, so a cycle without batches launches nothing; and inserts and deletes are the host's,
// of which the replica's log tells (write protocol 6).
//
// Whatever happens to the device, every batch comes back: searched, refused, or (within the deadline) lost with the
// device. If this thread itself is stuck, since a call to the driver does not return, workers take their batches back.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/wakeup.hpp"
#include "device/device.hpp"
#include "observe/counters.hpp"
#include "pipeline/flight.hpp"
#include "pipeline/round_trip.hpp"
#include "pipeline/waiting.hpp"
#include "placement/device_side.hpp"

namespace tandem {

struct SchedulerOptions {
  // Between two launches at least; 0: a launch follows when the one before is done, or at once.
  std::chrono::microseconds cycle{0};
  // A launch, or a part of an upload, that takes longer means that the device is lost.
  std::chrono::milliseconds deadline{1000};
  unsigned launches_max = 2;  // under way together
  // That the thread runs on, where others do not keep it waiting; -1: any. Of several devices the first one's; each
  // next one has the processor before.
  int processor = -1;
  // Batches with fewer queries are the host's, with preset auto; 0: as measured, then each scheduler has a RoundTrip.
  std::uint32_t queries_min = 0;
  bool steal = false;  // workers keep a share of their batches when the device does not keep up (DeviceShare)
  // What the thread sleeps on, if others than who hands over batches wake it; nullptr: its own.
  std::shared_ptr<WakeUp> wakeup = nullptr;
  // A replica for which the device had no memory, or whose copies failed, is tried again after half a second, then
  // after twice that, and so on up to this.
  std::chrono::milliseconds start_again_max{60'000};
  // How many of the schedulers of one index, which share this, have no replica. While there are any nobody asks the
  // others, and they do without theirs.
  std::shared_ptr<std::atomic<unsigned>> gone = std::make_shared<std::atomic<unsigned>>(0);
};

// Counted since the start. Thread safety: one scheduler adds, anybody reads.
struct SchedulerCounters {
  Counter launches, batches, queries;  // launched
  Counter searched_batches;
  Counter refused_batches, failed_batches;
  Counter device_ns;  // of the launches: changes and search
  Counter cycle_ns;   // from hand-over of a launch's first batch to its end, summed over launches
};

class Scheduler {
 public:
  // Starts the thread. All of them outlive it. round_trip: says now and then which batches are worth a launch; nullptr:
  // all are that have as many queries as the options say. Throws DeviceError.
  Scheduler(Device& device, DeviceSide& replica, const SchedulerOptions& options = {}, RoundTrip* round_trip = nullptr);
  ~Scheduler();  // REQUIRES: no batch is in flight. Waits for the driver, if the thread is stuck there
  // Ends the thread, the first part of the destructor. False: it did not end within `limit`.
  [[nodiscard]] bool stop(std::chrono::milliseconds limit) noexcept;
  // The same without waiting, for who has several to end.
  void request_stop() noexcept;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  Device& device() noexcept { return device_; }
  bool steal() const noexcept { return options_.steal; }
  // Of the index that the device has.
  const Shard& shard() const noexcept { return replica_.shard(); }
  // Any thread: whether a batch that is handed over now has a good chance to be searched.
  bool serves() const noexcept { return serves_.load(std::memory_order_relaxed) && !is_stuck(); }
  // Any thread: a batch with fewer queries is answered sooner by the host.
  std::uint32_t queries_min() const noexcept { return queries_min_.load(std::memory_order_relaxed); }
  // Of the items that launches return, at most; 0: they return none.
  std::uint32_t image_granules() const noexcept { return replica_.image_granules(); }
  // Any thread: takes the part of a batch, which then is the scheduler's until its state says otherwise.
  void submit(DevicePart& part) noexcept;

  // How long a worker waits for a batch before it takes it back: so long that the deadlines of two launches and of a
  // measurement may pass one after the other.
  std::chrono::milliseconds patience() const noexcept { return 4 * options_.deadline; }
  // The batch's worker: from now on the device counts as lost, and the part is the worker's again.
  void take_back(DevicePart& part) noexcept;
  bool is_stuck() const noexcept { return stuck_.load(std::memory_order_acquire); }
  // A part whose worker goes: its memory is given back by this thread, when it has nothing of it in hand any more. If
  // the driver does not return from that, nobody else waits for it.
  void keep(std::unique_ptr<DevicePart> part) noexcept;

  // A worker between two batches, under no stripe: drains the log when it fills faster than launches do it.
  void relieve() noexcept {
    if (TD_UNLIKELY(replica_.wants_relief())) replica_.relieve();
  }

  // Any thread: SchedulerOptions::cycle, from the next launch on.
  void set_cycle(std::chrono::microseconds cycle) noexcept {
    cycle_us_.store(cycle.count(), std::memory_order_relaxed);
  }

  const SchedulerCounters& counters() const noexcept { return counters_; }
  // Any thread: what the device's board draws, as of a few seconds ago; none: not known.
  std::optional<std::uint32_t> power_mw() const noexcept {
    const std::uint32_t mw = power_mw_.load(std::memory_order_relaxed);
    return mw != 0 ? std::optional(mw) : std::nullopt;
  }
  // Any thread: what the threshold comes from; zeros without a measurement.
  RoundTrip::Costs costs() const noexcept { return costs_.load(); }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Launch {
    DeviceMark from = 0, to = 0;
    ReplicaLaunch searched;
    TimePoint begun;  // its first batch was handed over
    Waiting waiting;  // since it was launched, and the one before it has ended
    std::vector<DevicePart*> batches;
  };

  void run() noexcept;
  void take_queue() noexcept;
  void launch() noexcept;
  void land() noexcept;
  bool follow() noexcept;
  void go_with_others() noexcept;
  void watch_replica() noexcept;
  void measure() noexcept;
  bool is_measure_due() const noexcept;
  void ask_power() noexcept;
  bool can_launch() const noexcept;
  void release_kept() noexcept;
  static void give_back(DevicePart& part, DevicePart::State state) noexcept;
  void refuse_all() noexcept;

  Device& device_;
  DeviceSide& replica_;
  const SchedulerOptions options_;
  RoundTrip* const round_trip_;
  std::atomic<DevicePart*> queue_{nullptr};  // last handed over first
  std::vector<DevicePart*> ready_;
  ReplicaState state_ = ReplicaState::absent;
  bool is_gone_ = false;           // it has no replica of itself, and counts among options_.gone
  bool waits_for_others_ = false;  // it has none because of others
  TimePoint start_again_after_{}, current_since_{};
  std::chrono::milliseconds start_pause_;
  TimePoint ready_since_{}, last_launch_{}, last_work_{}, measure_after_{};
  DeviceMark replica_waits_for_ = 0;
  Waiting replica_waiting_;
  std::deque<Launch> launches_;
  std::vector<Launch> spare_;
  SchedulerCounters counters_;
  // A number may be of the measurement before.
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
  std::atomic<std::uint32_t> power_mw_{
      0};  // 0: not known. The driver is asked by this thread, which may get stuck there
  TimePoint ask_power_after_{};
  std::atomic<bool> serves_{false}, stopping_{false}, sleeps_{false}, stuck_{false}, ended_{false};
  std::mutex kept_mutex_;
  std::unique_ptr<DevicePart> kept_;  // a list
  std::atomic<bool> keeps_{false};
  const std::shared_ptr<WakeUp> wakeup_;
  std::thread thread_;
};

}  // namespace tandem
