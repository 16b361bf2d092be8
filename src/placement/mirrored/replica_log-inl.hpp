// BasicReplicaLog's definitions: for replica_log.cpp, and for tests with other rules.
#pragma once
#include <algorithm>
#include <bit>

#include "index/cuckoo/lanes_scalar.hpp"
#include "placement/mirrored/replica_log.hpp"

namespace tandem {

template <class Rules>
BasicReplicaLog<Rules>::BasicReplicaLog(const ReplicaLogOptions& options)
    : ring_records_(options.ring_records),
      ring_granules_(options.ring_granules),
      shard_bits_(options.shard_bits),
      dirty_(options.dirty),
      rings_(std::make_shared<WriterRings>(options.ring_records, 1u << options.shard_bits)),
      word_(std::uint64_t{options.first_launch} << launch_shift) {
  TD_ASSERT(std::has_single_bit(ring_records_) && ring_records_ >= 16 && shard_bits_ <= shard_bits_max);
  TD_ASSERT(options.ring_granules == 0 ||
            (std::has_single_bit(options.ring_granules) && options.ring_granules >= 2 * image_granules_limit));
}

template <class Rules>
ChangeLog::Ticket BasicReplicaLog<Rules>::reserve(std::span<const Change> changes) noexcept {
  if (changes.empty()) return 0;
  const std::uint32_t shard = Shard::number_of_cell(changes.front().cell_index, shard_bits_);
  // A stale "off" is harmless: start()'s caller waits for this batch.
  const std::uint64_t word = word_.load(std::memory_order_relaxed);
  if ((word & alone_bit(shard)) == 0) return (word & marking_bit) == 0 ? 0 : reserve_slowly(changes, shard);
#if defined(TANDEM_CANARY)
  if (canary_strikes("skip_dirty_log", 500)) return 0;
#endif
  WriterRing* const rings = rings_->mine();
  if (TD_UNLIKELY(rings == nullptr)) {
    overflow(shard);
    return 0;
  }
  return note(rings[shard], shard, changes);
}

template <class Rules>
TD_INLINE ChangeLog::Ticket BasicReplicaLog<Rules>::note(WriterRing& ring, std::uint32_t shard,
                                                         std::span<const Change> changes) noexcept {
  const std::uint64_t begin = ring.reserved.load(std::memory_order_relaxed);
  TD_DEBUG_ASSERT(begin == ring.committed.load(std::memory_order_relaxed));
  if (TD_UNLIKELY(begin + changes.size() - ring.head_seen > ring_records_ / 2) &&
      !has_room(ring, shard, begin, changes.size())) {
    return 0;
  }
  std::uint64_t tail = begin;
  for (const Change& c : changes) {
    TD_DEBUG_ASSERT(Shard::number_of_cell(c.cell_index, shard_bits_) == shard);
    ring.records[tail++ & ring.mask] = LogRecord::of(c).bits;
  }
  ring.reserved.store(tail, std::memory_order_release);
  return std::bit_cast<std::uintptr_t>(&ring);
}

// While changes are marked. What is marked, commit() marks: a mark that was taken before the change would tell nothing.
template <class Rules>
ChangeLog::Ticket BasicReplicaLog<Rules>::reserve_slowly(std::span<const Change> changes,
                                                         std::uint32_t shard) noexcept {
  const std::uint64_t word = word_.load(std::memory_order_acquire);
  const bool records = (word & recording_bit(shard)) != 0, marks = (word & marking_bit) != 0;
  WriterRing* const rings = rings_->mine();
  if (TD_UNLIKELY(rings == nullptr)) {
    if (records) overflow(shard);
    if (marks) dirty_->give_up();
    return 0;
  }
  WriterRing& ring = rings[shard];
  const Ticket noted = records ? note(ring, shard, changes) : 0;
  if (!marks) return noted;
  TD_DEBUG_ASSERT(changes.size() <= ring.marks.size());
  ring.mark_count = 0;
  for (const Change& c : changes) ring.marks[ring.mark_count++] = LogRecord::of(c);
  return std::bit_cast<std::uintptr_t>(&ring) | marks_bit;
}

template <class Rules>
void BasicReplicaLog<Rules>::commit(Ticket ticket) noexcept {
  if (static_cast<std::int64_t>(ticket) <= 0) return commit_slowly(ticket);
  WriterRing* const ring = std::bit_cast<WriterRing*>(static_cast<std::uintptr_t>(ticket));
  ring->committed.store(ring->reserved.load(std::memory_order_relaxed), std::memory_order_release);
}

template <class Rules>
void BasicReplicaLog<Rules>::commit_slowly(Ticket ticket) noexcept {
  if (ticket == 0) return;
  WriterRing* const ring = std::bit_cast<WriterRing*>(static_cast<std::uintptr_t>(ticket & ~marks_bit));
  ring->committed.store(ring->reserved.load(std::memory_order_relaxed), std::memory_order_release);
  for (const LogRecord& change : std::span(ring->marks.data(), ring->mark_count)) dirty_->mark(change);
}

template <class Rules>
ImageSlot BasicReplicaLog<Rules>::image_slot(std::uint64_t cell_index, Location item, std::uint32_t granules) noexcept {
  const std::uint32_t shard = Shard::number_of_cell(cell_index, shard_bits_);
  if (granules > image_granules_limit || (word_.load(std::memory_order_relaxed) & alone_bit(shard)) == 0) return {};
  WriterRing* const rings = rings_->mine();
  if (TD_UNLIKELY(rings == nullptr)) return {};
  ImageRing& ring = rings[shard].images;
  if (TD_UNLIKELY(ring.granules == nullptr) && !claim_images(ring, shard)) return {};
  std::uint64_t begin = ring.published.end.load(std::memory_order_relaxed);
  const std::uint64_t to_end = ring.capacity() - (begin & ring.mask);
  const std::uint64_t skipped = granules > to_end ? to_end : 0;
  const std::uint64_t end = begin + skipped + granules;
  if (TD_UNLIKELY(end - ring.head_seen > ring.capacity())) {
    ring.head_seen = ring.head.load(std::memory_order_acquire);
    if (end - ring.head_seen > ring.capacity()) return {};
  }
  for (const std::uint64_t behind = begin + skipped; begin != behind; ++begin)
    ring.locations[begin & ring.mask] = no_location;
  const std::uint64_t at = begin & ring.mask;
  ring.locations[at] = item;
  for (std::uint32_t g = 1; g < granules; ++g) ring.locations[at + g] = no_location;
  // The device has read the lines that come next.
  prefetch_write(&ring.granules[(end + 2 * image_granules_limit) & ring.mask]);
  prefetch_write(&ring.locations[(end + cache_line_bytes / sizeof(Location)) & ring.mask]);
  return {&ring.granules[at], &ring.published, end};
}

template <class Rules>
bool BasicReplicaLog<Rules>::claim_images(ImageRing& ring, std::uint32_t shard) noexcept {
  Lent& lent = lent_[shard];
  Granule* const granules = lent.granules.load(std::memory_order_acquire);
  if (granules == nullptr || lent.claimed.load(std::memory_order_relaxed) >= lent.rings) return false;
  const std::uint32_t mine = lent.claimed.fetch_add(1, std::memory_order_relaxed);
  if (mine >= lent.rings) return false;
  ring.mask = ring_granules_ - 1;
  ring.first = std::uint64_t{mine} * ring_granules_;
  ring.granules = granules + ring.first;
  ring.locations = lent.locations + ring.first;
  return true;
}

// With the fence, either this load sees the number that a drain has counted, or that drain sees the record and the
// cells (docs/threads.md). While the log is off there is no drain.
template <class Rules>
std::uint32_t BasicReplicaLog<Rules>::launch() const noexcept {
  std::uint64_t word = word_.load(std::memory_order_relaxed);
  if ((word & recording_mask) != 0) {
    fence_seq_cst();
    word = word_.load(std::memory_order_relaxed);
  }
  return static_cast<std::uint32_t>(word >> launch_shift);
}

// The slow path of reserve(): reloads the drains' progress.
template <class Rules>
bool BasicReplicaLog<Rules>::has_room(WriterRing& ring, std::uint32_t shard, std::uint64_t tail,
                                      std::uint64_t records) noexcept {
  ring.head_seen = ring.head.load(std::memory_order_acquire);
  const std::uint64_t used = tail + records - ring.head_seen;
  if (used > ring_records_ / 2 && !wants_drain(shard)) wants_drain_[shard].store(true, std::memory_order_relaxed);
  if (used <= ring_records_) return true;
  overflow(shard);
  return false;
}

template <class Rules>
void BasicReplicaLog<Rules>::overflow(std::uint32_t shard) noexcept {
  const std::uint64_t bit = recording_bit(shard);
  if ((word_.fetch_and(~both_bits(shard), std::memory_order_seq_cst) & bit) != 0) {
    overflows_[shard].fetch_add(1, std::memory_order_relaxed);
  }
}

inline void forget_ring(ImageRing& ring) noexcept {
  ring.taken = ring.published.end.load(std::memory_order_acquire);
  ring.counted = ring.published.count.load(std::memory_order_relaxed);
}
// The same, where no device reads it.
inline void empty_ring(ImageRing& ring) noexcept {
  forget_ring(ring);
  ring.releasing = ring.taken;
  ring.head.store(ring.taken, std::memory_order_release);
}

template <class Rules>
void BasicReplicaLog<Rules>::start(std::uint32_t shard) noexcept {
  for (WriterRing* ring = rings_->first(shard); ring != nullptr; ring = ring->next) {
    const std::uint64_t end = ring->reserved.load(std::memory_order_acquire);
    ring->delivered = end;
    ring->head.store(end, std::memory_order_release);
    empty_ring(ring->images);
  }
  wants_drain_[shard].store(false, std::memory_order_relaxed);
  const bool marks = (word_.load(std::memory_order_relaxed) & marking_bit) != 0;
  word_.fetch_or(marks ? recording_bit(shard) : both_bits(shard), std::memory_order_seq_cst);
}

template <class Rules>
void BasicReplicaLog<Rules>::start_marking() noexcept {
  word_.fetch_or(marking_bit, std::memory_order_seq_cst);
  word_.fetch_and(~alone_bit(0), std::memory_order_seq_cst);
}

template <class Rules>
bool BasicReplicaLog<Rules>::stop_marking() noexcept {
  std::uint64_t word = word_.load(std::memory_order_relaxed);
  do {
    if ((word & recording_bit(0)) == 0) return false;
  } while (!word_.compare_exchange_weak(word, (word & ~marking_bit) | alone_bit(0), std::memory_order_seq_cst,
                                        std::memory_order_relaxed));
  return true;
}

template <class Rules>
void BasicReplicaLog<Rules>::lend_images(std::uint32_t shard, ImageMemory memory) noexcept {
  Lent& lent = lent_[shard];
  if (memory.granules == nullptr) {
    for (WriterRing* ring = rings_->first(shard); ring != nullptr; ring = ring->next) {
      empty_ring(ring->images);
      ring->images.granules = nullptr;
    }
  }
  lent.locations = memory.locations;
  lent.rings = memory.rings;
  lent.claimed.store(0, std::memory_order_relaxed);
  lent.granules.store(memory.granules, std::memory_order_release);
}

template <class Rules>
bool BasicReplicaLog<Rules>::release_images(std::uint32_t shard) noexcept {
  if (!lent_[shard].has_taken) return false;
  bool has_taken = false;
  for (WriterRing* r = rings_->first(shard); r != nullptr; r = r->next) {
    ImageRing& ring = r->images;
    if (ring.head.load(std::memory_order_relaxed) != ring.releasing)
      ring.head.store(ring.releasing, std::memory_order_release);
    has_taken |= ring.releasing != ring.taken;
    ring.releasing = ring.taken;
  }
  lent_[shard].has_taken = has_taken;
  return has_taken;
}

template <class Rules>
void BasicReplicaLog<Rules>::forget_images(std::uint32_t shard) noexcept {
  lent_[shard].has_taken = true;
  for (WriterRing* ring = rings_->first(shard); ring != nullptr; ring = ring->next) forget_ring(ring->images);
}

template <class Rules>
void BasicReplicaLog<Rules>::stop(std::uint32_t shard) noexcept {
  word_.fetch_and(~both_bits(shard), std::memory_order_seq_cst);
  wants_drain_[shard].store(false, std::memory_order_relaxed);
}

template <class Rules>
void BasicReplicaLog<Rules>::count(Drained& drained, std::uint32_t shard) noexcept {
  const std::uint64_t before = word_.fetch_add(launch_one, std::memory_order_seq_cst);
  fence_seq_cst();
  drained.launch = static_cast<std::uint32_t>((before + launch_one) >> launch_shift);
  drained.recording = (before & recording_bit(shard)) != 0;
  Rules::reached(DrainPoint::counted);
}

// False: there is no room for all. Then no cell is delivered either, which could overtake an image.
template <class Rules>
bool BasicReplicaLog<Rules>::take_images(Drained& drained, std::uint32_t shard, std::uint64_t cells_room,
                                         ReplicaImages* images) noexcept {
  if (images == nullptr || !images->on()) {
    forget_images(shard);
    return true;
  }
  bool all = true;
  for (WriterRing* r = rings_->first(shard); r != nullptr; r = r->next) {
    ImageRing& ring = r->images;
    const std::uint64_t published = ring.published.end.load(std::memory_order_acquire);
    if (published == ring.taken) continue;
    all = images->append_rewritten(ring, published, cells_room);
    if (!all) break;
    const std::uint64_t count = ring.published.count.load(std::memory_order_relaxed);
    drained.images += count - ring.counted;
    lent_[shard].has_taken = true;
    ring.counted = count;
    ring.taken = published;
  }
  images->end_rewritten();
  return all;
}

template <class Rules>
Drained BasicReplicaLog<Rules>::drain(const FollowedIndex& index, ReplicaExtent extent, DirtyQueue<>& out,
                                      ReplicaImages* images) noexcept {
  Drained drained;
  const std::uint32_t shard = extent.shard.number;
  if constexpr (!Rules::looks_after_count) drained.table = index.followed();
  Rules::reached(DrainPoint::begin);
  if constexpr (Rules::counts_first) count(drained, shard);
  if constexpr (Rules::looks_after_count) drained.table = index.followed();
  drained.complete = true;
  if (wants_drain(shard)) wants_drain_[shard].store(false, std::memory_order_relaxed);
  if (!take_images(drained, shard, out.room(), images)) {
    drained.complete = false;
    return drained;
  }
  const std::uint64_t room = images == nullptr ? out.room() : std::min(out.room(), images->room_cells());
  // A table that is no longer searched is not read: it may be freed.
  if (drained.table.serial != extent.table) extent.cells = 0;

  for (WriterRing* ring = rings_->first(shard); ring != nullptr; ring = ring->next) {
    std::uint64_t committed = ring->committed.load(std::memory_order_acquire);
    const std::uint64_t reserved = ring->reserved.load(std::memory_order_acquire);
    const std::uint64_t head = ring->head.load(std::memory_order_relaxed);
    Rules::reached(DrainPoint::noted);
    std::uint64_t end = reserved;
    if (extent.cells != 0) {
      end = std::min(reserved, head + room - drained.cells);
      drained.complete &= end == reserved;
      drained.cells += deliver(*ring, head, end, drained.table.cells, extent, out);
    }
    Rules::reached(DrainPoint::read);
    const std::uint64_t repeated = std::min(ring->delivered, end) - head;
    drained.repeats += repeated;
    drained.records += end - head - repeated;
    ring->delivered = std::max(ring->delivered, end);
    if constexpr (!Rules::commits_before_cells) committed = ring->committed.load(std::memory_order_acquire);
    if constexpr (!Rules::keeps_uncommitted) committed = reserved;
    const std::uint64_t forget = std::min(committed, end);
    if (forget > head) ring->head.store(forget, std::memory_order_release);
  }
  if constexpr (!Rules::counts_first) count(drained, shard);
  return drained;
}

// Acquire, although a weaker order would do between reads of one cell: a thread that reads a cell that a writer has
// changed must find that writer's stripe locked, or stamped.
template <class Rules>
std::uint64_t BasicReplicaLog<Rules>::deliver(const WriterRing& ring, std::uint64_t begin, std::uint64_t end,
                                              const CellArray& cells, ReplicaExtent extent,
                                              DirtyQueue<>& out) noexcept {
  constexpr std::uint64_t ahead = 24;
  const std::uint64_t wanted = LogRecord::of({extent.table, 0}).table();
  const auto record = [&](std::uint64_t at) { return LogRecord{ring.records[at & ring.mask]}; };
  const auto prefetch = [&](std::uint64_t at) {
    if (at < end && record(at).table() == wanted) prefetch_read(cells.at(record(at).cell_index()));
  };
  std::uint64_t delivered = 0;
  for (std::uint64_t at = begin; at < std::min(begin + ahead, end); ++at) prefetch(at);
  for (std::uint64_t at = begin; at < end; ++at) {
    prefetch(at + ahead);
    Rules::reached(DrainPoint::cell);
    const LogRecord r = record(at);
    const std::uint64_t i = r.cell_index();
    const std::uint64_t local = extent.shard.local_cell(i);
    if (r.table() != wanted || local >= extent.cells) continue;
    out.push({local, ScalarLanes::at(cells.at(i)).load(std::memory_order_acquire)});
    ++delivered;
  }
  return delivered;
}

template <class Rules>
std::uint64_t BasicReplicaLog<Rules>::records_waiting(std::uint32_t shard) const noexcept {
  std::uint64_t sum = 0;
  for (const WriterRing* ring = rings_->first(shard); ring != nullptr; ring = ring->next) {
    const std::uint64_t head = ring->head.load(std::memory_order_acquire);
    sum += ring->reserved.load(std::memory_order_relaxed) - head;
    sum += ring->images.published.end.load(std::memory_order_relaxed) - ring->images.taken;
  }
  return sum;
}

template <class Rules>
std::uint64_t BasicReplicaLog<Rules>::memory_bytes(std::uint32_t shard) const noexcept {
  std::uint64_t sum = 0;
  for (const WriterRing* ring = rings_->first(shard); ring != nullptr; ring = ring->next) {
    sum += sizeof(WriterRing) + ring->capacity() * sizeof(std::uint64_t);
  }
  return sum;
}

}  // namespace tandem
