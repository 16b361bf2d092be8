// The kernels: each thread leads one query.
#include "index/slab_list/slab_cuda.cuh"
#include "index/slab_list/slab_kernels.hpp"
#include "index/slab_list/warp_cuda.cuh"

namespace tandem {
namespace {

// The queries of this thread's warp: from `at` on, `count` of them; 0: none.
struct WarpQueries {
  std::uint32_t at, count;
};
__device__ WarpQueries queries_of_warp(std::uint32_t count) {
  const std::uint32_t at = (blockIdx.x * blockDim.x + threadIdx.x) / warp_lanes * warp_lanes;
  return {at, at >= count ? 0 : min(count - at, warp_lanes)};
}

template <bool Locks>
__global__ void slab_search_kernel(const SlabTable table, const Fingerprint* f, std::uint32_t* location,
                                   std::uint32_t count) {
  const WarpQueries mine = queries_of_warp(count);
  if (mine.count != 0) slab_search_warp<Locks>(CudaWarp(), table, f + mine.at, mine.count, location + mine.at);
}
__global__ void slab_change_kernel(const SlabTable table, const CellChange* changes, std::uint8_t* done,
                                   std::uint32_t* previous, std::uint32_t count) {
  const WarpQueries mine = queries_of_warp(count);
  if (mine.count == 0) return;
  slab_change_warp<true>(CudaWarp(), table, changes + mine.at, mine.count, done + mine.at, previous + mine.at);
}

std::uint32_t blocks_for(std::uint32_t queries, std::uint32_t block) {
  return static_cast<std::uint32_t>((std::uint64_t{queries} + block - 1) / block);
}

}  // namespace

cudaError_t slab_search_on_device(const SlabTable& table, bool locks, const Fingerprint* f, std::uint32_t* location,
                                  std::uint32_t count, cudaStream_t stream, const SlabTuning& tuning) {
  const std::uint32_t block = tuning.search_block;
  if (block == 0 || block % warp_lanes != 0) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  if (locks) {
    slab_search_kernel<true><<<blocks_for(count, block), block, 0, stream>>>(table, f, location, count);
  } else {
    slab_search_kernel<false><<<blocks_for(count, block), block, 0, stream>>>(table, f, location, count);
  }
  return cudaGetLastError();
}

cudaError_t slab_change_on_device(const SlabTable& table, const CellChange* changes, std::uint8_t* done,
                                  std::uint32_t* previous, std::uint32_t count, cudaStream_t stream,
                                  const SlabTuning& tuning) {
  const std::uint32_t block = tuning.change_block;
  if (block == 0 || block % warp_lanes != 0) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  slab_change_kernel<<<blocks_for(count, block), block, 0, stream>>>(table, changes, done, previous, count);
  return cudaGetLastError();
}

// --- entries of the kernels

namespace {

template <class T>
T* pointer(DevicePtr<T> at) {
  return reinterpret_cast<T*>(at.address());
}
SlabTable table_of(const DeviceSlabs& d) {
  return {pointer(d.first), pointer(d.more),        pointer(d.lock), pointer(d.below),
          pointer(d.free),  SlabBuckets(d.buckets), d.more_count};
}

}  // namespace

int cuda_slab_search(const SlabSearchArguments& a, cudaStream_t stream) noexcept {
  return slab_search_on_device(table_of(a.table), true, pointer(a.f), pointer(a.location), a.count, stream);
}

int cuda_slab_search_alone(const SlabSearchArguments& a, cudaStream_t stream) noexcept {
  return slab_search_on_device(table_of(a.table), false, pointer(a.f), pointer(a.location), a.count, stream);
}

int cuda_slab_change(const SlabChangeArguments& a, cudaStream_t stream) noexcept {
  return slab_change_on_device(table_of(a.table), pointer(a.changes), pointer(a.done), pointer(a.previous), a.count,
                               stream);
}

}  // namespace tandem
