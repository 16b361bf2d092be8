#include "index/cuckoo_cuda.cuh"
#include "index/lanes_cuda.cuh"

#define TD_LANES_NAMESPACE cuda_lanes
#include "index/cuckoo-inl.hpp"

namespace tandem {
namespace {

// The query of this thread's tile. All threads of a tile agree, so a tile leaves whole.
template <class L>
__device__ std::uint32_t tile_index() {
  return (blockIdx.x * blockDim.x + threadIdx.x) / L::threads;
}

// A query a thread; the tile's threads read the buckets of each other's queries together, so that many loads are under
// way and each is of whole sectors. The second buckets only of those that the first ones do not settle: bandwidth is the
// limit.
template <class L>
__global__ void search_kernel(IndexView index, const Fingerprint* f, std::uint32_t* location, std::uint32_t count) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i / L::threads * L::threads >= count) return;
  const L lanes = L::here();
  const Fingerprint mine = f[i < count ? i : count - 1];
  const std::uint32_t b1 = index.first(mine), b2 = index.second(mine);

  typename L::PerLane v[L::threads];
#pragma unroll
  for (std::uint32_t q = 0; q < L::threads; ++q) v[q] = lanes.load(index.buckets + lanes.of_thread(b1, q));
  std::uint32_t found = 0;
#pragma unroll
  for (std::uint32_t q = 0; q < L::threads; ++q) {
    const std::uint32_t l = cuda_lanes::candidate(lanes, nullptr, v[q], lanes.of_thread(mine.signature, q));
    if (lanes.rank == q) found = l;
  }

  const std::uint32_t left = lanes.vote(found == 0);
  if (left != 0) {
#pragma unroll
    for (std::uint32_t q = 0; q < L::threads; ++q) {
      const std::uint32_t b = lanes.of_thread(b2, q);
      if ((left >> q & 1) != 0) v[q] = lanes.load(index.buckets + b);
    }
#pragma unroll
    for (std::uint32_t q = 0; q < L::threads; ++q) {
      const std::uint32_t signature = lanes.of_thread(mine.signature, q);
      if ((left >> q & 1) != 0) {
        const std::uint32_t l = cuda_lanes::candidate(lanes, nullptr, v[q], signature);
        if (lanes.rank == q) found = l;
      }
    }
  }
  if (i < count) location[i] = found;
}

template <class L>
__global__ void insert_kernel(IndexView index, const Fingerprint* f, const std::uint32_t* location, std::uint8_t* done,
                              std::uint32_t count) {
  const std::uint32_t i = tile_index<L>();
  if (i >= count) return;
  const L lanes = L::here();
  const bool added = cuda_lanes::insert(lanes, index, f[i], location[i]);
  lanes.once([&] { done[i] = added; });
}

template <class L>
__global__ void erase_kernel(IndexView index, const Fingerprint* f, const std::uint32_t* location, std::uint8_t* done,
                             std::uint32_t count) {
  const std::uint32_t i = tile_index<L>();
  if (i >= count) return;
  const L lanes = L::here();
  const bool erased = cuda_lanes::erase(lanes, index, f[i], location[i]);
  lanes.once([&] { done[i] = erased; });
}

// Two passes: each cell's last change wins its word in `winners`, then the winners store their cells and clear the word.
__global__ void apply_vote_kernel(std::uint64_t cell_count, std::uint32_t* winners, const DirtyCell* cells,
                                  std::uint32_t count) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count && cells[i].index < cell_count) atomicMax(winners + cells[i].index, i + 1);
}
__global__ void apply_store_kernel(IndexView index, std::uint64_t cell_count, std::uint32_t* winners,
                                   const DirtyCell* cells, std::uint32_t count) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count || cells[i].index >= cell_count) return;
  // A word that its winner has cleared already is no other change's number either.
  using Winner = cuda::atomic_ref<std::uint32_t, cuda::thread_scope_device>;
  Winner winner(winners[cells[i].index]);
  if (winner.load(cuda::memory_order_relaxed) != i + 1) return;
  std::uint64_t* const cell = index.buckets->cell + cells[i].index;
  CudaLanes<1>::Ref(*cell).store(cells[i].bits, cuda::memory_order_relaxed);
  winner.store(0, cuda::memory_order_relaxed);
}

constexpr std::uint32_t apply_threads = 256;

std::uint32_t blocks_for(std::uint64_t threads, std::uint32_t block_threads) {
  return static_cast<std::uint32_t>((threads + block_threads - 1) / block_threads);
}

// Calls `launch` with the lanes of so many threads.
template <class F>
cudaError_t with_lanes(std::uint32_t threads, F launch) {
  switch (threads) {
    case 1: launch(CudaLanes<1>{}); break;
    case 2: launch(CudaLanes<2>{}); break;
    case 4: launch(CudaLanes<4>{}); break;
    case 8: launch(CudaLanes<8>{}); break;
    default: return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t search_on_device(IndexView index, const Fingerprint* f, std::uint32_t* location, std::uint32_t count,
                             cudaStream_t stream, const KernelTuning& tuning) {
  if (count == 0) return cudaSuccess;
  return with_lanes(tuning.search_threads, [&]<class L>(L) {
    search_kernel<L><<<blocks_for(count, tuning.search_block), tuning.search_block, 0, stream>>>(index, f, location,
                                                                                               count);
  });
}

cudaError_t insert_on_device(IndexView index, const Fingerprint* f, const std::uint32_t* location, std::uint8_t* done,
                             std::uint32_t count, cudaStream_t stream, const KernelTuning& tuning) {
  if (count == 0) return cudaSuccess;
  return with_lanes(tuning.update_threads, [&]<class L>(L) {
    const std::uint32_t blocks = blocks_for(std::uint64_t{count} * L::threads, tuning.update_block);
    insert_kernel<L><<<blocks, tuning.update_block, 0, stream>>>(index, f, location, done, count);
  });
}

cudaError_t erase_on_device(IndexView index, const Fingerprint* f, const std::uint32_t* location, std::uint8_t* done,
                            std::uint32_t count, cudaStream_t stream, const KernelTuning& tuning) {
  if (count == 0) return cudaSuccess;
  return with_lanes(tuning.update_threads, [&]<class L>(L) {
    const std::uint32_t blocks = blocks_for(std::uint64_t{count} * L::threads, tuning.update_block);
    erase_kernel<L><<<blocks, tuning.update_block, 0, stream>>>(index, f, location, done, count);
  });
}

cudaError_t apply_on_device(IndexView index, std::uint32_t* winners, const DirtyCell* cells, std::uint32_t count,
                            cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const std::uint64_t cell_count = (std::uint64_t{index.mask} + 1) * bucket_cells;
  const std::uint32_t blocks = blocks_for(count, apply_threads);
  apply_vote_kernel<<<blocks, apply_threads, 0, stream>>>(cell_count, winners, cells, count);
  apply_store_kernel<<<blocks, apply_threads, 0, stream>>>(index, cell_count, winners, cells, count);
  return cudaGetLastError();
}

}  // namespace tandem
