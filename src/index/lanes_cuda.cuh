// A CUDA device: a tile of 8 threads of one warp (the processing unit of Mega-KV 4.2) is the lanes of one bucket.
#pragma once
#include <cuda/atomic>

#include "index/lanes.hpp"

namespace tandem {

struct CudaLanes {
  static constexpr std::uint32_t width = bucket_cells;
  struct PerLane {
    std::uint64_t cell;
  };
  std::uint32_t rank, shift, tile_mask;  // this thread's place in its tile, the tile's in the warp

  // The lanes of the calling thread. REQUIRES: all 8 threads of the tile call, and stay together in every operation.
  __device__ static CudaLanes here() {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t shift = lane / width * width;
    return {lane % width, shift, 0xffu << shift};
  }

  using Ref = cuda::atomic_ref<std::uint64_t, cuda::thread_scope_device>;

  TD_LANE PerLane load(const Bucket* b) const {
    return {Ref(const_cast<std::uint64_t&>(b->cell[rank])).load(cuda::memory_order_relaxed)};
  }
  TD_LANE void order_loads() const { cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device); }
  TD_LANE std::uint32_t match(PerLane v, std::uint32_t signature) const {
    return (__ballot_sync(tile_mask, static_cast<std::uint32_t>(v.cell) == signature) >> shift) & 0xff;
  }
  TD_LANE Cell take(const Bucket*, PerLane v, std::uint32_t i) const {
    return {__shfl_sync(tile_mask, v.cell, static_cast<int>(i), static_cast<int>(width))};
  }
  TD_LANE Cell cas(std::uint64_t* p, Cell expected, Cell desired) const {
    std::uint64_t seen = expected.bits;
    if (rank == 0) {
      Ref(*p).compare_exchange_strong(seen, desired.bits, cuda::memory_order_acq_rel, cuda::memory_order_acquire);
    }
    return {__shfl_sync(tile_mask, seen, 0, static_cast<int>(width))};
  }
  TD_LANE std::uint32_t lowest(std::uint32_t m) const {
    return static_cast<std::uint32_t>(__ffs(static_cast<int>(m)) - 1);
  }
  template <class F>
  TD_LANE void once(F f) const {
    if (rank == 0) f();
  }
};
static_assert(Lanes<CudaLanes>);

}  // namespace tandem
