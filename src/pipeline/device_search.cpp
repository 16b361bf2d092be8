#include "pipeline/device_search.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/hash.hpp"
#include "index/stripes.hpp"

namespace tandem {
namespace {

std::vector<std::unique_ptr<DevicePart>> parts_for(const Schedulers& schedulers) {
  std::vector<std::unique_ptr<DevicePart>> parts;
  for (Scheduler* s : schedulers) parts.push_back(std::make_unique<DevicePart>(s->device(), DeviceSearch::queries_max));
  return parts;
}

}  // namespace

DeviceSearch::DeviceSearch(Context& context, const Schedulers& schedulers)
    : context_(context), schedulers_(schedulers), flight_(context.shared.epochs, parts_for(schedulers), queries_max) {}

DeviceSearch::~DeviceSearch() {
  end();
  auto parts = flight_.take_parts();
  for (std::size_t s = 0; s < parts.size(); ++s) schedulers_[s].keep(std::move(parts[s]));
}

void DeviceSearch::search(Batch& batch, std::uint32_t begin) noexcept {
  constexpr auto again = std::chrono::microseconds(50);
  const std::uint32_t count = std::min(batch.size() - begin, queries_max);
  end();
  while (context_.shared.placement.can_search()) {
    if (flight_.has_devices() && search_once(batch, begin, count)) return;
    end();
    if (!flight_.has_devices() || schedulers_.is_stuck()) {
      context_.shared.placement.leave();
    } else {
      std::this_thread::sleep_for(again);  // the launch was refused
    }
  }
  batch.leave_found();
}

bool DeviceSearch::search_once(Batch& batch, std::uint32_t begin, std::uint32_t count) noexcept {
  const std::uint64_t seed = context_.shared.hash_seed;
  Batch& mine = flight_.batch();
  for (std::uint32_t i = 0; i < count; ++i) {
    const Query& q = batch.query(begin + i);
    const bool has_key = q.opcode != Opcode::control && q.opcode != Opcode::nothing;
    const Fingerprint f = has_key ? fingerprint_of(q.key, q.key_bytes, seed) : Fingerprint{1, 0};
    batch.fingerprints()[begin + i] = mine.fingerprints()[i] = f;
  }
  mine.resize(count);
  mine.plan = plan_index;
  flight_.begin(schedulers_);
  wait();
  flight_.land();
  if (flight_.state() != Flight::State::found) return false;
  std::copy_n(mine.locations(), count, batch.locations() + begin);
  batch.plan = plan_index;
  batch.found = mine.found;
  batch.found.end = begin + count;
  searched_ = &batch;
  return true;
}

// Waits for a late device: nothing else can answer. After 10 ms, leaves all in-flight epochs of this worker so that
// memory can be reclaimed. Gives up on a scheduler that is stuck.
void DeviceSearch::wait() noexcept {
  constexpr auto patience = std::chrono::milliseconds(10);
  for (SpinWait waiting; !flight_.look(schedulers_); waiting.once()) {
    if (TD_UNLIKELY(flight_.age() > patience) && context_.in_flight != nullptr) context_.in_flight->let_go();
  }
}

void DeviceSearch::end() noexcept {
  if (flight_.state() != Flight::State::filling) flight_.end();
  searched_ = nullptr;
}

void DeviceSearch::let_go() noexcept {
  flight_.let_go();
  if (searched_ != nullptr) searched_->leave_found();
  searched_ = nullptr;
}

}  // namespace tandem
