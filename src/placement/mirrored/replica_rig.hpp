// For tests: a store with an index that a device follows, usually a simulated one.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/sim/sim_device.hpp"
#include "placement/mirrored/replica-inl.hpp"
#include "placement/mirrored/replica_follower.hpp"
#include "placement/mirrored/replica_rest-inl.hpp"

namespace tandem {

struct ReplicaRigOptions {
  std::uint64_t cells = 1 << 10;
  double load_grow = 0.9;
  ReplicaLogOptions log = {};  // its shard_bits are also the index's
  SimOptions sim = {};
  ReplicaOptions replica = {.queue_cells = 1 << 12, .chunk_bytes = 1 << 10};
};

template <class Rules = ReplicaRules, class DeviceType = SimDevice, IndexKind I = CuckooIndex>
class ReplicaRig {
 public:
  using Follower = BasicReplica<Rules, ReplicaLog>;
  static constexpr auto long_enough = std::chrono::minutes(2);  // for anything that is expected to happen
  static constexpr std::uint32_t searches_max = 256;

  explicit ReplicaRig(const ReplicaRigOptions& options = {}) : ReplicaRig(options, make_sim_device(options.sim)) {}
  ReplicaRig(const ReplicaRigOptions& options, std::unique_ptr<DeviceType> device_to_use)
      : log(with(options.log, options.log.shard_bits == 0 ? &dirty : nullptr)),
        stepping(log),
        device(std::move(device_to_use)),
        store({.cells = options.cells,
               .load_grow = options.load_grow,
               .log = &stepping,
               .shard_bits = options.log.shard_bits}),
        dirty(store.heap, options.replica.images.bytes, store.budget),
        worker(store),
        replica(*device, store.index, log, store.epochs, options.replica, &store.heap),
        keys_(*device, searches_max),
        found_(*device, searches_max) {}

  bool set(const std::string& key, std::uint64_t value = 1) {
    return worker.set(key, value) == BasicTestWorker<I>::Outcome::done;
  }
  // Steps until the upload is complete.
  ReplicaState upload() {
    replica.start();
    return finish_upload();
  }
  ReplicaState finish_upload() {
    const auto end = std::chrono::steady_clock::now() + long_enough;
    const auto goes_on = [this] {
      const ReplicaState state = replica.step(1 << 12);
      return state == ReplicaState::uploading || state == ReplicaState::leaving || state == ReplicaState::returning;
    };
    while (goes_on() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return replica.stats().state;
  }
  // Steps until it rests.
  ReplicaState rest() { return replica.rest() ? finish_upload() : replica.stats().state; }
  // Drains until the device takes it.
  ReplicaLaunch drain() {
    const auto end = std::chrono::steady_clock::now() + long_enough;
    for (;;) {
      ReplicaLaunch launch = replica.drain();
      if (launch.status != ReplicaLaunch::Status::busy || std::chrono::steady_clock::now() > end) return launch;
      std::this_thread::yield();
    }
  }
  // At most searches_max keys. Returns what the launch's copy has, or why that is unknown.
  DeviceStatus search(const ReplicaLaunch& launch, const std::vector<std::string>& keys, std::vector<Location>& found,
                      Stream* stream = nullptr) {
    if (stream == nullptr) stream = &replica.stream();
    for (std::size_t i = 0; i < keys.size(); ++i) keys_[i] = replica.shard().local(store.fingerprint(keys[i]));
    const auto count = static_cast<std::uint32_t>(keys.size());
    DeviceStatus status = stream == &replica.stream() ? DeviceStatus::ok : stream->after(replica.stream(), launch.mark);
    if (status == DeviceStatus::ok)
      status = stream->launch(search_table, SearchArguments::of(launch.index, keys_.at(), found_.at(), count));
    if (status == DeviceStatus::ok) status = stream->wait(stream->mark(), long_enough);
    if (status == DeviceStatus::ok) status = replica.poll(launch);
    found.assign(found_.data(), found_.data() + keys.size());
    return status;
  }
  // no_location also if the search failed.
  Location find(const ReplicaLaunch& launch, const std::string& key) {
    std::vector<Location> found;
    return search(launch, {key}, found) == DeviceStatus::ok ? found[0] : no_location;
  }
  // Compares the device's cells with the host's. REQUIRES: no writer is active.
  std::string compare(const ReplicaLaunch& launch) {
    if (!launch.ready()) return "the launch is not ready";
    const FollowedTable table = store.index.followed();
    const Shard& shard = replica.shard();
    if (TableShape{shard.local_mask(table.shape.mask), table.shape.sets} != launch.index.shape) return "another table";
    const PinnedArray<std::uint64_t> cells(*device, launch.index.shape.cells());
    Stream& stream = replica.stream();
    if (stream.copy_to_host(cells.data(), DevicePtr<std::byte>(launch.index.buckets.address()), cells.bytes()) !=
            DeviceStatus::ok ||
        stream.wait(stream.mark(), long_enough) != DeviceStatus::ok || replica.poll(launch) != DeviceStatus::ok) {
      return "the device did not answer";
    }
    for (std::uint64_t i = 0; i < cells.count(); ++i) {
      if (cells[i] != *table.cells.at(shard.cell(i))) return "the device's table differs";
    }
    return compare_images(launch, {cells.data(), cells.count()});
  }

  ReplicaLog log;
  SteppingLog stepping;
  std::unique_ptr<DeviceType> device;
  BasicTestStore<I> store;
  DirtyMap dirty;
  BasicTestWorker<I> worker;
  Follower replica;

 private:
  static ReplicaLogOptions with(ReplicaLogOptions log, DirtyMap* dirty) noexcept {
    log.dirty = dirty;
    return log;
  }
  std::string compare_images(const ReplicaLaunch& launch, std::span<const std::uint64_t> cells) {
    if (launch.images.count == 0) return "";
    const PinnedArray<Granule> images(*device, launch.images.count);
    Stream& stream = replica.stream();
    if (stream.copy_to_host(images.data(), DevicePtr<std::byte>(launch.images.granules.address()), images.bytes()) !=
            DeviceStatus::ok ||
        stream.wait(stream.mark(), long_enough) != DeviceStatus::ok || replica.poll(launch) != DeviceStatus::ok) {
      return "the device did not answer";
    }
    for (const std::uint64_t bits : cells) {
      const Location l = Cell{bits}.location();
      if (l == no_location || l >= launch.images.count) continue;
      const Item* const item = store.heap.at(l);
      const std::uint64_t fixed = item->fixed();
      const std::uint32_t granules = image_granules(item->state_acquire(), fixed);
      if (granules == 0 || granules > launch.images.item_granules || granules > launch.images.count - l) continue;
      if (std::memcmp(&images[l], item, image_bytes(fixed)) != 0) return "the device's image of an item differs";
    }
    return "";
  }

  PinnedArray<Fingerprint> keys_;
  PinnedArray<Location> found_;
};

}  // namespace tandem
