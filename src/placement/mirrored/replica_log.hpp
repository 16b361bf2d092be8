// The log of a replica: which cells changed since it last heard of them (write protocol 2 and 6; docs/threads.md has
// every memory order).
//
// Each writer notes the cells that it is about to change in a ring of its own (WriterRings); a drain re-reads every
// cell that is noted and appends what it holds to a queue. It forgets what was committed when it came to that ring; the
// rest, at most one change for each writer, is delivered again by the next drain. So a cell may be delivered several
// times, by one drain or by two: drains are in order, and the last one counts.
//
// Several replicas, each of one shard of the index, have one log: rings and drains of their own, and one count of
// launches for all, since keys of several shards share a stripe and so its stamp.
//
// Memory is bounded. A writer that finds its ring full notes nothing, writes on, and switches the shard's log off: that
// replica is to be uploaded again. Before that happens wants_drain() says so, for workers to lend a hand.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "index/change_log.hpp"
#include "index/index_kind.hpp"
#include "index/shard.hpp"
#include "placement/mirrored/dirty_queue.hpp"
#include "placement/mirrored/writer_rings.hpp"
#include "placement/offload_index.hpp"

namespace tandem {

struct ReplicaLogOptions {
  std::uint32_t ring_records = 1 << 15;  // of each thread that writes, 8 bytes each; a power of two, at least 16
  std::uint32_t first_launch = 1;        // tests start close to where the number wraps
  std::uint32_t shard_bits = 0;          // as the index's
};

// The part of a table that a replica has: changes of cells elsewhere are none of its business.
struct ReplicaExtent {
  std::uint32_t table = 0;  // serial number
  std::uint64_t cells = 0;  // of the shard, the first so many
  Shard shard{};
};

// What one drain did.
struct Drained {
  std::uint32_t launch = 0;        // its number
  bool recording = false;          // the log was on; if not, changes are missing
  bool complete = false;           // the queue had room for all
  OffloadIndex::Searched table{};  // as it was after the number was counted; its view is good until the epoch ends
  std::uint64_t records = 0;       // seen for the first time
  std::uint64_t repeats = 0;       // seen before
  std::uint64_t cells = 0;         // appended to the queue, as the shard numbers them
};

// The places in a drain where tests stop to let a writer go on.
enum class DrainPoint : std::uint8_t {
  begin,    // the launch number is not counted yet
  counted,  // it is
  noted,    // the records of a ring are known, none of their cells is read
  cell,     // before each cell is read
  read,     // all of them are read, none is forgotten
};

// What makes a drain right. Tests take rules out, one at a time, and see wrong answers.
struct ReplicaLogRules {
  static constexpr bool counts_first = true;          // the launch number is counted before records are looked at
  static constexpr bool keeps_uncommitted = true;     // only what is committed is forgotten
  static constexpr bool commits_before_cells = true;  // what is committed is known before cells are read
  static constexpr bool looks_after_count = true;     // which table is searched is asked after the count
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

  // --- whoever keeps the replica

  // Switches the log on, empty. A change that began before may be missing: it is in the host's table once every batch
  // that is in flight at the return has ended (EpochDomain::retire_stamp(), is_safe()), and not before.
  void start(std::uint32_t shard = 0) noexcept;
  // Switches it off: writers note nothing any more.
  void stop(std::uint32_t shard = 0) noexcept;
  // Whether it is on. It goes off by itself when a ring is full.
  bool recording(std::uint32_t shard = 0) const noexcept {
    return (word_.load(std::memory_order_acquire) & recording_bit(shard)) != 0;
  }

  // Counts a launch and appends the cells of `extent` that changed. A change whose stripe says changed_at < launch is
  // then wholly in what this drain and earlier ones have appended, if the result says recording and complete. Stops,
  // and keeps what is left for the next drain, when the queue is full. REQUIRES: the caller is in an epoch.
  Drained drain(const OffloadIndex& index, ReplicaExtent extent, DirtyQueue<>& out) noexcept;

  // Whether some ring was half full since the last drain: a drain now, by anybody, keeps it from overflowing.
  bool wants_drain(std::uint32_t shard = 0) const noexcept {
    return wants_drain_[shard].load(std::memory_order_relaxed);
  }

  std::uint64_t overflows(std::uint32_t shard = 0) const noexcept {
    return overflows_[shard].load(std::memory_order_relaxed);
  }
  std::uint64_t records_waiting(std::uint32_t shard = 0) const noexcept;  // in all rings
  std::uint64_t memory_bytes(std::uint32_t shard = 0) const noexcept;     // of all rings

 private:
  // |63  launch  32|31..8 0|7  recording, a bit for each shard  0|. One word, so that all threads agree on which
  // launches came before an overflow.
  static constexpr std::uint64_t recording_bit(std::uint32_t shard) { return std::uint64_t{1} << shard; }
  static constexpr std::uint64_t recording_mask = (std::uint64_t{1} << shards_max) - 1;
  static constexpr unsigned launch_shift = 32;
  static constexpr std::uint64_t launch_one = std::uint64_t{1} << launch_shift;
  static_assert(recording_mask < launch_one);

  void count(Drained& drained, std::uint32_t shard) noexcept;
  std::uint64_t deliver(const WriterRing& ring, std::uint64_t begin, std::uint64_t end, IndexView view,
                        ReplicaExtent extent, DirtyQueue<>& out) noexcept;
  TD_NOINLINE bool has_room(WriterRing& ring, std::uint32_t shard, std::uint64_t tail, std::uint64_t records) noexcept;
  void overflow(std::uint32_t shard) noexcept;

  const std::uint64_t ring_records_;
  const std::uint32_t shard_bits_;
  const std::shared_ptr<WriterRings> rings_;
  std::array<std::atomic<std::uint64_t>, shards_max> overflows_{};
  alignas(cache_line_bytes) std::atomic<std::uint64_t> word_;
  alignas(cache_line_bytes) std::array<std::atomic<bool>, shards_max> wants_drain_{};
};

// Whether nothing under the key's stripe was changed since that launch was counted (write protocol 6): then what the
// launch saw of the key, its item's image too, is what there is. `launch` and `whole` are of a Drained that was
// recording and complete. Launch numbers are compared modulo 2^32: a stripe that was not changed for 2^31 launches
// counts as changed. Thread safety: any thread; no epoch is needed.
template <DeviceSearches I>
bool unchanged_since(const I& index, Fingerprint f, std::uint32_t launch) noexcept {
  const StripeWord stripe = index.stripe(f);
  return !stripe.locked() && static_cast<std::int32_t>(stripe.changed_at() - launch) < 0;
}

// Whether what the launch did not find in a replica is absent; if not, the host has to be asked.
template <DeviceSearches I>
bool final_miss(const I& index, Fingerprint f, std::uint32_t launch, bool whole) noexcept {
  return whole && unchanged_since(index, f, launch);
}

using ReplicaLog = BasicReplicaLog<ReplicaLogRules>;
extern template class BasicReplicaLog<ReplicaLogRules>;

}  // namespace tandem
