// BasicReplica's rests: leaving, and coming back by what the dirty map names (docs/decisions/0057-warm-rest.md).
#pragma once
#include "placement/mirrored/replica-inl.hpp"

namespace tandem {

// Of table and heap: if more has changed, all is sent.
inline constexpr double return_share_max = 0.25;

template <class Rules, class Log>
bool BasicReplica<Rules, Log>::rest() noexcept {
  const std::lock_guard lock(mutex_);
  DirtyMap* const dirty = log_.dirty();
  if (stats_.state != ReplicaState::current || dirty == nullptr || !dirty->follows(serial_)) return false;
  if (images_.given_up()) return false;  // an upload tries to have them again
  dirty->use();
  log_.start_marking();
  stamp_ = epochs_.retire_stamp();
  is_log_off_ = false;
  stats_.state = ReplicaState::leaving;
  return true;
}

// One step of leaving, or of a rest.
template <class Rules, class Log>
void BasicReplica<Rules, Log>::settle() noexcept {
  if (!is_log_off_) {
    if (Rules::waits_to_rest && !epochs_.is_safe(stamp_)) return;
    // Now all writers mark. What others have noted is sent for the last time.
    if (Rules::drains_last) {
      const Drained drained = collect();
      if (stats_.state != ReplicaState::leaving || !send() || !drained.complete) return;
    }
    log_.stop(shard_.number);
    is_log_off_ = true;
  }
  epoch_.enter();
  const bool has_grown = index_.followed().serial != serial_;
  epoch_.exit();
  if (has_grown || !log_.dirty()->is_whole()) return stay_away();
  if (in_flight_.size() == 0) stats_.state = ReplicaState::resting;
}

// The rest goes on without the device's memory.
template <class Rules, class Log>
void BasicReplica<Rules, Log>::stay_away() noexcept {
  become_absent(ReplicaAbsence::rests);
}

// start() of a replica that is leaving or rests.
template <class Rules, class Log>
void BasicReplica<Rules, Log>::wake() noexcept {
  if (!is_log_off_) {
    // Nothing was missed. If the log has overflowed, the next drain sees that.
    log_.forget_marks();
    stats_.state = ReplicaState::current;
    return;
  }
  // Before the log is on: nobody drains it while all is looked at.
  const double share = log_.dirty()->share();
  stats_.dirty_permille = static_cast<std::uint64_t>(share * 1000);
  is_too_dirty_ = share > return_share_max;
  bucket_ = block_ = restarts_ = 0;
  position_ = cells_;  // drains deliver all cells
  restart_log_ = true;
  stats_.state = ReplicaState::returning;
}

// One step of a return.
template <class Rules, class Log>
void BasicReplica<Rules, Log>::come_back(std::uint64_t budget_bytes) noexcept {
  DirtyMap& dirty = *log_.dirty();
  if (is_too_dirty_ || !dirty.is_whole()) return begin_copy();
  static_cast<void>(send());
  while (stats_.state == ReplicaState::returning && budget_bytes != 0 && !restart_log_) {
    if (bucket_ == dirty.buckets() && block_ == dirty.blocks()) break;
    const std::uint64_t before = bucket_ + block_;
    send_marked(budget_bytes);
    if (bucket_ + block_ == before) return;  // the device has not taken what was sent before
  }
  if (stats_.state != ReplicaState::returning || restart_log_ || bucket_ != dirty.buckets() ||
      block_ != dirty.blocks() || queue_.waiting() != 0 || images_.has_unsent())
    return;
  if (!log_.stop_marking()) return lose_changes();
  if (!dirty.is_whole()) return begin_copy();
  ++stats_.returns_warm;
  stats_.state = ReplicaState::current;
}

template <class Rules, class Log>
void BasicReplica<Rules, Log>::append_buckets(std::span<const std::uint32_t> buckets, const CellArray& cells) noexcept {
  constexpr std::size_t ahead = 12;
  const auto prefetch = [&](std::size_t i) {
    if (i < buckets.size()) prefetch_read(cells.at(std::uint64_t{buckets[i]} * bucket_cells));
  };
  for (std::size_t i = 0; i < ahead; ++i) prefetch(i);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    prefetch(i + ahead);
    const std::uint64_t first = std::uint64_t{buckets[i]} * bucket_cells;
    for (std::uint64_t c = first; c < first + bucket_cells; ++c)
      queue_.push({c, ScalarLanes::at(cells.at(c)).load(std::memory_order_acquire)});
  }
}

// Sends what some bytes of the map stand for.
template <class Rules, class Log>
void BasicReplica<Rules, Log>::send_marked(std::uint64_t& budget_bytes) noexcept {
  epoch_.enter();
  const FollowedTable table = index_.followed();
  if (table.serial != serial_) {
    follow(table);
    epoch_.exit();
    return;
  }
  DirtyMap& dirty = *log_.dirty();
  const std::uint64_t from = bucket_ + block_;
  std::size_t taken = 0;
  std::uint64_t bytes = 0;
  if (bucket_ != dirty.buckets()) {
    const std::uint64_t room = std::min<std::uint64_t>(queue_.room() / bucket_cells, taken_.size());
    bucket_ = dirty.take_buckets(bucket_, {taken_.data(), room}, taken);
    append_buckets({taken_.data(), taken}, table.cells);
    bytes = taken * bucket_cells * sizeof(DirtyCell);
  } else if (!images_.on()) {
    block_ = dirty.blocks();
  } else {
    // As for a chunk of an upload, images of the cells that drains may deliver have their room.
    const std::uint64_t room =
        std::min<std::uint64_t>(images_.room_blocks(queue_.room(), DirtyMap::block_granules), taken_.size());
    block_ = dirty.take_blocks(block_, {taken_.data(), room}, taken);
    const std::uint64_t before = images_.appended();
    images_.append_blocks({taken_.data(), taken}, DirtyMap::block_granules);
    bytes = (images_.appended() - before) * (sizeof(Granule) + sizeof(Location));
  }
  epoch_.exit();
  stats_.return_bytes += bytes;
  // To look at a byte of the map takes time, too: an eighth of that of sending one.
  budget_bytes -= std::min(budget_bytes, bytes + (bucket_ + block_ - from) / 8);
  static_cast<void>(send());
}

// Optional: without memory the replica comes back from a rest by another upload.
template <class Rules, class Log>
void BasicReplica<Rules, Log>::make_dirty_map() noexcept {
  if (log_.dirty() == nullptr) return;
  epoch_.enter();
  const FollowedTable table = index_.followed();
  epoch_.exit();
  // Else the upload begins again. The map only keeps where the table is.
  if (table.serial == serial_) log_.dirty()->make(table);
}

// The log has overflowed. During a return writers mark what they change, too.
template <class Rules, class Log>
void BasicReplica<Rules, Log>::lose_changes() noexcept {
  if (stats_.state == ReplicaState::leaving) return stay_away();
  restart_log_ = true;
  constexpr unsigned restarts_max = 3;
  if (stats_.state == ReplicaState::returning && ++restarts_ < restarts_max) {
    bucket_ = block_ = 0;
  } else if (serial_ != 0) {
    begin_copy();
  }
}

}  // namespace tandem
