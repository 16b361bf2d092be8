// The copy of the index, or of one shard of it, on one device: uploaded once, in steps, then updated by a drain of the
// log before each launch. The host's table is authoritative; a failure here costs speed, never data
// (docs/decisions/0010-replica.md).
//
//            start()             all cells are queued
//   absent ----------> uploading --------------------> current
//                          ^                              |
//                          +------------------------------+   the log overflowed, the host's table grew, work failed
//
//             rest()           batches have ended           start()
//   current ----------> leaving ----------------> resting ----------> returning ----------> current
//
// While it rests writers mark what they change (DirtyMap) in place of noting it in the log. If that does not tell all,
// leaving and resting end in `absent`, and a return becomes an upload (docs/decisions/0057-warm-rest.md).
//
// The state returns to `absent` by stop(), without memory on the device, or after several failures in a row. It is
// `lost` for ever once the device is lost. All changes of the copy are queued on one stream, in the order in which the
// host's cells were read.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "base/epoch.hpp"
#include "device/device.hpp"
#include "index/followed_index.hpp"
#include "placement/device_side.hpp"
#include "placement/mirrored/replica_images.hpp"
#include "placement/mirrored/replica_log.hpp"

namespace tandem {

struct ReplicaOptions {
  std::uint64_t queue_cells = 1 << 18;       // dirty cells in flight, 16 bytes each of pinned memory; a power of two
  std::uint64_t chunk_bytes = 1 << 20;       // of an upload, pinned; a multiple of a bucket
  std::uint32_t chunks = 4;                  // of them in flight
  std::uint32_t failures_max = 3;            // in a row; then it gives up
  std::chrono::milliseconds end_wait{2000};  // how long the destructor waits for the device before it abandons it
  ReplicaImagesOptions images{};             // of items
  std::uint32_t shard = 0;                   // number of the index's shard that it copies (FollowedIndex::shard_bits())
};

// Rules that make it correct. Tests disable them one at a time and observe wrong answers.
struct ReplicaRules {
  // An upload reads nothing until the batches that began before the log was on, or before work failed, have ended.
  static constexpr bool waits_for_batches = true;
  // The images that writers put into the log before an upload's first cell is read are forgotten.
  static constexpr bool forgets_images = true;
  // Pinned memory is reused only after the device has read it.
  static constexpr bool waits_for_marks = true;
  // So are the rings of images, which the device reads where writers have put them.
  static constexpr bool keeps_rings = true;
  // A rest begins, and a return sends, when the batches have ended that may not mark, or not announce.
  static constexpr bool waits_to_rest = true;
  static constexpr bool waits_to_return = true;
  // What writers noted before they marked is sent before the log is off.
  static constexpr bool drains_last = true;
};

// Thread safety: relieve(), wants_drain() and stats() from any thread; the rest, and stream(), from one thread at a
// time, the scheduler's. No call waits for the device. REQUIRES: device, index, log and epochs outlive it; it is the
// only one that drains the log.
template <class Rules, class Log>
class BasicReplica final : public DeviceSide {
 public:
  // heap: holds the items; nullptr: there are no images. Throws std::runtime_error when `epochs` has no place left.
  BasicReplica(Device& device, const FollowedIndex& index, Log& log, EpochDomain& epochs,
               const ReplicaOptions& options = {}, const Heap* heap = nullptr);
  ~BasicReplica() override;

  // Starts to follow the index, if it is absent. The returned state is the outcome.
  ReplicaState start() noexcept override;
  // Frees the device's memory once the queued work is done, and switches the log off.
  void stop(ReplicaAbsence why) noexcept override;
  bool rest() noexcept override;

  const Shard& shard() const noexcept override { return shard_; }

  // Uploads at most `budget_bytes`, as far as the device has taken what was sent before. Writers, growth of the host's
  // table and drains continue between two steps. Does nothing unless the state is `uploading`.
  ReplicaState step(std::uint64_t budget_bytes) noexcept override;
  bool is_busy() const noexcept override { return false; }  // its state tells

  // Counts a launch, and queues the changes in the log. REQUIRES: the batches that use the result are in their epochs,
  // so that no item that the launch can find is reused before they end.
  ReplicaLaunch drain() noexcept override;

  // Whether the copy that a launch searched was made without a failure. Results count once the search's own mark and
  // this are ok.
  DeviceStatus poll(const ReplicaLaunch& launch) noexcept override;

  // The stream of all changes. The caller queues searches behind them, and takes their marks before the next call here.
  // REQUIRES: the state has been `uploading` at least once.
  Stream& stream() noexcept override { return *stream_; }

  // The largest item with an image; 0: there are to be no images.
  std::uint32_t image_granules() const noexcept override { return images_.item_granules(); }
  bool has_images() const noexcept override { return has_images_.load(std::memory_order_relaxed); }

  // For writers between two batches, outside any epoch and stripe. When wants_drain(), drains the log into pinned
  // memory, unless another thread is draining.
  bool wants_drain() const noexcept override { return wants_relief() || is_relieved_.load(std::memory_order_relaxed); }
  bool wants_relief() const noexcept override { return log_.wants_drain(shard_.number); }
  // The oldest of its own work that the device has not done yet; 0: none. For a scheduler that checks deadlines.
  DeviceMark waits_for() noexcept override;
  void relieve() noexcept override;

