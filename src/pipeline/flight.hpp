// A batch in the stages of its plan (DIDO III-A), some of which run on devices while its worker does other work.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "frames/frame_columns.hpp"
#include "index/shard.hpp"
#include "pipeline/waiting.hpp"
#include "placement/mirrored/replica_log.hpp"
#include "placement/offload_index.hpp"
#include "plan/plan.hpp"
#include "query/batch.hpp"
#include "task/context.hpp"

namespace tandem {

// The part of a batch that one device searches: all of it, or the keys of its shard. Owned by the worker (`filling`,
// `done`, `refused`, `lost`) or by the scheduler (`queued`, `running`).
class DevicePart {
 public:
  enum class State : std::uint8_t {
    filling,
    queued,
    running,
    done,     // the columns hold the results of launch `launch_`
    refused,  // no launch took it, or its launch failed and has ended: the host searches
    lost,     // the device is lost, and may still write to the columns
  };

  // Columns of `capacity` queries in pinned memory. input_bytes: with an arena of that size for the batch's input; 0:
  // without. Throws DeviceError.
  DevicePart(Device& device, std::uint32_t capacity, std::uint64_t input_bytes = 0)
      : fingerprints_(device, capacity), locations_(device, capacity), input_(device, input_bytes) {}
  // Adds the columns of frames (FrameColumns()) for its input, if there is room for them. REQUIRES: made with an input.
  // Throws DeviceError: the device is lost.
  void add_frames(Device& device, std::uint32_t keys, std::uint64_t reply_bytes) {
    try {
      frames_.emplace(device, input_.count(), keys, reply_bytes);
    } catch (const DeviceError& e) {
      if (e.status() == DeviceStatus::lost) throw;
    }
  }
  DevicePart(const DevicePart&) = delete;
  DevicePart& operator=(const DevicePart&) = delete;

  State state() const noexcept { return state_.load(std::memory_order_acquire); }
  bool is_with_scheduler() const noexcept {
    const State s = state();
    return s == State::queued || s == State::running;
  }
  bool has_queries() const noexcept { return query_count_.load(std::memory_order_relaxed) != 0; }

 private:
  friend class Scheduler;
  friend class Flight;

  bool asks_for(FrameAnswers answers) const noexcept {
    return asks_frames_.load(std::memory_order_relaxed) && answers_.load(std::memory_order_relaxed) == answers;
  }

  PinnedArray<Fingerprint> fingerprints_;
  PinnedArray<Location> locations_;
  PinnedArray<char> input_;
  std::optional<FrameColumns> frames_;
  std::atomic<State> state_{State::filling};
  // The scheduler may read the count even after the part was taken back; it reports the number of the launch that
  // searched.
  std::atomic<std::uint32_t> query_count_{0}, launch_{0};
  std::atomic<bool> whole_{false};
  std::atomic<bool> asks_frames_{false};  // not queries: of its input
  std::atomic<FrameAnswers> answers_{FrameAnswers::replies};
  std::atomic<bool> cas_{true};            // FramePart::cas
  DevicePart* next_ = nullptr;             // in the scheduler's queue
  std::unique_ptr<DevicePart> next_kept_;  // list of parts kept for workers that have ended
};

class Schedulers;

// Thread safety: the worker's thread.
class Flight {
 public:
  enum class State : std::uint8_t {
    filling,    // its worker receives and parses into the batch
    searching,  // devices run their stages. It holds an epoch from before their launches until it is answered, so that
                // their results can be followed (write protocol, idea 5)
    let_go,     // the same, but its epoch was left: the results are discarded
    found,      // devices are done: the batch's columns hold their results
    host,       // the rest, or all of it, is left to the host
  };

