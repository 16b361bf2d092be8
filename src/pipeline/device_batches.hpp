// A worker's way to the devices: batches that fill, are searched and are answered in turn, so that neither waits for
// the other (Mega-KV 7.1: three buffers). Queries stay where they are from PP to WR.
//
// Thread safety: one thread at a time.
#pragma once
#include <chrono>
#include <memory>
#include <vector>

#include "pipeline/device_batch.hpp"
#include "pipeline/device_share.hpp"
#include "pipeline/executor.hpp"
#include "pipeline/schedulers.hpp"

namespace tandem {

class DeviceBatches final : public InFlight {
 public:
  static constexpr unsigned count_default = 3;

  // `count` batches of `capacity` queries. The context tells it when epochs must end. Throws DeviceError,
  // std::runtime_error.
  DeviceBatches(Context& context, const Schedulers& schedulers, std::uint32_t capacity, unsigned count = count_default);
  ~DeviceBatches() override;  // what is in flight is waited for, and not answered

  unsigned count() const noexcept { return static_cast<unsigned>(batches_.size()); }
  unsigned in_flight() const noexcept { return in_flight_; }
  // Whether one is free; the number and the batch of the one to fill next. REQUIRES: can_fill().
  bool can_fill() const noexcept { return in_flight_ < count(); }
  unsigned next() const noexcept { return (oldest_ + in_flight_) % count(); }
  Batch& filling() noexcept { return batches_[next()]->batch(); }

  // Hashes the keys of the batch that was filled and hands it, or the share of it that is not stolen, to the
  // schedulers. Its keys and values stay as they are until it is answered. REQUIRES: can_fill().
  void submit() noexcept;

  // Number of the one that was submitted first. REQUIRES: in_flight() != 0.
  unsigned oldest() const noexcept { return oldest_; }
  // A look at the oldest. Who keeps looking gets it: searched, or after some times the scheduler's deadline without.
  bool oldest_is_done() noexcept { return look_at(*batches_[oldest_]); }
  // Looks until the oldest is done, or until it was handed over so long ago. REQUIRES: in_flight() != 0.
  bool wait_for_oldest(std::chrono::microseconds age_max) noexcept { return wait_for(*batches_[oldest_], age_max); }
  // Between two batches, also those that the host runs: lends a hand with the log.
  void relieve() noexcept { schedulers_.relieve(); }
  // The oldest batch, for an Executor: it runs what follows the device's search, or all of the pipeline if there was
  // none. Waits for the device, at most until the scheduler's deadline. REQUIRES: in_flight() != 0.
  Batch& begin_answer();
  // That batch is answered: its place is free.
  void end_answer() noexcept;
  // Both, and the executor between them.
  void answer_oldest(Executor& executor, ResponseWriter& writer);

  void let_go() noexcept override;

 private:
  bool look_at(DeviceBatch& b) noexcept;
  bool wait_for(DeviceBatch& b, std::chrono::microseconds age_max = std::chrono::microseconds::max()) noexcept;

  Context& context_;
  const Schedulers schedulers_;
  std::vector<std::unique_ptr<DeviceBatch>> batches_;
  unsigned oldest_ = 0, in_flight_ = 0;
  DeviceShare share_;
};

}  // namespace tandem
