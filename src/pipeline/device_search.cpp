#include "pipeline/device_search.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/hash.hpp"
#include "index/stripes.hpp"

namespace tandem {
namespace {

using Steady = std::chrono::steady_clock;

std::vector<std::unique_ptr<DevicePart>> parts_for(const Schedulers& schedulers) {
  std::vector<std::unique_ptr<DevicePart>> parts;
  for (Scheduler* s : schedulers)
    parts.push_back(std::make_unique<DevicePart>(s->device(), DeviceSearch::queries_max, 0));
  return parts;
}

}  // namespace

DeviceSearch::DeviceSearch(Context& context, const Schedulers& schedulers)
    : context_(context), schedulers_(schedulers), own_(context.shared.epochs, parts_for(schedulers), queries_max) {}

DeviceSearch::~DeviceSearch() {
  end();
  for (std::size_t s = 0; s < own_.parts_.size(); ++s) schedulers_[s].keep(std::move(own_.parts_[s]));
}

void DeviceSearch::search(Batch& batch, std::uint32_t begin) noexcept {
  constexpr auto again = std::chrono::microseconds(50);
  const std::uint32_t count = std::min(batch.size() - begin, queries_max);
  end();
  while (context_.shared.placement.can_search()) {
    if (search_once(batch, begin, count)) return;
    end();
    if (own_.abandoned_ || schedulers_.is_stuck()) {
      context_.shared.placement.leave();
    } else {
      std::this_thread::sleep_for(again);  // the launch was refused
    }
  }
}

bool DeviceSearch::search_once(Batch& batch, std::uint32_t begin, std::uint32_t count) noexcept {
  const std::uint64_t seed = context_.shared.hash_seed;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Query& q = batch.query(begin + i);
    const bool has_key = q.opcode != Opcode::control && q.opcode != Opcode::nothing;
    const Fingerprint f = has_key ? fingerprint_of(q.key, q.key_bytes, seed) : Fingerprint{1, 0};
    batch.fingerprints()[begin + i] = own_.batch_.fingerprints()[i] = f;
  }
  own_.batch_.resize(count);
  own_.batch_.device_end = count;
  own_.let_go_ = false;
  own_.handed_over_ = true;
  own_.scatter();
  own_.epoch_.enter();
  own_.waiting_ = {Steady::now()};
  for (std::size_t s = 0; s < own_.parts_.size(); ++s) {
    if (own_.parts_[s]->has_queries()) schedulers_[s].submit(*own_.parts_[s]);
  }
  wait();
  own_.gather();
  if (!own_.batch_.searched) return false;
  std::copy_n(own_.batch_.locations(), count, batch.locations() + begin);
  batch.searched = batch.whole = true;
  batch.device_end = begin + count;
  batch.images = nullptr;
  searched_ = &batch;
  return true;
}

// A device that is late is waited for: nobody else can answer. What its worker has in flight lets its epochs go, as
// others may need what they hold back, and a scheduler that is stuck is left alone.
void DeviceSearch::wait() noexcept {
  constexpr auto patience = std::chrono::milliseconds(10);
  for (SpinWait waiting; own_.is_with_schedulers(); waiting.once()) {
    const auto now = Steady::now();
    if (TD_UNLIKELY(now - own_.waiting_.since > patience) && context_.in_flight != nullptr)
      context_.in_flight->let_go();
    if (TD_UNLIKELY(own_.waiting_.is_late(now, schedulers_.patience()))) {
      for (std::size_t s = 0; s < own_.parts_.size(); ++s) {
        if (own_.parts_[s]->is_with_scheduler()) schedulers_[s].take_back(*own_.parts_[s]);
      }
    }
  }
}

void DeviceSearch::end() noexcept {
  if (own_.epoch_.active()) own_.epoch_.exit();
  searched_ = nullptr;
  own_.batch_.clear();
  for (const auto& part : own_.parts_) part->state_.store(DevicePart::State::filling, std::memory_order_relaxed);
}

void DeviceSearch::let_go() noexcept {
  if (!own_.epoch_.active()) return;
  own_.epoch_.exit();
  own_.let_go_ = true;
  if (searched_ != nullptr) searched_->searched = false;
  searched_ = nullptr;
}

}  // namespace tandem
