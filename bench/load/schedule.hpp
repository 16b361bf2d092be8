// The due times of an open loop's batches.
#pragma once
#include <cmath>
#include <cstdint>

#include "bench/load/options.hpp"
#include "bench/workload/random.hpp"

namespace tandem::load {

// The arrivals of thread `thread` of `threads`, which together have the requested rate: every thread has its share, at
// its own times, independent of the server. Thread safety: none.
class Schedule {
 public:
  // Default: a closed loop, without due times.
  Schedule() = default;
  Schedule(const Options& options, std::uint32_t thread, double ops_per_batch, std::uint64_t start_ns)
      : rate_per_s_(static_cast<long double>(options.rate_per_s)),
        threads_(options.threads),
        start_ns_(start_ns),
        arrivals_(options.arrivals),
        ahead_ops_(thread * static_cast<long double>(ops_per_batch)),
        random_(workload::mix64(options.workloads.front().seed + 0xa0761d6478bd642fU) + thread) {
    if (arrivals_ == Arrivals::poisson) advance(static_cast<std::uint64_t>(std::llround(ops_per_batch)));
    set_next();
  }

  bool is_open_loop() const noexcept { return rate_per_s_ > 0; }
  std::uint64_t next_ns() const noexcept { return next_ns_; }

  // Number of operations that the rate allows within a time.
  std::uint64_t ops_within(std::uint64_t ns) const noexcept {
    return static_cast<std::uint64_t>(static_cast<long double>(ns) * rate_per_s_ / 1e9L / threads_);
  }

  // Called after a batch of `ops` operations: the next is due once the rate allows for them, or after a random time
  // with that mean.
  void advance(std::uint64_t ops) noexcept {
    if (arrivals_ == Arrivals::uniform) {
      ahead_ops_ += static_cast<long double>(ops) * threads_;
    } else {
      ahead_ops_ -= static_cast<long double>(ops) * threads_ * static_cast<long double>(std::log1p(-random_.unit()));
    }
    set_next();
  }

 private:
  // Multiplied before the division: at whole rates the due times are exact, however long the run.
  void set_next() noexcept { next_ns_ = start_ns_ + static_cast<std::uint64_t>(ahead_ops_ * 1e9L / rate_per_s_); }

  long double rate_per_s_ = 0;
  std::uint32_t threads_ = 1;
  std::uint64_t start_ns_ = 0, next_ns_ = 0;
  Arrivals arrivals_ = Arrivals::uniform;
  long double ahead_ops_ = 0;  // operations due before the next
  workload::Random random_{0};
};

}  // namespace tandem::load
