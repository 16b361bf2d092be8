// The accesses of slabs' writers, and of readers past their lanes.
#pragma once
#include <atomic>

#include "base/platform.hpp"

namespace tandem {

template <class T>
TD_INLINE T slab_load(const T& word) noexcept {
  return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_acquire);
}
template <class T>
TD_INLINE void slab_store(T& word, T now) noexcept {
  std::atomic_ref<T>(word).store(now, std::memory_order_release);
}

}  // namespace tandem
