// Latencies by the time at which their requests were received, in stretches of equal length.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace tandem::bench {

// Thread safety: none.
class LatencyTimeline {
 public:
  struct Stretch {
    std::uint64_t requests = 0, ticks = 0, ticks_max = 0;  // ticks: of all requests together

    void add(const Stretch& other) noexcept {
      requests += other.requests;
      ticks += other.ticks;
      ticks_max = std::max(ticks_max, other.ticks_max);
    }
  };

  // REQUIRES: stretch_ticks != 0.
  LatencyTimeline(std::uint64_t begin_ticks, std::uint64_t stretch_ticks)
      : begin_ticks_(begin_ticks), stretch_ticks_(stretch_ticks) {}

  // `requests` that were received together. REQUIRES: not before the beginning.
  void add(std::uint64_t received_ticks, std::uint64_t latency_ticks, std::uint64_t requests) {
    at((received_ticks - begin_ticks_) / stretch_ticks_).add({requests, latency_ticks * requests, latency_ticks});
  }
  // Adds its stretches to those of other threads, which are as long and begin at the same time.
  void add_to(std::vector<Stretch>& all) const {
    all.resize(std::max(all.size(), stretches_.size()));
    for (std::size_t i = 0; i < stretches_.size(); ++i) all[i].add(stretches_[i]);
  }

 private:
  Stretch& at(std::size_t i) {
    if (i >= stretches_.size()) stretches_.resize(i + 1);
    return stretches_[i];
  }

  std::uint64_t begin_ticks_, stretch_ticks_;
  std::vector<Stretch> stretches_;
};

}  // namespace tandem::bench
