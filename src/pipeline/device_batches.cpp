#include "pipeline/device_batches.hpp"

#include <chrono>
#include <utility>

#include "index/stripes.hpp"

namespace tandem {
namespace {
using Steady = std::chrono::steady_clock;
}

DeviceBatches::DeviceBatches(Context& context, const Schedulers& schedulers, std::uint32_t capacity, unsigned count)
    : context_(context), schedulers_(schedulers) {
  for (unsigned i = 0; i < count; ++i) {
    std::vector<std::unique_ptr<DevicePart>> parts;
    for (Scheduler* s : schedulers_)
      parts.push_back(std::make_unique<DevicePart>(s->device(), capacity, s->image_granules()));
    batches_.push_back(std::make_unique<DeviceBatch>(context.shared.epochs, std::move(parts), capacity));
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
  for (const auto& batch : batches_) {
    for (std::size_t s = 0; s < batch->parts_.size(); ++s) schedulers_[s].keep(std::move(batch->parts_[s]));
  }
}

void DeviceBatches::submit() noexcept {
  DeviceBatch& b = *batches_[next()];
  b.let_go_ = b.waited_ = false;
  ++in_flight_;
  const bool serves = !b.abandoned_ && schedulers_.serves();
  const std::uint32_t device_end = serves && schedulers_.steal() ? share_.queries(b.batch().size()) : b.batch().size();
  b.handed_over_ = serves && device_end != 0;
  context_.counters.device_stolen.add(b.batch().size() - device_end);
  if (TD_UNLIKELY(!b.handed_over_)) return;  // nothing to wait for
  b.hash(context_.shared.hash_seed, device_end);
  b.scatter();
  b.epoch_.enter();
  b.waiting_ = {Steady::now()};
  for (std::size_t s = 0; s < b.parts_.size(); ++s) {
    if (b.parts_[s]->has_queries()) schedulers_[s].submit(*b.parts_[s]);
  }
}

// True: the batch is the worker's. Others may need what the epochs of these batches hold back: a device that is late is
// not waited for with them. A scheduler that is late itself, as a call to the driver does not return, is left alone.
bool DeviceBatches::look_at(DeviceBatch& b) noexcept {
  constexpr auto patience = std::chrono::milliseconds(10);
  if (!b.is_with_schedulers()) return true;
  const auto now = Steady::now();
  if (TD_UNLIKELY(now - b.waiting_.since > patience && b.epoch_.active())) let_go();
  if (TD_UNLIKELY(b.waiting_.is_late(now, schedulers_.patience()))) {
    for (std::size_t s = 0; s < b.parts_.size(); ++s) {
      if (b.parts_[s]->is_with_scheduler()) schedulers_[s].take_back(*b.parts_[s]);
    }
  }
  return !b.is_with_schedulers();
}

// False: it was handed over longer ago than that, and is not done.
bool DeviceBatches::wait_for(DeviceBatch& b, std::chrono::microseconds age_max) noexcept {
  for (SpinWait waiting; !look_at(b); waiting.once()) {
    b.waited_ = true;
    const auto age = std::chrono::duration_cast<std::chrono::microseconds>(Steady::now() - b.waiting_.since);
    if (age > age_max) return false;
  }
  return true;
}

Batch& DeviceBatches::begin_answer() {
  DeviceBatch& b = *batches_[oldest_];
  static_cast<void>(wait_for(b));
  if (b.handed_over_) share_.answered(in_flight_ + 1 >= count(), b.waited_);
  b.gather();
  return b.batch();
}

void DeviceBatches::end_answer() noexcept {
  DeviceBatch& b = *batches_[oldest_];
  if (b.epoch_.active()) b.epoch_.exit();
  b.batch().clear();
  for (const auto& part : b.parts_) part->state_.store(DevicePart::State::filling, std::memory_order_relaxed);
  oldest_ = (oldest_ + 1) % count();
  --in_flight_;
  schedulers_.relieve();
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
    if (b.is_with_schedulers()) continue;
    b.batch().searched = false;
    b.batch().images = nullptr;
  }
}

}  // namespace tandem