  ReplicaStats stats() noexcept override;  // the last call's figures while a driver call holds the lock

 private:
  struct InFlight {
    DeviceMark mark = 0;
    std::uint32_t copy = 0;
    std::uint64_t queue_position = 0, images_position = 0;  // of changes
    bool upload = false;                                    // of a chunk: chunks are used in turn
  };
  // Marks of work that is not known to be done, oldest first.
  struct InFlightList {
    static constexpr std::uint64_t capacity = 64;
    std::array<InFlight, capacity> all;
    std::uint64_t begin = 0, end = 0;
    std::uint64_t size() const noexcept { return end - begin; }
    InFlight& front() noexcept { return all[begin % capacity]; }
    void push(InFlight x) noexcept { all[end++ % capacity] = x; }
  };
  struct Retired {
    std::shared_ptr<const ReplicaTable> table;
    DeviceMark mark = 0;  // 0: not known yet
  };

  // Whether the log is to be on.
  bool is_following() const noexcept {
    return stats_.state == ReplicaState::uploading || stats_.state == ReplicaState::current ||
           stats_.state == ReplicaState::returning || (stats_.state == ReplicaState::leaving && !is_log_off_);
  }
  void make_dirty_map() noexcept;
  bool has_begun() noexcept;
  void lose_changes() noexcept;
  void settle() noexcept;
  void stay_away() noexcept;
  void wake() noexcept;
  void come_back(std::uint64_t budget_bytes) noexcept;
  void send_marked(std::uint64_t& budget_bytes) noexcept;
  void append_buckets(std::span<const std::uint32_t> buckets, const CellArray& cells) noexcept;
  bool make_buffers() noexcept;
  bool make_table() noexcept;
  void age_marks() noexcept;
  void make_images();
  void begin_copy() noexcept;
  void follow(const FollowedTable& table) noexcept;
  void retire_table() noexcept;
  Drained collect() noexcept;
  bool send() noexcept;
  bool send_chunk(std::uint64_t& budget_bytes) noexcept;
  void poll_in_flight() noexcept;
  void release_rings() noexcept;
  void release_retired() noexcept;
  // Handles the result of a call or a mark. False: it is not ok, and the state has changed.
  bool check(DeviceStatus status) noexcept;
  void become_absent(ReplicaAbsence why) noexcept;
  void become_lost() noexcept;

  Device& device_;
  const FollowedIndex& index_;
  Log& log_;
  EpochDomain& epochs_;
  const ReplicaOptions options_;
  const Shard shard_;

  std::atomic<bool> has_images_{false};
  std::atomic<bool> is_relieved_{false};  // since the last drain(): what was read waits to be sent
  std::mutex told_mutex_;
  ReplicaStats told_;  // the last result of stats()

  std::mutex mutex_;  // guards all that follows, except the stream while the scheduler uses it
  EpochDomain::Participant epoch_;
  ReplicaStats stats_;
  PinnedArray<DirtyCell> queue_memory_;
  PinnedArray<std::uint64_t> chunk_memory_;
  DirtyQueue<> queue_;
  ReplicaImages images_;
  bool has_lent_ = false;          // memory for images to the log
  std::uint64_t rings_until_ = 0;  // position of images_ up to which it was appended when rings were released last
  std::uint64_t chunks_sent_ = 0, chunks_done_ = 0;
  std::shared_ptr<ReplicaTable> table_;
  std::vector<Retired> retired_;
  std::weak_ptr<const ReplicaTable> before_;  // the last one retired

  std::uint32_t serial_ = 0;                // of the host's table; 0: none yet
  TableShape shape_{};                      // of the shard in that table, like the next
  std::uint64_t cells_ = 0, position_ = 0;  // all; of them, read by this upload
  bool restart_log_ = false;                // the log is off: no upload before it is on again
  bool waits_ = false;                      // the upload, for the batches that began before stamp_
  bool is_log_off_ = false;                 // as the replica is leaving, or rests
  std::uint64_t bucket_ = 0, block_ = 0;    // of the dirty map: where a return goes on
  unsigned restarts_ = 0;                   // of this return, because the log overflowed
  bool is_too_dirty_ = false;               // this return is an upload
  std::array<std::uint32_t, 4096> taken_;   // from there
  bool zeroed_ = false;                     // the winners of this upload's table are
  std::uint64_t stamp_ = 0;
  std::uint32_t copy_ = 0, broken_copy_ = 0;  // the upload's number; the last one that had a failure
  std::uint32_t failures_in_a_row_ = 0;
  InFlightList in_flight_;
  DeviceMark last_mark_ = 0, settled_ = 0;
  std::unique_ptr<Stream> stream_;  // destroyed first: then no queued work uses the memory above
};

using Replica = BasicReplica<ReplicaRules, ReplicaLog>;
extern template class BasicReplica<ReplicaRules, ReplicaLog>;

}  // namespace tandem
