// The log of a replica: which cells changed since its last drain (write protocol 2 and 6; docs/threads.md has every
// memory order).
//
// Each writer notes the cells that it is about to change in a ring of its own (WriterRings). A drain re-reads every
// noted cell and appends its content to a queue. It removes the records that were committed when it came to that ring.
// The rest, at most one change per writer, is delivered again by the next drain. So a cell may be delivered several
// times, by one drain or by two; drains are in order, and the last delivery counts.
//
// Several replicas, each of one shard of the index, share one log. Each has rings and drains of its own. The count of
// launches is common, because keys of several shards share a stripe and so its stamp.
//
// Where a replica has images, a set in place puts the item's new image into a ring beside, before the new version can
// be read, and no cell is announced. The rings' memory is lent by the replica, and read by its device. A drain takes
// what the rings have before it reads any cell or item, so what it reads is no older. Two images of one item may lie in
// two rings, and be taken by two drains in either order: the larger CAS id counts (store_rewrites). An image of a
// slot's last item is taken by the drain that delivers its next item, or before: a drain is an epoch, and the slot was
// not reused within the one that its item died in.
//
// A replica may rest (DirtyMap): the log marks changes instead of noting them, or does both while the one begins or
// ends.
//
// Memory is bounded. A writer that finds its ring full writes without noting, and switches the shard's log off; that
// replica must be uploaded again. wants_drain() asks workers to drain before that happens.
#pragma once
#include <array>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>

#include "index/change_log.hpp"
#include "index/followed_index.hpp"
#include "index/shard.hpp"
#include "placement/mirrored/dirty_map.hpp"
#include "placement/mirrored/dirty_queue.hpp"
#include "placement/mirrored/replica_images.hpp"
#include "placement/mirrored/writer_rings.hpp"

namespace tandem {

struct ReplicaLogOptions {
  std::uint32_t ring_records = 1 << 15;  // of each writing thread, 8 bytes each; a power of two, at least 16
  std::uint32_t ring_granules = 0;       // of images, likewise; a power of two, at least 16, or 0: cells only
  std::uint32_t first_launch = 1;        // tests start close to where the number wraps
  std::uint32_t shard_bits = 0;          // as the index's
  DirtyMap* dirty = nullptr;             // outlives it; nullptr: the replica, or one of several, does not rest warm
};

// The part of a table that a replica copies; changes of other cells are ignored.
struct ReplicaExtent {
  std::uint32_t table = 0;  // serial number
  std::uint64_t cells = 0;  // of the shard; only its first ones are copied
  Shard shard{};
};

// What one drain did.
struct Drained {
  std::uint32_t launch = 0;   // its number
  bool recording = false;     // the log was on; if not, changes are missing
  bool complete = false;      // the queue had room for all
  FollowedTable table{};      // as of after the count
  std::uint64_t records = 0;  // seen for the first time
  std::uint64_t repeats = 0;  // seen before
  std::uint64_t cells = 0;    // appended to the queue, as the shard numbers them
  std::uint64_t images = 0;   // taken from the rings
};

// The points in a drain where tests stop to let a writer run.
enum class DrainPoint : std::uint8_t {
  begin,    // the launch number is not counted yet
  counted,  // it is
  noted,    // the records of a ring are known, none of its cells is read
  cell,     // before each cell is read
  read,     // all are read, none is removed
};

// Rules that make a drain correct. Tests disable them one at a time and observe wrong answers.
struct ReplicaLogRules {
  static constexpr bool counts_first = true;          // the launch number is counted before records are looked at
  static constexpr bool keeps_uncommitted = true;     // only committed records are removed
  static constexpr bool commits_before_cells = true;  // what is committed is known before cells are read
  static constexpr bool looks_after_count = true;     // the searched table is looked up after the count
  static void reached(DrainPoint) noexcept {}
};

// ReplicaLog, by its rules.
//
// Thread safety: reserve(), commit() and launch() as of any ChangeLog; of each shard one thread at a time in drain(),
// start() and stop(); the rest from any thread.
template <class Rules>
class BasicReplicaLog final : public ChangeLog {
 public:
  explicit BasicReplicaLog(const ReplicaLogOptions& options = {});

