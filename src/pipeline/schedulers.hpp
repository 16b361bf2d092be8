// The schedulers of a store's devices, one per shard of its index, as one object for workers.
//
// Thread safety: any thread.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "pipeline/scheduler.hpp"

namespace tandem {

class Schedulers {
 public:
  // In the order of their shards; they outlive it. REQUIRES: one for each shard of the index.
  explicit Schedulers(std::vector<Scheduler*> all) noexcept : all_(std::move(all)) {}

  std::size_t count() const noexcept { return all_.size(); }
  Scheduler& operator[](std::size_t shard) const noexcept { return *all_[shard]; }
  auto begin() const noexcept { return all_.begin(); }
  auto end() const noexcept { return all_.end(); }

  // Whether a batch will probably be searched. All devices must serve, since each has its own keys.
  bool serves() const noexcept {
    return std::ranges::all_of(all_, [](const Scheduler* s) { return s->serves(); });
  }
  // Smaller batches are answered sooner by the host. The maximum: as if the slowest device had the whole batch.
  std::uint32_t queries_min() const noexcept {
    std::uint32_t most = 0;
    for (const Scheduler* s : all_) most = std::max(most, s->queries_min());
    return most;
  }
  std::uint32_t image_granules() const noexcept { return all_.front()->image_granules(); }
  // Whether all devices have images now.
  bool has_images() const noexcept {
    return std::ranges::all_of(all_, [](const Scheduler* s) { return s->has_images(); });
  }
  bool steal() const noexcept { return all_.front()->steal(); }
  std::chrono::milliseconds patience() const noexcept { return all_.front()->patience(); }
  void relieve() const noexcept {
    for (Scheduler* s : all_) s->relieve();
  }
  void set_cycle(std::chrono::microseconds cycle) const noexcept {
    for (Scheduler* s : all_) s->set_cycle(cycle);
  }
  bool is_stuck() const noexcept {
    return std::ranges::any_of(all_, [](const Scheduler* s) { return s->is_stuck(); });
  }

 private:
  std::vector<Scheduler*> all_;
};

}  // namespace tandem
