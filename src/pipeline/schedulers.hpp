// The schedulers of a store's devices, one for each shard of its index, as workers see them: together.
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

  // Whether a batch has a good chance to be searched: by all devices, since each has keys of its own.
  bool serves() const noexcept {
    return std::ranges::all_of(all_, [](const Scheduler* s) { return s->serves(); });
  }
  // A batch with fewer queries is answered sooner by the host: as if one device, the slowest, had all of it.
  std::uint32_t queries_min() const noexcept {
    std::uint32_t most = 0;
    for (const Scheduler* s : all_) most = std::max(most, s->queries_min());
    return most;
  }
  std::uint32_t image_granules() const noexcept { return all_.front()->image_granules(); }
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
