// What a scheduler maintains on its device and searches there: a replica of the host's table (replica.hpp), or the
// table itself (device_table.hpp).
#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <string_view>

#include "device/device.hpp"
#include "index/cuckoo/table_kernels.hpp"
#include "index/followed_index.hpp"
#include "index/shard.hpp"
#include "placement/mirrored/replica_images.hpp"
#include "placement/mirrored/replica_log.hpp"

namespace tandem {

// resting: the copy stays on the device, and is behind; leaving, returning: on the way there, and back.
enum class ReplicaState : std::uint8_t { absent, uploading, current, leaving, resting, returning, lost };
// Why it is absent.
enum class ReplicaAbsence : std::uint8_t { not_started, stopped, rests, out_of_memory, failures };
std::string_view name_of(ReplicaState state) noexcept;
std::string_view name_of(ReplicaAbsence absence) noexcept;

// What must not change in device memory while a search uses it.
struct ReplicaTable {
  DeviceArray<Bucket> buckets;
  DeviceArray<std::uint32_t> winners;  // of store_cells
  std::shared_ptr<const ReplicaImages::Memory> images;
};

// The result of a drain, and what may be searched after it.
struct ReplicaLaunch {
  enum class Status : std::uint8_t {
    ready,
    busy,         // the device has not taken the previous drain: answer on the host
    not_current,  // the replica is not
  };
  Status status = Status::not_current;
  std::uint32_t number = 0;
  bool whole = false;   // whether a miss can be final
  DeviceIndex index;    // of the shard, for Shard::local() fingerprints; searches of it begin after `mark` of
                        // Replica::stream(), on that stream or with Stream::after()
  DeviceImages images;  // as current as the index; searched on the stream itself, before the next call here
  DeviceMark mark = 0;
  std::uint32_t copy = 0;                     // the upload that the copy comes from
  std::shared_ptr<const ReplicaTable> table;  // held until the searches of `index` are done

  bool ready() const noexcept { return status == Status::ready; }
};

// Whether a key that a ready launch did not find is absent (write protocol 6). If not, the host's index decides.
template <std::derived_from<FollowedIndex> I>
bool final_miss(const I& index, Fingerprint f, const ReplicaLaunch& launch) noexcept {
  return final_miss(index, f, launch.number, launch.whole);
}

struct ReplicaStats {
  ReplicaState state = ReplicaState::absent;
  ReplicaAbsence absence = ReplicaAbsence::not_started;
  std::uint64_t uploads = 0;         // begun
  std::uint64_t uploaded_bytes = 0;  // of all uploads
  std::uint64_t drains = 0;
  std::uint64_t relieved = 0;   // of them, by writers with filling rings
  std::uint64_t records = 0;    // of the log
  std::uint64_t repeats = 0;    // records seen again, because they were not committed
  std::uint64_t rewrites = 0;   // items with images that their writers put into the log
  std::uint64_t cells = 0;      // sent to the device because they had changed
  std::uint64_t busy = 0;       // launches for which the device had no room
  std::uint64_t overflows = 0;  // of the log
  std::uint64_t failures = 0;   // of the device's work
  std::uint64_t lag = 0;        // records and cells that are not in the copy yet
  std::uint64_t device_bytes = 0, pinned_bytes = 0, log_bytes = 0;
  bool images_on = false, images_given_up = false;  // given_up: the device had no memory for images
  std::uint64_t image_bytes = 0;                    // of device_bytes
  std::uint64_t granules = 0;                       // of items, sent to the device
  std::uint64_t mark_clears = 0;
  // Returns from rests: by what had changed, or by an upload after all; of the former the bytes sent, and of the last
  // one the share of table and heap that had changed, in thousandths.
  std::uint64_t returns_warm = 0, returns_whole = 0, return_bytes = 0, dirty_permille = 0;
  std::uint64_t map_bytes = 0, map_lacks_bytes = 0;  // of the dirty map, in the memory limit; refused there
};

// Thread safety: relieve(), wants_relief() and stats() from any thread; the rest, and stream(), from one thread at a
// time, the scheduler's. No call waits for the device.
class DeviceSide {
 public:
  DeviceSide() = default;
  DeviceSide(const DeviceSide&) = delete;
  DeviceSide& operator=(const DeviceSide&) = delete;
  virtual ~DeviceSide() = default;

  // Begins to follow the index. After rest() only what has changed is sent, if possible.
  virtual ReplicaState start() noexcept = 0;
  // Frees the device's memory once the queued work is done.
  virtual void stop(ReplicaAbsence why) noexcept = 0;
  // Keeps that, but what changes from now on does not follow until start(): `leaving`, then `resting` once the batches
  // in flight have ended. False: it cannot.
  virtual bool rest() noexcept { return false; }
  // The part of the index that is on the device.
  virtual const Shard& shard() const noexcept = 0;
  // One step of its own work, at most `budget_bytes` of it. Writers and drains may run between two steps.
  virtual ReplicaState step(std::uint64_t budget_bytes) noexcept = 0;
  // Whether the next step is urgent.
  virtual bool is_busy() const noexcept = 0;
  // Queues pending changes, if any are due, so that a search that follows on the stream finds them. REQUIRES: the
  // batches that use the result are in their epochs, so that no item that the launch can find is reused before they
  // end.
  virtual ReplicaLaunch drain() noexcept = 0;
  virtual bool wants_drain() const noexcept = 0;
  // Whether the launch's data was correct. Results count once the search's own mark and this are ok.
  virtual DeviceStatus poll(const ReplicaLaunch& launch) noexcept = 0;
  // The stream of all changes. The caller queues searches behind them, and takes their marks before the next call here.
  // REQUIRES: the state has been `uploading` or `current` at least once.
  virtual Stream& stream() noexcept = 0;
  // The oldest of its own work that the device has not done yet; 0: none. For a scheduler that checks deadlines.
  virtual DeviceMark waits_for() noexcept = 0;
  // The largest item with an image; 0: there are to be no images.
  virtual std::uint32_t image_granules() const noexcept = 0;
  // Whether the device has them now. Thread safety: any thread.
  virtual bool has_images() const noexcept { return false; }
  // For workers between two batches, outside any epoch and stripe.
  virtual bool wants_relief() const noexcept = 0;
  virtual void relieve() noexcept = 0;
  virtual ReplicaStats stats() noexcept = 0;  // the last call's figures while a driver call holds the lock
};

}  // namespace tandem
