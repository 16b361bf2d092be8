#include <cuda_runtime_api.h>

#include "index/item_images-inl.cuh"
#include "placement/mirrored/image_kernels.hpp"

namespace tandem {
namespace {

// Two threads a granule.
__global__ void store_images_kernel(const ItemImages images, const std::uint32_t* location, const Granule* granules,
                                    std::uint32_t count) {
  const std::uint32_t half = blockIdx.x * blockDim.x + threadIdx.x;
  if (half / 2 >= count) return;
  const std::uint32_t to = location[half / 2];
  if (to >= images.count) return;
  reinterpret_cast<uint4*>(images.granules + to)[half % 2] = *half_of(granules + half / 2, half % 2);
  if (half % 2 == 0) {  // another item than the one that was read, or one with reads to be reported again
    cuda::atomic_ref<std::uint32_t, cuda::thread_scope_device> marks(images.marks[to / 32]);
    const std::uint32_t mine = 1u << to % 32;
    if ((marks.load(cuda::memory_order_relaxed) & mine) != 0) marks.fetch_and(~mine, cuda::memory_order_relaxed);
  }
}

constexpr std::uint32_t block_threads = 256;

}  // namespace

int cuda_store_images(const StoreImagesArguments& a, cudaStream_t stream) noexcept {
  if (a.count == 0) return cudaSuccess;
  const ItemImages images{reinterpret_cast<Granule*>(a.images.granules.address()),
                          reinterpret_cast<std::uint32_t*>(a.images.marks.address()), a.images.count,
                          a.images.item_granules};
  const auto blocks = static_cast<std::uint32_t>((2 * std::uint64_t{a.count} + block_threads - 1) / block_threads);
  store_images_kernel<<<blocks, block_threads, 0, stream>>>(
      images, reinterpret_cast<const std::uint32_t*>(a.location.address()),
      reinterpret_cast<const Granule*>(a.granules.address()), a.count);
  return cudaGetLastError();
}

}  // namespace tandem
