#include "pipeline/device_batches.hpp"

#include <chrono>

#include "base/hash.hpp"
#include "index/stripes.hpp"

namespace tandem {
namespace {
using Steady = std::chrono::steady_clock;
}

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
    static_cast<void>(wait_for(b));
    if (b.epoch_.active()) b.epoch_.exit();
  }
  context_.in_flight = nullptr;
  if (scheduler_.is_stuck()) scheduler_.keep(std::move(batches_));
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
  b.submitted_ = Steady::now();
  b.looks_ = 0;
  scheduler_.submit(b);
}

// True: the batch is the worker's. Others may need what the epochs of these batches hold back: a device that is late is
// not waited for with them. A scheduler that is late itself, as a call to the driver does not return, is left alone.
bool DeviceBatches::look_at(DeviceBatch& b) noexcept {
  constexpr auto patience = std::chrono::milliseconds(10);
  constexpr std::uint32_t looks_min = 1000;  // so that it is not this thread that was stopped
  if (!is_with_scheduler(b)) return true;
  const auto waited = Steady::now() - b.submitted_;
  ++b.looks_;
  if (TD_UNLIKELY(waited > patience && b.epoch_.active())) let_go();
  if (TD_UNLIKELY(waited > scheduler_.patience() && b.looks_ > looks_min)) scheduler_.take_back(b);
  return !is_with_scheduler(b);
}

// False: it was handed over longer ago than that, and is not done.
bool DeviceBatches::wait_for(DeviceBatch& b, std::chrono::microseconds age_max) noexcept {
  for (SpinWait waiting; !look_at(b); waiting.once()) {
    const auto age = std::chrono::duration_cast<std::chrono::microseconds>(Steady::now() - b.submitted_);
    if (age > age_max) return false;
  }
  return true;
}

Batch& DeviceBatches::begin_answer() {
  DeviceBatch& b = *batches_[oldest_];
  static_cast<void>(wait_for(b));
  if (TD_UNLIKELY(b.state() == DeviceBatch::State::lost)) b.batch().use_own_columns();
  b.batch().searched = b.state() == DeviceBatch::State::done && !b.let_go_;
  b.batch().launch = b.launch_.load(std::memory_order_relaxed);
  b.batch().whole = b.whole_.load(std::memory_order_relaxed);
  return b.batch();
}

void DeviceBatches::end_answer() noexcept {
  DeviceBatch& b = *batches_[oldest_];
  if (b.epoch_.active()) b.epoch_.exit();
  b.batch().clear();
  b.state_.store(DeviceBatch::State::filling, std::memory_order_relaxed);
  oldest_ = (oldest_ + 1) % count();
  --in_flight_;
  scheduler_.relieve();
}

void DeviceBatches::answer_oldest(Executor& executor, ResponseWriter& writer) {
  executor.run(begin_answer(), writer);
  end_answer();
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
