#include "pipeline/device_batches.hpp"

#include <chrono>

#include "base/hash.hpp"
#include "index/stripes.hpp"

namespace tandem {

DeviceBatches::DeviceBatches(Context& context, Scheduler& scheduler, std::uint32_t capacity, unsigned count)
    : context_(context), scheduler_(scheduler) {
  for (unsigned i = 0; i < count; ++i) {
    batches_.push_back(std::make_unique<DeviceBatch>(context.shared.epochs, scheduler.device(), capacity));
  }
  context_.in_flight = this;
}

DeviceBatches::~DeviceBatches() {
  for (unsigned i = 0; i < in_flight_; ++i) {
    DeviceBatch& b = *batches_[(oldest_ + i) % count()];
    wait_for(b);
    if (b.epoch_.active()) b.epoch_.exit();
  }
  context_.in_flight = nullptr;
}

void DeviceBatches::submit() noexcept {
  DeviceBatch& b = *batches_[next()];
  Batch& batch = b.batch();
  const std::uint64_t seed = context_.shared.hash_seed;
  const Query* const queries = batch.queries();
  Fingerprint* const fingerprints = batch.fingerprints();
  for (std::uint32_t i = 0; i < batch.size(); ++i) {
    const Query& q = queries[i];
    const bool has_key = TD_LIKELY(q.opcode != Opcode::control && q.opcode != Opcode::nothing);
    fingerprints[i] = has_key ? fingerprint_of(q.key, q.key_bytes, seed) : Fingerprint{1, 0};
  }
  b.let_go_ = false;
  ++in_flight_;
  if (TD_UNLIKELY(!scheduler_.serves())) {  // nothing to wait for
    b.state_.store(DeviceBatch::State::refused, std::memory_order_relaxed);
    return;
  }
  b.epoch_.enter();
  scheduler_.submit(b);
}

// Others may need what the epochs of these batches hold back: a device that is late is not waited for with them.
void DeviceBatches::wait_for(const DeviceBatch& b) noexcept {
  using Steady = std::chrono::steady_clock;
  constexpr auto patience = std::chrono::milliseconds(10);
  if (!is_with_scheduler(b)) return;
  const Steady::time_point begun = Steady::now();
  SpinWait waiting;
  for (bool holds = true; is_with_scheduler(b); waiting.once()) {
    if (holds && Steady::now() - begun > patience) {
      let_go();
      holds = false;
    }
  }
}

void DeviceBatches::answer_oldest(Executor& executor, ResponseWriter& writer) {
  DeviceBatch& b = *batches_[oldest_];
  wait_for(b);
  if (TD_UNLIKELY(b.state() == DeviceBatch::State::lost)) b.batch().use_own_columns();
  b.batch().searched = b.state() == DeviceBatch::State::done && !b.let_go_;
  executor.run(b.batch(), writer);
  if (b.epoch_.active()) b.epoch_.exit();
  b.batch().clear();
  b.state_.store(DeviceBatch::State::filling, std::memory_order_relaxed);
  oldest_ = (oldest_ + 1) % count();
  --in_flight_;
  scheduler_.relieve();
}

void DeviceBatches::let_go() noexcept {
  for (unsigned i = 0; i < in_flight_; ++i) {
    DeviceBatch& b = *batches_[(oldest_ + i) % count()];
    if (!b.epoch_.active()) continue;
    b.epoch_.exit();
    b.let_go_ = true;
    // Of the batch that is being answered; of others answer_oldest() will say it.
    if (!is_with_scheduler(b)) b.batch().searched = false;
  }
}

}  // namespace tandem
