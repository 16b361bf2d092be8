// The engine's state per device. Private to the engine's files.
#pragma once
#include <algorithm>
#include <bit>
#include <memory>
#include <optional>

#include "engine/engine.hpp"
#include "placement/on_device/device_table.hpp"

namespace tandem {

// Whether the only device's replica may rest.
inline bool may_rest(const EngineOptions& o) {
  return o.follows_load && !o.index_on_device && o.devices.size() == 1 && o.scheduler.queries_min == 0;
}

// REQUIRES: a power of two of devices, or none.
inline std::uint32_t shard_bits_of(const EngineOptions& o) {
  return o.devices.empty() ? 0 : static_cast<std::uint32_t>(std::bit_width(o.devices.size()) - 1);
}

// Several devices only search: no plan reads copies there.
inline bool has_copies(const EngineOptions& o) {
  return o.devices.size() == 1 && !o.index_on_device && o.device_values.bytes != 0;
}
inline ReplicaLogOptions log_options(const EngineOptions& o, DirtyMap* dirty) {
  return {.ring_granules = has_copies(o) ? 1u << 13 : 0, .shard_bits = shard_bits_of(o), .dirty = dirty};
}

// The store's part on one device: a replica of its shard of the index, or the shard itself. Its scheduler is destroyed
// first.
struct Engine::OnDevice {
  OnDevice(Engine& engine, Device& on, std::uint32_t shard) : device(on) {
    const EngineOptions& o = engine.options_;
    if (o.index_on_device) {
      auto own = std::make_unique<DeviceTable>(on, dynamic_cast<OffloadIndex&>(*engine.index_), *engine.placement_,
                                               engine.epochs_, *engine.heap_, table_options(o, shard));
      own->load(o.scheduler.deadline * 60);
      table = own.get();
      side = std::move(own);
    } else {
      side = std::make_unique<Replica>(
          on, dynamic_cast<FollowedIndex&>(*engine.index_), *engine.replica_log_, engine.epochs_,
          ReplicaOptions{.images = has_copies(o) ? o.device_values : ReplicaImagesOptions{}, .shard = shard},
          &*engine.heap_);
      if (o.scheduler.queries_min == 0)
        round_trip.emplace(on, dynamic_cast<FollowedIndex&>(*engine.index_), engine.epochs_);
      schedule(engine, shard);
    }
  }
  void schedule(Engine& engine, std::uint32_t shard) {
    scheduler.emplace(device, *side, options_of(engine, shard), round_trip ? &*round_trip : nullptr);
  }
  // Large enough for a heap full of the smallest items, so that it never has to grow.
  static DeviceTableOptions table_options(const EngineOptions& o, std::uint32_t shard) {
    constexpr double load = 0.9;
    const std::uint64_t items_max = o.memory_bytes / granule_bytes;
    const auto cells = static_cast<std::uint64_t>(static_cast<double>(items_max) / load);
    return {
        .cells = std::bit_ceil(std::max<std::uint64_t>(cells, 1 << 12)) >> shard_bits_of(o),
        .changes_max = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(o.memory_bytes >> 11, 1 << 10, 1 << 18)),
        .shard = shard,
        .change_cycle = o.scheduler.cycle * o.change_cycles};
  }
  static SchedulerOptions options_of(Engine& engine, std::uint32_t shard) {
    SchedulerOptions options = engine.options_.scheduler;
    options.processor = std::max(options.processor - static_cast<int>(shard), -1);
    if (engine.options_.index_on_device) options.wakeup = engine.placement_->overlay(shard)->wakeup();
    if (may_rest(engine.options_)) {
      options.steer = [&engine](const DeviceWork& work, std::chrono::steady_clock::time_point now) {
        return engine.steering_->steer(work, now);
      };
      if (has_copies(engine.options_)) {
        options.rewrites = &engine.shared_->rewrites;
        options.epochs = &engine.epochs_;
      }
    }
    if (shard_bits_of(engine.options_) == 0) {
      const Shared& shared = engine.shared();
      options.frame_rules = [&shared, rules = frame_rules(shared.hash_seed)]() mutable {
        rules.now_s = shared.clock.now_s();
        rules.flush_cas = shared.flush_cas.load(std::memory_order_acquire);
        return rules;
      };
    }
    return options;
  }

  Device& device;
  std::unique_ptr<DeviceSide> side;
  DeviceTable* table = nullptr;  // of `side`, if it has the index
  std::optional<RoundTrip> round_trip;
  std::optional<Scheduler> scheduler;
};

}  // namespace tandem
