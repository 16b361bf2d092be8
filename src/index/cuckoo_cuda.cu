#include "index/cuckoo_cuda.cuh"
#include "index/lanes_cuda.cuh"

#define TD_LANES_NAMESPACE cuda_lanes
#include "index/cuckoo-inl.hpp"

namespace tandem {
namespace {

constexpr std::uint32_t block_threads = 256;  // 32 tiles

// The query of this thread's tile. All threads of a tile agree, so a tile leaves whole.
__device__ std::uint32_t tile_index() { return (blockIdx.x * block_threads + threadIdx.x) / CudaLanes::width; }

// Reads the second bucket only on a miss in the first: a device has enough searches in flight to wait, and bandwidth is
// its limit.
__global__ void __launch_bounds__(block_threads)
    search_kernel(IndexView index, const Fingerprint* f, std::uint32_t* location, std::uint32_t count) {
  const std::uint32_t i = tile_index();
  if (i >= count) return;
  const CudaLanes lanes = CudaLanes::here();
  const std::uint32_t found = cuda_lanes::search_in_turn(lanes, index, f[i]);
  lanes.once([&] { location[i] = found; });
}

__global__ void __launch_bounds__(block_threads)
    insert_kernel(IndexView index, const Fingerprint* f, const std::uint32_t* location, std::uint8_t* done,
                  std::uint32_t count) {
  const std::uint32_t i = tile_index();
  if (i >= count) return;
  const CudaLanes lanes = CudaLanes::here();
  const bool added = cuda_lanes::insert(lanes, index, f[i], location[i]);
  lanes.once([&] { done[i] = added; });
}

__global__ void __launch_bounds__(block_threads)
    erase_kernel(IndexView index, const Fingerprint* f, const std::uint32_t* location, std::uint8_t* done,
                 std::uint32_t count) {
  const std::uint32_t i = tile_index();
  if (i >= count) return;
  const CudaLanes lanes = CudaLanes::here();
  const bool erased = cuda_lanes::erase(lanes, index, f[i], location[i]);
  lanes.once([&] { done[i] = erased; });
}

__global__ void __launch_bounds__(block_threads)
    apply_kernel(IndexView index, const DirtyCell* dirty, std::uint32_t count) {
  const std::uint32_t i = blockIdx.x * block_threads + threadIdx.x;
  if (i >= count) return;
  std::uint64_t* const cell = index.buckets->cell + dirty[i].index;
  CudaLanes::Ref(*cell).store(dirty[i].bits, cuda::memory_order_relaxed);
}

std::uint32_t blocks_for(std::uint64_t threads) {
  return static_cast<std::uint32_t>((threads + block_threads - 1) / block_threads);
}

std::uint64_t tile_threads(std::uint32_t count) { return std::uint64_t{count} * CudaLanes::width; }

}  // namespace

cudaError_t search_on_device(IndexView index, const Fingerprint* f, std::uint32_t* location, std::uint32_t count,
                             cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  search_kernel<<<blocks_for(tile_threads(count)), block_threads, 0, stream>>>(index, f, location, count);
  return cudaGetLastError();
}

cudaError_t insert_on_device(IndexView index, const Fingerprint* f, const std::uint32_t* location, std::uint8_t* done,
                             std::uint32_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  insert_kernel<<<blocks_for(tile_threads(count)), block_threads, 0, stream>>>(index, f, location, done, count);
  return cudaGetLastError();
}

cudaError_t erase_on_device(IndexView index, const Fingerprint* f, const std::uint32_t* location, std::uint8_t* done,
                            std::uint32_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  erase_kernel<<<blocks_for(tile_threads(count)), block_threads, 0, stream>>>(index, f, location, done, count);
  return cudaGetLastError();
}

cudaError_t apply_on_device(IndexView index, const DirtyCell* dirty, std::uint32_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  apply_kernel<<<blocks_for(count), block_threads, 0, stream>>>(index, dirty, count);
  return cudaGetLastError();
}

}  // namespace tandem
