// The engine's devices: opening, statistics, and loss.
#include <algorithm>
#include <chrono>
#include <thread>

#include "engine/on_device.hpp"

namespace tandem {

// An unusable device is logged; the other devices cannot be used without it.
void Engine::open_devices() {
  std::vector<Scheduler*> schedulers;
  if (options_.devices.size() > 1 && options_.device_values.bytes != 0 && options_.warn)
    options_.warn("several GPUs only search: they get no copies of items");
  if (may_rest(options_))
    steering_.emplace(has_copies(options_) ? UpkeepLevel::items : UpkeepLevel::index, options_.controller);
  for (const auto& device : options_.devices) {
    try {
      const auto shard = static_cast<std::uint32_t>(on_devices_.size());
      on_devices_.push_back(std::make_unique<OnDevice>(*this, *device, shard));
      if (options_.index_on_device && on_devices_.size() == options_.devices.size()) move_index_to_devices();
    } catch (const std::exception& e) {
      on_devices_.clear();
      if (options_.warn) options_.warn("device " + device->info().name + " is not used: " + e.what());
      return;
    }
  }
  for (const auto& on : on_devices_) schedulers.push_back(&*on->scheduler);
  if (!schedulers.empty()) schedulers_.emplace(std::move(schedulers));
}

// REQUIRES: the devices have everything in the host's table.
void Engine::move_index_to_devices() {
  const auto records =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(options_.memory_bytes >> 10, 4096, 1 << 20));
  std::vector<std::unique_ptr<Overlay>> overlays;
  std::uint64_t cells = 0;
  for (const auto& on : on_devices_) {
    overlays.push_back(std::make_unique<Overlay>(records, options_.contexts_max + 4, budget_));
    cells += on->table->cells();
  }
  std::unique_ptr<HotTable> hot;
  if (options_.hot_memory_bytes != 0)
    hot = std::make_unique<HotTable>(options_.hot_memory_bytes, options_.contexts_max + 4, budget_);
  placement_->move_to_devices(std::move(overlays), cells, std::move(hot));
  try {
    for (std::uint32_t shard = 0; shard < on_devices_.size(); ++shard) on_devices_[shard]->schedule(*this, shard);
  } catch (...) {
    placement_->leave();
    throw;
  }
}

void Engine::set_cycle(std::chrono::microseconds cycle) noexcept {
  for (const auto& on : on_devices_) {
    if (on->table != nullptr) on->table->set_change_cycle(cycle * options_.change_cycles);
    on->scheduler->set_cycle(cycle);
  }
}

std::vector<DeviceStats> Engine::device_stats() {
  std::vector<DeviceStats> all;
  for (const auto& on : on_devices_) {
    DeviceStats& s = all.emplace_back();
    const Scheduler& scheduler = *on->scheduler;
    s.name = on->device.info().name;
    s.backend = on->device.info().backend;
    s.lost_reason = on->device.lost_reason();
    s.number = on->device.info().number;
    s.memory_bytes = on->device.info().memory_bytes;
    s.power_mw = scheduler.power_mw();
    s.serves = scheduler.serves();
    s.queries_min = steering_ ? steering_->queries_min() : scheduler.queries_min();
    s.costs = scheduler.costs();
    const SchedulerCounters& c = scheduler.counters();
    s.launches = c.launches.get();
    s.batches = c.batches.get();
    s.searched_batches = c.searched_batches.get();
    s.queries = c.queries.get();
    s.refused_batches = c.refused_batches.get();
    s.failed_batches = c.failed_batches.get();
    s.rests = c.rests.get();
    s.device_ns = c.device_ns.get();
    s.cycle_ns = c.cycle_ns.get();
    s.replica = on->side->stats();
    if (on->table == nullptr) continue;
    s.has_index = true;
    s.cells = on->table->cells();
    s.resident = placement_->overlay(on->table->shard().number)->stats().resident;
  }
  return all;
}

// Excludes slots of dead items that a device's index still names (IndexPlacement), as it does retired ones.
void Engine::leave_out_displaced(EngineStats& stats) const {
  placement_->for_each_unretired([&](Location l) {
    const SizeClass c = heap_->class_of(l);
    if (c != huge_class && c >= stats.classes.size()) return;  // its page has left the class since
    std::uint64_t& used = c == huge_class ? stats.huge_items : stats.classes[c].slots_used;
    if (used == 0) return;  // retired since it was counted
    --used;
    stats.item_bytes -= std::min(stats.item_bytes, heap_->capacity_bytes(l));
  });
}

// After the loss of a device. All workers wait for it.
void Engine::bring_index_back() {
  constexpr unsigned threads_max = 16;
  const auto start = std::chrono::steady_clock::now();
  placement_->bring_back(maintenance_context_->cache, std::clamp(std::thread::hardware_concurrency(), 1u, threads_max));
  index_rebuild_ms_.store(
      static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count()),
      std::memory_order_relaxed);
}

}  // namespace tandem
