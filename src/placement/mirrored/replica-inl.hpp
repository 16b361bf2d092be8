// BasicReplica's definitions: for replica.cpp, and for tests with other rules.
#pragma once
#include <algorithm>
#include <new>
#include <span>
#include <thread>
#include <utility>

#include "index/cuckoo/lanes_scalar.hpp"
#include "placement/mirrored/replica.hpp"

namespace tandem {

template <class Rules, class Log>
BasicReplica<Rules, Log>::BasicReplica(Device& device, const FollowedIndex& index, Log& log, EpochDomain& epochs,
                                       const ReplicaOptions& options, const Heap* heap)
    : device_(device),
      index_(index),
      log_(log),
      epochs_(epochs),
      options_(options),
      shard_{options.shard, index.shard_bits()},
      epoch_(epochs),
      images_(heap, options.images) {
  TD_ASSERT(options.chunks != 0 && options.chunk_bytes != 0 && options.chunk_bytes % sizeof(Bucket) == 0);
  retired_.reserve(4);
}

template <class Rules, class Log>
BasicReplica<Rules, Log>::~BasicReplica() {
  log_.stop(shard_.number);
  log_.forget_marks();
  // A stream's destructor waits for its work; on a hung device, for ever.
  if (stream_ != nullptr && stream_->wait(stream_->mark(), options_.end_wait) == DeviceStatus::pending)
    device_.abandon();
  log_.lend_images(shard_.number, {});
}

template <class Rules, class Log>
DeviceMark BasicReplica<Rules, Log>::waits_for() noexcept {
  const std::lock_guard lock(mutex_);
  return in_flight_.size() != 0 && stats_.state != ReplicaState::lost ? in_flight_.front().mark : 0;
}

// --- states

template <class Rules, class Log>
ReplicaState BasicReplica<Rules, Log>::start() noexcept {
  const std::lock_guard lock(mutex_);
  if (stats_.state == ReplicaState::leaving || stats_.state == ReplicaState::resting) wake();
  if (stats_.state != ReplicaState::absent || !make_buffers()) return stats_.state;
  if (stats_.absence == ReplicaAbsence::rests) ++stats_.returns_whole;
  stats_.absence = ReplicaAbsence::not_started;
  failures_in_a_row_ = 0;
  serial_ = 0;
  restart_log_ = true;
  images_.try_again();
  return stats_.state = ReplicaState::uploading;
}

template <class Rules, class Log>
void BasicReplica<Rules, Log>::stop(ReplicaAbsence why) noexcept {
  const std::lock_guard lock(mutex_);
  if (stats_.state != ReplicaState::lost) become_absent(why);
  release_retired();
}

template <class Rules, class Log>
void BasicReplica<Rules, Log>::become_absent(ReplicaAbsence why) noexcept {
  log_.stop(shard_.number);
  log_.forget_marks();
  queue_.drop_unsent();
  position_ = 0;
  retire_table();
  images_.release(false);
  stats_.state = ReplicaState::absent;
  stats_.absence = why;
}

template <class Rules, class Log>
void BasicReplica<Rules, Log>::become_lost() noexcept {
  log_.stop(shard_.number);
  log_.forget_marks();
  queue_.drop_unsent();
  position_ = 0;
  table_.reset();
  retired_.clear();
  images_.release(false);
  stats_.state = ReplicaState::lost;
}

template <class Rules, class Log>
bool BasicReplica<Rules, Log>::check(DeviceStatus status) noexcept {
  if (status == DeviceStatus::ok) return true;
  if (status == DeviceStatus::lost) {
    become_lost();
    return false;
  }
  ++stats_.failures;
  broken_copy_ = copy_;
  if (++failures_in_a_row_ >= options_.failures_max) {
    become_absent(ReplicaAbsence::failures);
  } else if (stats_.state == ReplicaState::leaving || stats_.state == ReplicaState::resting) {
    stay_away();
  } else {
    begin_copy();
    // The upload writes cells that searches on other streams may still read.
    stamp_ = epochs_.retire_stamp();
    waits_ = true;
  }
  return false;
}

// Starts again from the first cell. Work queued for the copy before runs first, or is for a retired table.
template <class Rules, class Log>
void BasicReplica<Rules, Log>::begin_copy() noexcept {
  if (stats_.state == ReplicaState::returning) ++stats_.returns_whole;
  if (log_.dirty() != nullptr && log_.dirty()->is_used()) {
    // The map is made anew once no writer marks.
    log_.forget_marks();
    stamp_ = epochs_.retire_stamp();
    waits_ = true;
  }
  queue_.drop_unsent();
  images_.drop_unsent();
  position_ = 0;
  zeroed_ = false;
  ++copy_;
  ++stats_.uploads;
  stats_.state = ReplicaState::uploading;
}

template <class Rules, class Log>
void BasicReplica<Rules, Log>::follow(const FollowedTable& table) noexcept {
  const TableShape shape{.mask = shard_.local_mask(table.shape.mask), .sets = table.shape.sets};
  if (table_ != nullptr && shape != shape_) retire_table();
  serial_ = table.serial;
  shape_ = shape;
  cells_ = shape.cells();
  begin_copy();
}

// --- memory

template <class Rules, class Log>
bool BasicReplica<Rules, Log>::make_buffers() noexcept {
  try {
    if (stream_ != nullptr) return true;
    PinnedArray<DirtyCell> queue_memory(device_, options_.queue_cells);
    PinnedArray<std::uint64_t> chunk_memory(device_, options_.chunks * options_.chunk_bytes / sizeof(std::uint64_t));
    stream_ = device_.make_stream();
    queue_memory_ = std::move(queue_memory);
    chunk_memory_ = std::move(chunk_memory);
    queue_ = DirtyQueue<>({queue_memory_.data(), queue_memory_.count()});
    return true;
  } catch (const DeviceError& e) {
    if (e.status() == DeviceStatus::lost) {
      become_lost();
    } else {
      stats_.absence = ReplicaAbsence::out_of_memory;
    }
  } catch (const std::bad_alloc&) {
    stats_.absence = ReplicaAbsence::out_of_memory;
  }
  return false;
}

// False: no memory, for now or at all. Images are optional.
template <class Rules, class Log>
bool BasicReplica<Rules, Log>::make_table() noexcept {
  if (table_ != nullptr) return true;
  try {
    const std::uint64_t buckets = cells_ / bucket_cells;
    DeviceArray<Bucket> cells(device_, buckets);
    DeviceArray<std::uint32_t> winners(device_, cells_);
    make_images();
    table_ = std::make_shared<ReplicaTable>(std::move(cells), std::move(winners), images_.memory());
    return true;
  } catch (const DeviceError& e) {
    if (e.status() == DeviceStatus::lost) {
      become_lost();
    } else if (retired_.empty() && before_.expired()) {
      if (!images_.on()) {
        become_absent(ReplicaAbsence::out_of_memory);
      } else {
        images_.release(true);
      }
    }
  } catch (const std::bad_alloc&) {
    become_absent(ReplicaAbsence::out_of_memory);
  }
  return false;
}

template <class Rules, class Log>
void BasicReplica<Rules, Log>::make_images() {
  if (!images_.is_wanted()) return;
  try {
    images_.make(device_, options_.queue_cells + options_.chunk_bytes / sizeof(std::uint64_t), log_.ring_granules());
    if (has_lent_ || images_.ring_memory().granules == nullptr) return;
    log_.lend_images(shard_.number, images_.ring_memory());
    has_lent_ = true;
  } catch (const DeviceError& e) {
    if (e.status() == DeviceStatus::lost || !retired_.empty() || !before_.expired()) throw;
    images_.release(true);
  }
}

template <class Rules, class Log>
void BasicReplica<Rules, Log>::retire_table() noexcept {
  if (table_ == nullptr) return;
  before_ = table_;
  retired_.push_back({std::move(table_)});
  table_ = nullptr;
}

template <class Rules, class Log>
void BasicReplica<Rules, Log>::release_retired() noexcept {
  for (Retired& r : retired_) {
    if (r.mark == 0) r.mark = stream_->mark();
  }
  std::erase_if(retired_, [this](const Retired& r) { return stream_->poll(r.mark) != DeviceStatus::pending; });
}

// --- the device's progress

template <class Rules, class Log>
void BasicReplica<Rules, Log>::poll_in_flight() noexcept {
  while (in_flight_.size() != 0 && stats_.state != ReplicaState::lost) {
    const InFlight oldest = in_flight_.front();
    const DeviceStatus status = stream_->poll(oldest.mark);
    if (status == DeviceStatus::pending) break;
    if (status == DeviceStatus::lost) {
      become_lost();
      break;
    }
    ++in_flight_.begin;
    settled_ = oldest.mark;
    queue_.release(oldest.queue_position);
    images_.release_until(oldest.images_position);
    if (oldest.upload) ++chunks_done_;
    // Launches of a replaced copy may still be in flight; they are invalid, too.
    if (status != DeviceStatus::ok) broken_copy_ = std::max(broken_copy_, oldest.copy);
    if (oldest.copy != copy_ || stats_.state == ReplicaState::absent) continue;  // it is of a retired copy
    if (check(status) && !oldest.upload) failures_in_a_row_ = 0;
  }
  release_rings();
  if (stats_.state != ReplicaState::lost && !retired_.empty()) release_retired();
}

// In steps: what drains had taken at the last one is free once the device has read what was queued by then.
template <class Rules, class Log>
void BasicReplica<Rules, Log>::release_rings() noexcept {
  rings_until_ = std::min(rings_until_, images_.appended());  // the rest was dropped
  const std::uint64_t read = Rules::keeps_rings ? images_.released() : images_.appended();
  while (read >= rings_until_ && log_.release_images(shard_.number)) rings_until_ = images_.appended();
}

template <class Rules, class Log>
DeviceStatus BasicReplica<Rules, Log>::poll(const ReplicaLaunch& launch) noexcept {
  const std::lock_guard lock(mutex_);
  poll_in_flight();
  if (stats_.state == ReplicaState::lost) return DeviceStatus::lost;
  if (launch.copy <= broken_copy_) return DeviceStatus::failed;
  return settled_ >= launch.mark ? DeviceStatus::ok : DeviceStatus::pending;
}

// --- upload

template <class Rules, class Log>
ReplicaState BasicReplica<Rules, Log>::step(std::uint64_t budget_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  struct Tell {
    BasicReplica& replica;
    ~Tell() { replica.has_images_.store(replica.images_.on(), std::memory_order_relaxed); }
  };
  const Tell tell{*this};
  if (stream_ != nullptr) poll_in_flight();
  if (device_.lost() && stats_.state != ReplicaState::lost) become_lost();
  if (stats_.state == ReplicaState::current) age_marks();
  if (stats_.state == ReplicaState::leaving || stats_.state == ReplicaState::resting) settle();
  if (stats_.state == ReplicaState::returning && has_begun()) come_back(budget_bytes);
  if (stats_.state != ReplicaState::uploading || !has_begun()) return stats_.state;
  if (serial_ == 0) {
    epoch_.enter();
    follow(index_.followed());
    epoch_.exit();
  }
  if (!make_table()) return stats_.state;
  if (!zeroed_) {
    make_dirty_map();
    if (!check(images_.make_empty(*stream_))) return stats_.state;
    if (!check(stream_->zero(table_->winners.bytes_at(), table_->winners.bytes()))) return stats_.state;
    zeroed_ = true;
  }
  while (budget_bytes != 0 && position_ != cells_ && send_chunk(budget_bytes)) {
  }
  if (stats_.state == ReplicaState::uploading && position_ == cells_) stats_.state = ReplicaState::current;
  return stats_.state;
}

// Whether what is sent may be read: the log is on, and the batches that began before have ended.
template <class Rules, class Log>
bool BasicReplica<Rules, Log>::has_begun() noexcept {
  if (restart_log_) {
    // With a device that does not answer the log would only overflow again.
    if (in_flight_.size() != 0) return false;
    log_.start(shard_.number);
    stamp_ = epochs_.retire_stamp();
    restart_log_ = false;
    waits_ = true;
  }
  const bool waits = stats_.state == ReplicaState::returning ? Rules::waits_to_return : Rules::waits_for_batches;
  if (waits_ && waits && !epochs_.is_safe(stamp_)) return false;
  waits_ = false;
  return true;
}

// False: nothing more in this step.
template <class Rules, class Log>
bool BasicReplica<Rules, Log>::send_chunk(std::uint64_t& budget_bytes) noexcept {
  if (Rules::waits_for_marks && chunks_sent_ - chunks_done_ >= options_.chunks) return false;
  if (in_flight_.size() == InFlightList::capacity) return false;
  const std::uint64_t chunk_cells = options_.chunk_bytes / sizeof(std::uint64_t);
  const std::uint64_t wanted = std::max<std::uint64_t>(budget_bytes / sizeof(Bucket), 1) * bucket_cells;
  // The images need room for as many cells as the queue of changes has room for.
  const std::uint64_t room = images_.room_cells() - std::min(images_.room_cells(), queue_.room());
  const std::uint64_t cells = std::min({chunk_cells, wanted, cells_ - position_, room / bucket_cells * bucket_cells});
  if (cells == 0) return false;
  const std::uint64_t slot = chunks_sent_ % options_.chunks * chunk_cells;

  epoch_.enter();
  const FollowedTable table = index_.followed();
  if (table.serial != serial_) {
    follow(table);
    epoch_.exit();
    return false;
  }
  if (Rules::forgets_images && position_ == 0) log_.forget_images(shard_.number);
  for (std::uint64_t i = 0; i < cells; ++i) {
    const std::uint64_t* const cell = table.cells.at(shard_.cell(position_ + i));
    chunk_memory_[slot + i] = ScalarLanes::at(cell).load(std::memory_order_acquire);
  }
  images_.append(std::span<const std::uint64_t>(&chunk_memory_[slot], cells));
  epoch_.exit();

  const std::uint64_t granules_before = images_.sent();
  DeviceStatus status = stream_->copy_to_device(table_->buckets.bytes_at() + position_ * sizeof(std::uint64_t),
                                                &chunk_memory_[slot], cells * sizeof(std::uint64_t));
  if (status != DeviceStatus::ok) return check(status);
  status = images_.send(*stream_);
  const std::uint64_t bytes = cells * sizeof(std::uint64_t) + (images_.sent() - granules_before) * sizeof(Granule);
  position_ += cells;
  ++chunks_sent_;
  last_mark_ = stream_->mark();
  in_flight_.push({last_mark_, copy_, 0, images_.sent(), true});
  stats_.uploaded_bytes += bytes;
  budget_bytes -= std::min(budget_bytes, bytes);
  return check(status);  // after what was queued is on the list
}

// --- drain

// Reads the log into pinned memory; needs no device.
template <class Rules, class Log>
Drained BasicReplica<Rules, Log>::collect() noexcept {
  epoch_.enter();
  const std::uint64_t begin = queue_.appended();
  // Until an upload has begun, images are forgotten: it reads all items.
  const Drained drained = log_.drain(index_, {serial_, position_, shard_}, queue_, position_ != 0 ? &images_ : nullptr);
  // After all records were noted, and in the epoch in which the cells were read.
  images_.append(queue_.since(begin));
  if (!drained.recording && !restart_log_) lose_changes();
  if (is_following() && serial_ != 0 && drained.table.serial != serial_) {
    if (stats_.state == ReplicaState::leaving) {
      stay_away();
    } else {
      follow(drained.table);
    }
  }
  epoch_.exit();
  ++stats_.drains;
  stats_.records += drained.records;
  stats_.repeats += drained.repeats;
  stats_.rewrites += drained.images;
  return drained;
}

template <class Rules, class Log>
bool BasicReplica<Rules, Log>::send() noexcept {
  if (in_flight_.size() == InFlightList::capacity) return queue_.waiting() == 0 && !images_.has_unsent();
  std::uint64_t sent = 0;
  const std::uint64_t granules_before = images_.sent();
  DeviceStatus status = images_.send(*stream_);
  while (status == DeviceStatus::ok && queue_.waiting() != 0) {
    const std::uint64_t count = queue_.unsent().size();
    status = stream_->launch(store_cells, {{table_->buckets.at(), shape_},
                                           table_->winners.at(),
                                           queue_memory_.at(queue_.offset()),
                                           static_cast<std::uint32_t>(count)});
    if (status != DeviceStatus::ok) break;
    queue_.send(count);
    sent += count;
  }
  if (sent != 0 || images_.sent() != granules_before) {
    last_mark_ = stream_->mark();
    in_flight_.push({last_mark_, copy_, queue_.sent(), images_.sent(), false});
    stats_.cells += sent;
    if (!Rules::waits_for_marks) queue_.release(queue_.sent());
  }
  // What was queued is on the list by now, so its room will be released.
  return check(status) && queue_.waiting() == 0;
}

template <class Rules, class Log>
ReplicaLaunch BasicReplica<Rules, Log>::drain() noexcept {
  const std::lock_guard lock(mutex_);
  ReplicaLaunch launch;
  is_relieved_.store(false, std::memory_order_relaxed);
  if (stream_ != nullptr) poll_in_flight();
  if (!is_following()) return launch;
  const Drained drained = collect();
  const bool all_sent = send();
  if (stats_.state != ReplicaState::current) return launch;
  if (!drained.complete || !all_sent) {
    ++stats_.busy;
    launch.status = ReplicaLaunch::Status::busy;
    return launch;
  }
  return {ReplicaLaunch::Status::ready,
          drained.launch,
          drained.table.whole,
          {table_->buckets.at(), shape_},
          images_.images(),
          last_mark_,
          copy_,
          table_};
}

template <class Rules, class Log>
void BasicReplica<Rules, Log>::age_marks() noexcept {
  if (!images_.are_marks_old() || !check(images_.clear_marks(*stream_))) return;
  ++stats_.mark_clears;
}

template <class Rules, class Log>
void BasicReplica<Rules, Log>::relieve() noexcept {
  if (!wants_relief()) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  // The request may be of a writer that saw the log on just before.
  if (!is_following()) return log_.stop(shard_.number);
  collect();
  ++stats_.relieved;
  is_relieved_.store(true, std::memory_order_relaxed);
}

template <class Rules, class Log>
ReplicaStats BasicReplica<Rules, Log>::stats() noexcept {
  // Bounded: the scheduler's thread may be blocked in a driver call.
  constexpr int tries = 1000;
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (int i = 0; i < tries && !lock.owns_lock(); ++i) {
    std::this_thread::yield();
    static_cast<void>(lock.try_lock());
  }
  if (!lock.owns_lock()) {
    const std::lock_guard told(told_mutex_);
    return told_;
  }
  ReplicaStats s = stats_;
  s.overflows = log_.overflows(shard_.number);
  s.lag = log_.records_waiting(shard_.number) + queue_.waiting() + queue_.in_flight() + images_.waiting();
  if (table_ != nullptr) s.device_bytes = table_->buckets.bytes() + table_->winners.bytes();
  for (const Retired& r : retired_) s.device_bytes += r.table->buckets.bytes() + r.table->winners.bytes();
  s.image_bytes = images_.device_bytes();
  s.device_bytes += s.image_bytes;
  s.images_on = images_.on();
  s.images_given_up = images_.given_up();
  s.granules = images_.granules_sent();
  s.pinned_bytes = queue_memory_.bytes() + chunk_memory_.bytes() + images_.pinned_bytes();
  s.log_bytes = log_.memory_bytes(shard_.number);
  if (const DirtyMap* const dirty = log_.dirty(); dirty != nullptr) {
    s.map_bytes = dirty->bytes();
    s.map_lacks_bytes = dirty->lacking_bytes();
  }
  const std::lock_guard told(told_mutex_);
  return told_ = s;
}

}  // namespace tandem
