// A CUDA warp as that of slab_warp.hpp.
#pragma once
#include <cuda/atomic>

#include "index/slab_list/slab_warp.hpp"

namespace tandem {

// Slabs are read and written by plain accesses: the fences of acquire() and release() order them, and a processor's own
// cache holds nothing over the first.
class CudaWarp {
 public:
  template <class T>
  class PerLane {
   public:
    TD_LANE T& operator[](std::uint32_t) { return value_; }
    TD_LANE const T& operator[](std::uint32_t) const { return value_; }

   private:
    T value_;
  };

  template <class F>
  TD_LANE void each(F f) const {
    f(lane());
  }
  template <class F>
  TD_LANE std::uint32_t ballot(F f) const {
    return __ballot_sync(all, f(lane()) ? 1 : 0);
  }
  template <class F>
  TD_LANE std::uint32_t by(std::uint32_t wanted, F f) const {
    std::uint32_t result = 0;
    if (lane() == wanted) result = f();
    return __shfl_sync(all, result, static_cast<int>(wanted));
  }
  template <class T>
  TD_LANE T from(const PerLane<T>& v, std::uint32_t lane) const {
    if constexpr (std::is_pointer_v<T>) {
      return reinterpret_cast<T>(__shfl_sync(all, reinterpret_cast<std::uintptr_t>(v[lane]), static_cast<int>(lane)));
    } else {
      return __shfl_sync(all, v[lane], static_cast<int>(lane));
    }
  }
  TD_LANE std::uint32_t lowest(std::uint32_t bits) const {
    return static_cast<std::uint32_t>(__ffs(static_cast<int>(bits)) - 1);
  }
  TD_LANE std::uint32_t count(std::uint32_t bits) const { return static_cast<std::uint32_t>(__popc(bits)); }

  template <class T>
  using Ref = cuda::atomic_ref<T, cuda::thread_scope_device>;
  template <class T>
  TD_LANE static T load(T& word) {
    return Ref<T>(word).load(cuda::memory_order_relaxed);
  }
  template <class T>
  TD_LANE static void store(T& word, T now) {
    Ref<T>(word).store(now, cuda::memory_order_relaxed);
  }
  TD_LANE static std::uint32_t fetch_add(std::uint32_t& word, std::uint32_t n) {
    return Ref<std::uint32_t>(word).fetch_add(n, cuda::memory_order_relaxed);
  }
  TD_LANE static std::uint32_t fetch_sub(std::uint32_t& word, std::uint32_t n) {
    return Ref<std::uint32_t>(word).fetch_sub(n, cuda::memory_order_relaxed);
  }
  TD_LANE static std::uint32_t fetch_or(std::uint32_t& word, std::uint32_t bits) {
    return Ref<std::uint32_t>(word).fetch_or(bits, cuda::memory_order_relaxed);
  }
  template <class T>
  TD_LANE static T exchange_if(T& word, T expected, T desired) {
    Ref<T>(word).compare_exchange_strong(expected, desired, cuda::memory_order_relaxed, cuda::memory_order_relaxed);
    return expected;
  }
  TD_LANE static void prefetch(const Slab* slab) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(slab));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(reinterpret_cast<const std::byte*>(slab) + 128));
  }
  // The barrier of the warp carries the order from the lane that changed the word to the others, and back.
  TD_LANE void acquire() const {
    cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);
    __syncwarp();
  }
  TD_LANE void release() const {
    __syncwarp();
    cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
  }
  TD_LANE void pause() const { __nanosleep(200); }

 private:
  static constexpr std::uint32_t all = ~0u;
  TD_LANE static std::uint32_t lane() { return threadIdx.x % warp_lanes; }
};
static_assert(SlabWarp<CudaWarp>);

}  // namespace tandem
