#include "index/slab_list/slab_pool.hpp"

#include <algorithm>
#include <atomic>

namespace tandem {
namespace {

constexpr std::uint64_t slabs_max = UINT32_MAX / 8;  // of 1.6 billion keys in one bucket's chain or in many
constexpr std::uint64_t extend_slabs_min = 128;

template <class T>
std::atomic_ref<T> atomic(T& word) noexcept {
  return std::atomic_ref<T>(word);
}
// Words of a free slab, in the place of keys.
std::uint64_t& link_of(Slab* slab) noexcept { return slab->key[0]; }
void set_stamp(Slab* slab, std::uint64_t stamp) noexcept {
  atomic(slab->key[1]).store(stamp & UINT32_MAX, std::memory_order_relaxed);
  atomic(slab->key[2]).store(stamp >> 32, std::memory_order_relaxed);
}
std::uint64_t stamp_of(Slab* slab) noexcept {
  return atomic(slab->key[1]).load(std::memory_order_relaxed) | atomic(slab->key[2]).load(std::memory_order_relaxed)
                                                                    << 32;
}

}  // namespace

SlabPool::SlabPool(bool huge_pages, MemoryBudget& budget, EpochDomain& epochs)
    : epochs_(epochs), memory_(slabs_max, huge_pages, budget) {}

// An eighth of what there is, so that they are few steps and little is taken in vain.
std::uint64_t SlabPool::extend_bytes() const noexcept {
  return SlabMemory::bytes_for(std::max(extend_slabs_min, memory_.slabs() / 8));
}

bool SlabPool::extend(bool& unmapped) noexcept {
  const std::lock_guard lock(mutex_);
  return memory_.extend(extend_bytes() / sizeof(Slab), unmapped);
}

bool SlabPool::has_free() noexcept {
  const std::lock_guard lock(mutex_);
  return fresh_ < memory_.slabs() || may_reuse_first();
}

bool SlabPool::may_reuse_first() noexcept {
  if (free_.first == none) return false;
  const std::uint64_t stamp = stamp_of(at(free_.first));
  if (stamp >= safe_) safe_ = epochs_.safe_stamp();
  return stamp < safe_;
}

SlabPool::Number SlabPool::take() noexcept {
  const std::lock_guard lock(mutex_);
  if (may_reuse_first()) {
    const Number number = free_.first;
    Slab* const slab = at(number);
    free_.first = static_cast<Number>(atomic(link_of(slab)).load(std::memory_order_relaxed));
    if (free_.first == none) free_.last = none;
    for (std::uint32_t i = 0; i < 3; ++i) atomic(slab->key[i]).store(0, std::memory_order_relaxed);
    atomic(slab->next).store(0, std::memory_order_relaxed);
    return number;
  }
  return fresh_ < memory_.slabs() ? static_cast<Number>(++fresh_) : none;
}

void SlabPool::append(Number number, std::uint64_t stamp) noexcept {
  Slab* const slab = at(number);
  set_stamp(slab, stamp);
  atomic(link_of(slab)).store(none, std::memory_order_relaxed);
  if (free_.last != none) {
    atomic(link_of(at(free_.last))).store(number, std::memory_order_relaxed);
  } else {
    free_.first = number;
  }
  free_.last = number;
}

void SlabPool::retire(Number number) noexcept {
  const std::lock_guard lock(mutex_);
  append(number, epochs_.retire_stamp());  // under the lock: the queue is in the order of stamps
}

void SlabPool::give_back(Number number) noexcept {
  const std::lock_guard lock(mutex_);
  Slab* const slab = at(number);
  set_stamp(slab, 0);
  atomic(link_of(slab)).store(free_.first, std::memory_order_relaxed);
  if (free_.first == none) free_.last = number;
  free_.first = number;
}

}  // namespace tandem
