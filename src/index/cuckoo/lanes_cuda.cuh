// A CUDA device: a tile of 1, 2, 4 or 8 threads of one warp (the processing unit of Mega-KV 4.2) is the lanes of one
// bucket, each thread 8, 4, 2 or 1 of them. Departure: in Mega-KV a thread reads a 4-byte word; here a thread reads up
// to 16 bytes with one instruction, since instructions, not memory, limit narrow loads
// (docs/decisions/0011-kernels.md).
#pragma once
#include <cuda/atomic>

#include "index/cuckoo/lanes.hpp"

namespace tandem {

template <std::uint32_t Threads>
struct CudaLanes {
  static_assert(Threads == 1 || Threads == 2 || Threads == 4 || Threads == 8);
  static constexpr std::uint32_t width = bucket_cells;
  static constexpr std::uint32_t threads = Threads;
  static constexpr std::uint32_t cells = width / Threads;  // of one thread
  struct PerLane {
    std::uint64_t cell[cells];
  };
  std::uint32_t rank, shift, tile_mask;  // this thread's place in its tile, the tile's in the warp

  // The lanes of the calling thread. REQUIRES: all threads of the tile call, and stay together in every operation.
  __device__ static CudaLanes here() {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t shift = lane / Threads * Threads;
    return {lane % Threads, shift, ((1u << Threads) - 1) << shift};
  }

  using Ref = cuda::atomic_ref<std::uint64_t, cuda::thread_scope_device>;

  // Index of cell `k` of thread `rank`: neighbours of 16 bytes go to neighbouring threads, so that a tile's loads are
  // of whole sectors.
  __device__ static constexpr std::uint32_t cell_of(std::uint32_t rank, std::uint32_t k) {
    return cells == 1 ? rank : 2 * (k / 2 * Threads + rank) + k % 2;
  }

  TD_LANE PerLane load(const Bucket* b) const {
    PerLane v;
    if constexpr (cells == 1) {
      v.cell[0] = Ref(const_cast<std::uint64_t&>(b->cell[rank])).load(cuda::memory_order_relaxed);
    } else {
#pragma unroll
      for (std::uint32_t k = 0; k < cells; k += 2) {  // a vector is as many accesses as it has elements (PTX 8.2.2)
        asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                     : "=l"(v.cell[k]), "=l"(v.cell[k + 1])
                     : "l"(b->cell + cell_of(rank, k))
                     : "memory");
      }
    }
    return v;
  }
  TD_LANE void order_loads() const { cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device); }
  TD_LANE std::uint32_t match(PerLane v, std::uint32_t signature) const {
    if constexpr (cells == 1) {
      return (__ballot_sync(tile_mask, static_cast<std::uint32_t>(v.cell[0]) == signature) >> shift) & 0xff;
    } else {
      std::uint32_t m = 0;
#pragma unroll
      for (std::uint32_t k = 0; k < cells; ++k) {
        m |= (static_cast<std::uint32_t>(v.cell[k]) == signature ? 1u : 0u) << cell_of(rank, k);
      }
#pragma unroll
      for (std::uint32_t step = 1; step < Threads; step *= 2)
        m |= __shfl_xor_sync(tile_mask, m, static_cast<int>(step));
      return m;
    }
  }
  TD_LANE Cell take(const Bucket*, PerLane v, std::uint32_t i) const {
    std::uint64_t mine = v.cell[0];
    if constexpr (cells > 1) {
#pragma unroll
      for (std::uint32_t k = 1; k < cells; ++k) {
        if (cell_of(rank, k) == i) mine = v.cell[k];
      }
    }
    if constexpr (Threads == 1) {
      return {mine};
    } else {
      const std::uint32_t owner = cells == 1 ? i : i / 2 % Threads;
      return {__shfl_sync(tile_mask, mine, static_cast<int>(owner), static_cast<int>(Threads))};
    }
  }
  TD_LANE Cell cas(std::uint64_t* p, Cell expected, Cell desired) const {
    std::uint64_t seen = expected.bits;
    if (rank == 0) {
      Ref(*p).compare_exchange_strong(seen, desired.bits, cuda::memory_order_acq_rel, cuda::memory_order_acquire);
    }
    if constexpr (Threads > 1) seen = __shfl_sync(tile_mask, seen, 0, static_cast<int>(Threads));
    return {seen};
  }
  TD_LANE std::uint32_t lowest(std::uint32_t m) const {
    return static_cast<std::uint32_t>(__ffs(static_cast<int>(m)) - 1);
  }
  template <class F>
  TD_LANE void once(F f) const {
    if (rank == 0) f();
  }

  // The value of thread `i` of the tile. REQUIRES: i < Threads.
  TD_LANE std::uint32_t of_thread(std::uint32_t value, std::uint32_t i) const {
    if constexpr (Threads == 1) return value;
    return __shfl_sync(tile_mask, value, static_cast<int>(i), static_cast<int>(Threads));
  }
  // Bit i: thread i's predicate.
  TD_LANE std::uint32_t vote(bool predicate) const {
    if constexpr (Threads == 1) return predicate ? 1 : 0;
    return (__ballot_sync(tile_mask, predicate) >> shift) & ((1u << Threads) - 1);
  }
};
static_assert(Lanes<CudaLanes<1>> && Lanes<CudaLanes<2>> && Lanes<CudaLanes<4>> && Lanes<CudaLanes<8>>);

}  // namespace tandem
