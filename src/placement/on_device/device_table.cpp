#include "placement/on_device/device_table.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace tandem {
namespace {

using Steady = std::chrono::steady_clock;

// How often the scheduler settles idle lanes, retires slots and checks the load.
constexpr auto look_every = std::chrono::milliseconds(2);
constexpr std::uint64_t buckets_min = 2;

// Buckets for `cells`, halved until the device has memory for them.
DeviceArray<Bucket> make_buckets(Device& device, std::uint64_t cells) {
  for (std::uint64_t buckets = std::bit_floor(std::clamp(cells / bucket_cells, buckets_min, Table::buckets_max));;
       buckets /= 2) {
    try {
      return DeviceArray<Bucket>(device, buckets);
    } catch (const DeviceError& e) {
      if (e.status() != DeviceStatus::out_of_memory || buckets == buckets_min) throw;
    }
  }
}

}  // namespace

DeviceTable::DeviceTable(Device& device, OffloadIndex& index, IndexPlacement& placement, EpochDomain& epochs,
                         Heap& heap, const DeviceTableOptions& options)
    : device_(device),
      index_(index),
      placement_(placement),
      epochs_(epochs),
      heap_(heap),
      options_(options),
      shard_{options.shard, index.shard_bits()},
      cache_(heap),
      changes_(device, options.changes_max),
      done_there_(device, options.changes_max),
      done_(device, options.changes_max),
      buckets_(make_buckets(device, options.cells)),
      taken_(new Overlay::Taken[options.changes_max]),
      stream_(device.make_stream()),
      change_cycle_us_(options.change_cycle.count()) {
  const DeviceStatus status = stream_->zero(buckets_.bytes_at(), buckets_.bytes());
  if (status != DeviceStatus::ok) throw DeviceError(status, "the table's memory cannot be cleared");
}

DeviceTable::~DeviceTable() {
  if (stream_->wait(stream_->mark(), options_.end_wait) == DeviceStatus::pending) device_.abandon();
}

void DeviceTable::load(std::chrono::milliseconds patience) {
  std::uint32_t count = 0;
  const auto send = [&] {
    DeviceStatus status = send_changes(count);
    if (status == DeviceStatus::ok) status = stream_->wait(stream_->mark(), patience);
    if (status == DeviceStatus::pending) device_.abandon();
    if (status != DeviceStatus::ok) throw DeviceError(status, "the index cannot be brought to the device");
    if (std::find(done_.data(), done_.data() + count, 0) != done_.data() + count)
      throw DeviceError(DeviceStatus::out_of_memory, "the device has no room for the index");
    count = 0;
  };
  index_.for_each_to_move(
      [&](Fingerprint f, Location l) {
        if (Shard::number_of(f, shard_.bits) != shard_.number) return;
        changes_[count++] = {shard_.local(f), no_location, l};
        if (count == options_.changes_max) send();
      },
      [](Fingerprint, Location) {});
  send();
}

ReplicaState DeviceTable::start() noexcept {
  if (state_.load(std::memory_order_relaxed) == ReplicaState::absent && !device_.lost())
    state_.store(ReplicaState::current, std::memory_order_relaxed);
  if (device_.lost()) give_up();
  return state_.load(std::memory_order_relaxed);
}

void DeviceTable::stop(ReplicaAbsence /*why*/) noexcept { give_up(); }

void DeviceTable::give_up() noexcept {
  state_.store(ReplicaState::lost, std::memory_order_relaxed);
  in_flight_ = 0;
  device_.abandon();
  placement_.leave();
}

ReplicaState DeviceTable::step(std::uint64_t) noexcept {
  if (state_.load(std::memory_order_relaxed) != ReplicaState::current) return state_.load(std::memory_order_relaxed);
  if (device_.lost() || !placement_.can_search()) {
    give_up();
  } else {
    land_changes();
    age();
  }
  return state_.load(std::memory_order_relaxed);
}

bool DeviceTable::is_busy() const noexcept {
  return state_.load(std::memory_order_relaxed) == ReplicaState::current && (in_flight_ != 0 || group_is_open_);
}