  // With one device the part's columns are the batch's; with several it has its own, where the parts' results are
  // collected. The input is in the first part, if it has room for it. Without parts the batch has its
  // own arena of `input_bytes`, and the host runs every stage. Throws std::runtime_error (no place among the epochs),
  // std::bad_alloc. REQUIRES: a power of two of parts, at most shards_max, or none.
  Flight(EpochDomain& epochs, std::vector<std::unique_ptr<DevicePart>> parts, std::uint32_t capacity,
         std::uint64_t input_bytes = 0);
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  Batch& batch() noexcept { return batch_; }
  State state() const noexcept { return state_; }
  // Requests of its input that a device may answer whole, to be filled before begin_frames() and read after land();
  // nullptr: it has no columns for them.
  FrameColumns* frames() noexcept { return parts_.size() == 1 && parts_[0]->frames_ ? &*parts_[0]->frames_ : nullptr; }
  // False: its devices are lost, or it has none.
  bool has_devices() const noexcept { return !parts_.empty(); }

  // Fills the column that devices read, fingerprints, for the front of the batch that its plan gives to them.
  void describe(std::uint64_t hash_seed) noexcept;
  // filling -> searching: submits that front to the schedulers. REQUIRES: has_devices(); the plan has devices search;
  // the queries are described.
  void begin(const Schedulers& schedulers) noexcept;
  // filling -> searching: submits its frames. The batch has no queries yet. cas: replies tell CAS ids. REQUIRES:
  // frames().
  void begin_frames(const Schedulers& schedulers, FrameAnswers answers, bool cas) noexcept;
  // Whether the device has given these answers to the frames. REQUIRES: it has landed.
  bool has_frames(FrameAnswers answers) const noexcept {
    return has_frames_ && parts_[0]->answers_.load(std::memory_order_relaxed) == answers;
  }
  // The launch that did.
  bool is_final_miss(const FollowedIndex& index, Fingerprint f) const noexcept {
    const DevicePart& part = *parts_[0];
    return final_miss(index, f, part.launch_.load(std::memory_order_relaxed),
                      part.whole_.load(std::memory_order_relaxed));
  }
  // filling -> host, with the host's plan.
  void stay_here() noexcept;
  // Polls the devices. True: they have no part of it any more. Repeated calls always get there: schedulers that are
  // late count as stuck, and their part is taken back.
  bool look(const Schedulers& schedulers) noexcept;
  // Time since begin().
  std::chrono::steady_clock::duration age() const noexcept { return std::chrono::steady_clock::now() - waiting_.since; }
  // searching -> found, or host when a device failed to search; let_go -> host. REQUIRES: look() was true.
  void land();
  // Ends the epoch for the benefit of threads that wait for epochs: searching -> let_go; found -> host.
  void let_go() noexcept;
  // Whether its results can still be followed.
  bool holds_epoch() const noexcept { return epoch_ && epoch_->active(); }
  // found, host -> filling: the batch is answered.
  void end() noexcept;

  // Passes on the memory that devices know, to be released by their schedulers. REQUIRES: filling; the flight is not
  // used any more.
  std::vector<std::unique_ptr<DevicePart>> take_parts() noexcept;

 private:
  // The devices run their stages of the queries before this one.
  std::uint32_t device_end() const noexcept {
    return batch_.plan.range_of(Task::search, Processor::device).end_query(batch_.size());
  }
  static InputArena input_of(const std::vector<std::unique_ptr<DevicePart>>& parts, std::uint64_t bytes);
  static ColumnMemory columns_of(const std::vector<std::unique_ptr<DevicePart>>& parts) noexcept;
  void depart(const Schedulers& schedulers) noexcept;
  bool is_with_schedulers() const noexcept;
  bool is_done() const noexcept;
  void scatter() noexcept;
  DeviceResults gather() noexcept;
  void gather_columns() noexcept;
  void lose_parts();

  std::vector<std::unique_ptr<DevicePart>> parts_;  // one per device, in the order of their shards
  std::vector<std::unique_ptr<DevicePart>> lost_;   // likewise, of a lost device that may still write there
  const std::uint32_t shard_bits_;
  Batch batch_;
  std::optional<EpochDomain::Participant> epoch_;
  State state_ = State::filling;
  bool asks_frames_ = false, has_frames_ = false;
  Waiting waiting_;
};

}  // namespace tandem
