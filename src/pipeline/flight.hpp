// A batch on its way through the stages of its plan (DIDO III-A), some of them on devices while its worker does
// something else.
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
#include "index/item_images.hpp"
#include "index/shard.hpp"
#include "pipeline/waiting.hpp"
#include "plan/plan.hpp"
#include "query/batch.hpp"
#include "query/device_query.hpp"
#include "task/context.hpp"

namespace tandem {

// What one device searches of a batch: all of it, or the keys of its shard. Who owns it: the worker (`filling`, `done`,
// `refused`, `lost`) or the scheduler (`queued`, `running`).
class DevicePart {
 public:
  enum class State : std::uint8_t {
    filling,
    queued,
    running,
    done,     // the columns hold what launch `launch_` found
    refused,  // no launch took it, or one that failed and is over: the host searches
    lost,     // the device is, and may yet write to the columns
  };

  // Columns of `capacity` queries in pinned memory, and, if there is room, for images of items of up to so many
  // granules (0: none). input_bytes: with the queries themselves (DeviceQuery), and an arena of so many bytes for their
  // keys and values; 0: neither. Throws DeviceError.
  DevicePart(Device& device, std::uint32_t capacity, std::uint32_t image_granules, std::uint64_t input_bytes = 0)
      : fingerprints_(device, capacity),
        locations_(device, capacity),
        queries_(device, input_bytes != 0 ? capacity : 0),
        input_(device, input_bytes) {
    if (image_granules == 0) return;
    try {
      PinnedArray<Granule> arena(device, std::uint64_t{capacity} * image_granules);
      images_ = PinnedArray<std::uint32_t>(device, capacity);
      arena_ = std::move(arena);
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

  PinnedArray<Fingerprint> fingerprints_;
  PinnedArray<Location> locations_;
  PinnedArray<DeviceQuery> queries_;
  PinnedArray<char> input_;
  PinnedArray<std::uint32_t> images_;
  PinnedArray<Granule> arena_;
  std::atomic<State> state_{State::filling};
  // What the scheduler may look at when the part was taken back, and what it says of the launch that searched.
  std::atomic<std::uint32_t> query_count_{0}, launch_{0};
  std::atomic<bool> whole_{false}, with_images_{false};
  DevicePart* next_ = nullptr;             // in the scheduler's queue
  std::unique_ptr<DevicePart> next_kept_;  // of those whose worker has gone
};

class Schedulers;

// Thread safety: the worker's thread.
class Flight {
 public:
  enum class State : std::uint8_t {
    filling,    // on the ground: its worker receives and parses into the batch
    searching,  // devices run their stages. It holds an epoch from before their launches until it is answered, so that
                // what they find can be followed (write protocol, idea 5)
    let_go,     // the same, but the epoch was left: what they find is not followed
    found,      // they are done: the batch's columns hold what they found
    host,       // what is left, or all of it, is the host's
  };

  // Of one device the part's columns are the batch's; of several it has its own, and theirs are gathered there. Queries
  // and their input lie in the first part, if it has room for them; without parts the batch has an arena of
  // `input_bytes` of its own, and every stage is the host's. Throws std::runtime_error (no place among the epochs),
  // std::bad_alloc. REQUIRES: a power of two of parts, at most shards_max, or none.
  Flight(EpochDomain& epochs, std::vector<std::unique_ptr<DevicePart>> parts, std::uint32_t capacity,
         std::uint64_t input_bytes = 0);
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  Batch& batch() noexcept { return batch_; }
  // The queries of that front, where its plan has devices compare keys, and the batch's input: by whichever device they
  // are read. REQUIRES: has_devices(), with room for them.
  DevicePtr<const DeviceQuery> device_queries() const noexcept { return parts_[0]->queries_.at(); }
  DevicePtr<const char> device_input() const noexcept { return parts_[0]->input_.at(); }
  State state() const noexcept { return state_; }
  // False: its devices are lost, or there never were any.
  bool has_devices() const noexcept { return !parts_.empty(); }

  // Fills the columns that devices read of the batch's front, which its plan gives to them: fingerprints, and where
  // they compare keys the queries themselves.
  void describe(std::uint64_t hash_seed) noexcept;
  // filling -> searching: hands that front to the schedulers. REQUIRES: has_devices(); the plan has devices search; the
  // queries are described.
  void begin(const Schedulers& schedulers) noexcept;
  // filling -> host, with the host's plan.
  void stay_here() noexcept;
  // A look at what devices do. True: nothing of it is with them any more. Who keeps looking gets there: schedulers that
  // are late count as stuck, and lose their part.
  bool look(const Schedulers& schedulers) noexcept;
  // Since begin().
  std::chrono::steady_clock::duration age() const noexcept { return std::chrono::steady_clock::now() - waiting_.since; }
  // searching -> found, or host when a device did not do it; let_go -> host. REQUIRES: look() was true.
  void land();
  // Ends the epoch, for who waits for epochs to end: searching -> let_go; found -> host.
  void let_go() noexcept;
  // found, host -> filling: it is answered.
  void end() noexcept;

  // The memory that devices know, to be given back by who may. REQUIRES: filling; the flight is not used any more.
  std::vector<std::unique_ptr<DevicePart>> take_parts() noexcept;

 private:
  // Of the queries before this the devices run their stages.
  std::uint32_t device_end() const noexcept {
    return batch_.plan.range_of(Task::search, Processor::device).end_query(batch_.size());
  }
  static InputArena input_of(const std::vector<std::unique_ptr<DevicePart>>& parts, std::uint64_t bytes);
  static ColumnMemory columns_of(const std::vector<std::unique_ptr<DevicePart>>& parts) noexcept;
  void describe_queries(std::uint32_t end) noexcept;
  bool is_with_schedulers() const noexcept;
  bool is_done() const noexcept;
  void scatter() noexcept;
  Found gather() noexcept;
  void gather_columns(std::array<const std::uint32_t*, shards_max> images, bool with_images) noexcept;
  void lose_parts();

  std::vector<std::unique_ptr<DevicePart>> parts_;  // of each device, in the order of their shards
  std::vector<std::unique_ptr<DevicePart>> lost_;   // the same, when a device was lost that may yet write there
  const std::uint32_t shard_bits_;
  Batch batch_;
  std::unique_ptr<std::uint32_t[]> images_;  // of several parts
  std::optional<EpochDomain::Participant> epoch_;
  State state_ = State::filling;
  Waiting waiting_;
};

}  // namespace tandem
