#include "base/epoch.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/yield.hpp"

namespace tandem {

EpochDomain::EpochDomain(std::uint32_t participants_max)
    : slots_(new Slot[participants_max]), slot_count_(participants_max) {}

EpochDomain::Participant::Participant(EpochDomain& domain) : domain_(&domain), slot_(nullptr) {
  for (std::uint32_t i = 0; i < domain.slot_count_; ++i) {
    Slot& slot = domain.slots_[i];
    if (slot.taken.load(std::memory_order_relaxed) || slot.taken.exchange(true, std::memory_order_acquire)) continue;
    slot_ = &slot.epoch;
    // The fence in enter() orders it before this participant's announcements: a scan that misses the new mark precedes
    // them.
    std::uint32_t high = domain.slots_high_.load(std::memory_order_relaxed);
    while (high <= i && !domain.slots_high_.compare_exchange_weak(high, i + 1, std::memory_order_relaxed)) {
    }
    return;
  }
  throw EpochDomainFull();
}

EpochDomain::Participant::~Participant() {
  exit();
  for (std::uint32_t i = 0; i < domain_->slot_count_; ++i) {
    if (&domain_->slots_[i].epoch == slot_) domain_->slots_[i].taken.store(false, std::memory_order_release);
  }
}

std::uint64_t EpochDomain::safe_stamp() const noexcept {
  std::uint64_t safe = global_.load(std::memory_order_acquire);
  fence_seq_cst();
  const std::uint32_t high = slots_high_.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < high; ++i) {
    const std::uint64_t epoch = slots_[i].epoch.load(std::memory_order_acquire);
    if (epoch != offline) safe = std::min(safe, epoch);
  }
  return safe;
}

void EpochDomain::synchronize() noexcept {
  using namespace std::chrono_literals;
  constexpr int yields_before_sleep = 64;
  const std::uint64_t stamp = retire_stamp();
  for (int waits = 0; !is_safe(stamp); ++waits) {
    if (waits < yields_before_sleep) {
      yield_processor();
    } else {
      std::this_thread::sleep_for(50us);
    }
  }
}

}  // namespace tandem