  // --- writers
  Ticket reserve(std::span<const Change> changes) noexcept override;
  void commit(Ticket) noexcept override;
  std::uint32_t launch() const noexcept override;
  ImageSlot image_slot(std::uint64_t cell_index, Location item, std::uint32_t granules) noexcept override;

  // --- the owner of a replica

  // Switches the log on, empty. It may miss a change that began before. Such a change is in the host's table once every
  // batch that is in flight at the return has ended (EpochDomain::retire_stamp(), is_safe()).
  void start(std::uint32_t shard = 0) noexcept;
  // Switches it off: writers no longer note changes.
  void stop(std::uint32_t shard = 0) noexcept;
  // From now on writers mark what they change, besides. It may miss a change that began before, as start(). REQUIRES:
  // dirty(); one replica.
  void start_marking() noexcept;
  // Ends that. False: the log is off, and marking goes on, since only the marks tell what has changed.
  [[nodiscard]] bool stop_marking() noexcept;
  // Ends that, whatever is lost by it.
  void forget_marks() noexcept {
    if (!stop_marking()) word_.fetch_and(~marking_bit, std::memory_order_seq_cst);
  }
  DirtyMap* dirty() const noexcept { return dirty_; }
  // Whether it is on. An overflowing ring switches it off.
  bool recording(std::uint32_t shard = 0) const noexcept {
    return (word_.load(std::memory_order_acquire) & recording_bit(shard)) != 0;
  }

  // Lends writers memory for images: ring_granules() for each of memory.rings threads, the first that ask. The rest
  // announce cells. Without memory: takes it back. REQUIRES: no memory was lent, or the log is off and no set goes on.
  void lend_images(std::uint32_t shard, ImageMemory memory) noexcept;
  std::uint32_t ring_granules() const noexcept { return ring_granules_; }  // 0: no images
  // Gives rings back to their writers what was taken before the last call. REQUIRES: the device has read that. False:
  // nothing has been taken since.
  bool release_images(std::uint32_t shard) noexcept;

  // Forgets what writers have put into their rings of images. For an upload, which reads all items after that: an image
  // may be of a slot's last item, and what a growth has put there since is not announced for the table that is
  // followed. REQUIRES: the caller is in the epoch in which the upload reads its first cells.
  void forget_images(std::uint32_t shard) noexcept;

  // Counts a launch and appends the cells of `extent` that changed. If the result says recording and complete, a change
  // with a stripe that says changed_at < launch is wholly in what this drain and earlier ones have appended. When the
  // queue is full, stops and leaves the rest for the next drain. Where images lie that writers have put into their
  // rings is given to `images`, as one part; nullptr: they are forgotten. REQUIRES: the caller is in an epoch.
  Drained drain(const FollowedIndex& index, ReplicaExtent extent, DirtyQueue<>& out,
                ReplicaImages* images = nullptr) noexcept;

  // Whether some ring became half full since the last drain. A drain now, by any thread, prevents an overflow.
  bool wants_drain(std::uint32_t shard = 0) const noexcept {
    return wants_drain_[shard].load(std::memory_order_relaxed);
  }

  std::uint64_t overflows(std::uint32_t shard = 0) const noexcept {
    return overflows_[shard].load(std::memory_order_relaxed);
  }
  // In all rings, granules of images among them. By one thread at a time with drains.
  std::uint64_t records_waiting(std::uint32_t shard = 0) const noexcept;
  std::uint64_t memory_bytes(std::uint32_t shard = 0) const noexcept;  // of all rings, without what is lent