bool DeviceTable::wants_drain() const noexcept {
  return state_.load(std::memory_order_relaxed) == ReplicaState::current && in_flight_ == 0 &&
         overlay().has_pending() &&
         (group_is_open_ ||
          Steady::now() - last_group_ >= std::chrono::microseconds(change_cycle_us_.load(std::memory_order_relaxed)));
}

ReplicaLaunch DeviceTable::drain() noexcept {
  ReplicaLaunch launch;
  if (state_.load(std::memory_order_relaxed) == ReplicaState::current) {
    land_changes();
    if (wants_drain()) launch_changes();
  }
  if (state_.load(std::memory_order_relaxed) != ReplicaState::current) return launch;
  launch.status = ReplicaLaunch::Status::ready;
  launch.whole = true;
  launch.index = view();
  return launch;
}

// A failed change modified nothing, so it does not affect the searches of other launches.
DeviceStatus DeviceTable::poll(const ReplicaLaunch&) noexcept {
  return device_.lost() ? DeviceStatus::lost : DeviceStatus::ok;
}

DeviceStatus DeviceTable::send_changes(std::uint32_t count) noexcept {
  const DeviceStatus status =
      stream_->launch(OffloadIndex::device_change, {view(), changes_.at(), done_there_.at(), count});
  return status == DeviceStatus::ok ? stream_->copy_to_host(done_.data(), done_there_.bytes_at(), count) : status;
}

void DeviceTable::launch_changes() noexcept {
  if (!group_is_open_) {
    overlay().begin_group();
    group_is_open_ = true;
    last_group_ = Steady::now();
  }
  const std::uint32_t count = overlay().take(changes_.data(), taken_.get(), options_.changes_max);
  if (shard_.bits != 0) {
    for (std::uint32_t i = 0; i < count; ++i) changes_[i].f = shard_.local(changes_[i].f);
  }
  in_flight_count_ = count;
  if (send_changes(count) != DeviceStatus::ok) return give_up();
  in_flight_ = stream_->mark();
  launches_.fetch_add(1, std::memory_order_relaxed);
  changed_.fetch_add(count, std::memory_order_relaxed);
}

void DeviceTable::land_changes() noexcept {
  if (in_flight_ == 0) return;
  const DeviceStatus status = stream_->poll(in_flight_);
  if (status == DeviceStatus::pending) return;
  if (status != DeviceStatus::ok) return give_up();
  in_flight_ = 0;
  for (std::uint32_t i = 0; i < in_flight_count_; ++i) {
    if (TD_LIKELY(done_[i] != 0)) continue;
    overlay().failed(taken_[i]);
    refused_.fetch_add(1, std::memory_order_relaxed);
  }
  if (overlay().is_taking()) return;  // the rest of the group follows
  group_is_open_ = false;
  overlay().complete();
  completed_.push_back(epochs_.retire_stamp());
}

void DeviceTable::age() noexcept {
  if (!completed_.empty()) {
    const std::uint64_t safe = epochs_.safe_stamp();
    for (; !completed_.empty() && completed_.front() < safe; completed_.pop_front()) overlay().oldest_is_safe();
  }
  const TimePoint now = Steady::now();
  if (now - last_look_ < look_every) return;
  last_look_ = now;
  overlay().reclaim(heap_, cache_, index_.stripes(), Overlay::Reclaim::idle);
  placement_.watch_load();
  const Heap::Cache::Lock lock(cache_);
  heap_.reclaim_all(cache_);
}

ReplicaStats DeviceTable::stats() noexcept {
  ReplicaStats s;
  s.state = state_.load(std::memory_order_relaxed);
  s.drains = launches_.load(std::memory_order_relaxed);
  s.cells = changed_.load(std::memory_order_relaxed);
  s.failures = refused_.load(std::memory_order_relaxed);
  s.device_bytes = buckets_.bytes();
  s.pinned_bytes = changes_.bytes() + done_.bytes();
  if (placement_.overlay(shard_.number) != nullptr) {
    const OverlayStats o = overlay().stats();
    s.records = o.changes;
    s.lag = o.changes - std::min(o.taken, o.changes);
  }
  return s;
}

}  // namespace tandem