 private:
  //   |63  launch  32|31..17 0|16 marking|15  recording, a bit for each shard  8|7  it alone, likewise  0|
  // One word, so that all threads agree on which launches came before an overflow. it alone: recording and not marking,
  // which is all that the usual change looks at.
  static constexpr std::uint64_t alone_bit(std::uint32_t shard) { return std::uint64_t{1} << shard; }
  static constexpr std::uint64_t recording_bit(std::uint32_t shard) { return std::uint64_t{1} << (8 + shard); }
  static constexpr std::uint64_t both_bits(std::uint32_t shard) { return alone_bit(shard) | recording_bit(shard); }
  static constexpr std::uint64_t marking_bit = std::uint64_t{1} << 16;
  static constexpr std::uint64_t alone_mask = (std::uint64_t{1} << shards_max) - 1;
  static constexpr std::uint64_t recording_mask = alone_mask << 8;
  static constexpr unsigned launch_shift = 32;
  static constexpr std::uint64_t launch_one = std::uint64_t{1} << launch_shift;
  static_assert(shards_max <= 8 && marking_bit < launch_one);
  // Of a ticket: a ring's address with its marks.
  static constexpr Ticket marks_bit = Ticket{1} << 63;

  // Of a shard's memory for images.
  struct Lent {
    std::atomic<Granule*> granules{nullptr};
    Location* locations = nullptr;
    std::uint32_t rings = 0;
    std::atomic<std::uint32_t> claimed{0};  // of the rings; more, once there are too few
    bool has_taken = false;                 // drains may have, since the last release; theirs
  };

  TD_NOINLINE Ticket reserve_slowly(std::span<const Change> changes, std::uint32_t shard) noexcept;
  TD_NOINLINE void commit_slowly(Ticket ticket) noexcept;
  Ticket note(WriterRing& ring, std::uint32_t shard, std::span<const Change> changes) noexcept;
  void count(Drained& drained, std::uint32_t shard) noexcept;
  TD_NOINLINE bool claim_images(ImageRing& ring, std::uint32_t shard) noexcept;
  bool take_images(Drained& drained, std::uint32_t shard, std::uint64_t cells_room, ReplicaImages* images) noexcept;
  std::uint64_t deliver(const WriterRing& ring, std::uint64_t begin, std::uint64_t end, const CellArray& cells,
                        ReplicaExtent extent, DirtyQueue<>& out) noexcept;
  TD_NOINLINE bool has_room(WriterRing& ring, std::uint32_t shard, std::uint64_t tail, std::uint64_t records) noexcept;
  void overflow(std::uint32_t shard) noexcept;

  const std::uint64_t ring_records_;
  const std::uint32_t ring_granules_;
  const std::uint32_t shard_bits_;
  DirtyMap* const dirty_;
  const std::shared_ptr<WriterRings> rings_;
  std::array<std::atomic<std::uint64_t>, shards_max> overflows_{};
  std::array<Lent, shards_max> lent_{};
  alignas(cache_line_bytes) std::atomic<std::uint64_t> word_;
  alignas(cache_line_bytes) std::array<std::atomic<bool>, shards_max> wants_drain_{};
};

// Whether nothing under the key's stripe has changed since that launch was counted (write protocol 6). If so, the
// launch's result for the key, including the item's image, is current. `launch` and `whole` are of a Drained that was
// recording and complete. Launch numbers are compared modulo 2^32: a stripe that was not changed for 2^31 launches
// counts as changed. Thread safety: any thread; no epoch is needed.
template <std::derived_from<FollowedIndex> I>
bool unchanged_since(const I& index, Fingerprint f, std::uint32_t launch) noexcept {
  const StripeWord stripe = index.stripe(f);
  return !stripe.locked() && static_cast<std::int32_t>(stripe.changed_at() - launch) < 0;
}

// Whether a key that the launch did not find in a replica is absent. If not, the host's index decides.
template <std::derived_from<FollowedIndex> I>
bool final_miss(const I& index, Fingerprint f, std::uint32_t launch, bool whole) noexcept {
  return whole && unchanged_since(index, f, launch);
}

using ReplicaLog = BasicReplicaLog<ReplicaLogRules>;
extern template class BasicReplicaLog<ReplicaLogRules>;

}  // namespace tandem
