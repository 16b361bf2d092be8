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

// One block a piece, one thread an image. The state word of the image that it replaces is the lock, with a value of the
// launch. Its holder waits for no thread, and what is older than the image there gives up without it, so that of many
// sets of one key few wait.
__global__ void store_rewrites_kernel(const ItemImages images, const Granule* all, const std::uint32_t* location,
                                      const RingPiece* pieces, std::uint64_t locked) {
  const auto piece = *reinterpret_cast<const uint3*>(pieces + blockIdx.x);  // first, count, readable
  const std::uint32_t i = threadIdx.x;
  if (i >= piece.y) return;
  const std::uint32_t l = location[piece.x + i];
  if (l == 0 || l >= images.count) return;
  const Granule* const granules = all + piece.x + i;
  const auto words = *reinterpret_cast<const ulonglong2*>(granules);
  const std::uint32_t n = image_granules(words.x, words.y);
  if (n > images.item_granules || n > piece.z - i || n > images.count - l) return;
  Granule* const to = images.granules + l;
  cuda::atomic_ref<std::uint64_t, cuda::thread_scope_device> state(to->word[0]), fixed(to->word[1]);
  std::uint64_t old = state.load(cuda::memory_order_acquire);
  for (;;) {
    if (old == locked) {
      __nanosleep(32);
      old = state.load(cuda::memory_order_acquire);
      continue;
    }
    // A fixed word of a later version may be read here: that one is newer still.
    if (!is_newer_image(words.x, words.y, old, fixed.load(cuda::memory_order_relaxed))) return;
    if (state.compare_exchange_weak(old, locked, cuda::memory_order_acquire, cuda::memory_order_acquire)) break;
  }
  // The state word alone may be of a later version: two sets within a second can make the same.
  if (!is_newer_image(words.x, words.y, old, fixed.load(cuda::memory_order_relaxed))) {
    state.store(old, cuda::memory_order_release);
    return;
  }
  fixed.store(words.y, cuda::memory_order_relaxed);
  reinterpret_cast<uint4*>(to)[1] = *half_of(granules, 1);
  for (std::uint32_t half = 2; half < 2 * n; ++half)
    reinterpret_cast<uint4*>(to + half / 2)[half % 2] = *half_of(granules + half / 2, half % 2);
  cuda::atomic_ref<std::uint32_t, cuda::thread_scope_device> marks(images.marks[l / 32]);
  const std::uint32_t mine = 1u << l % 32;
  if ((marks.load(cuda::memory_order_relaxed) & mine) != 0) marks.fetch_and(~mine, cuda::memory_order_relaxed);
  state.store(words.x, cuda::memory_order_release);
}

constexpr std::uint32_t block_threads = 256;

ItemImages images_of(const DeviceImages& images) {
  return {reinterpret_cast<Granule*>(images.granules.address()),
          reinterpret_cast<std::uint32_t*>(images.marks.address()), images.count, images.item_granules};
}

}  // namespace

int cuda_store_images(const StoreImagesArguments& a, cudaStream_t stream) noexcept {
  if (a.count == 0) return cudaSuccess;
  const auto blocks = static_cast<std::uint32_t>((2 * std::uint64_t{a.count} + block_threads - 1) / block_threads);
  store_images_kernel<<<blocks, block_threads, 0, stream>>>(
      images_of(a.images), reinterpret_cast<const std::uint32_t*>(a.location.address()),
      reinterpret_cast<const Granule*>(a.granules.address()), a.count);
  return cudaGetLastError();
}

int cuda_store_rewrites(const StoreRewritesArguments& a, cudaStream_t stream) noexcept {
  if (a.count == 0) return cudaSuccess;
  store_rewrites_kernel<<<a.count, RingPiece::places_max, 0, stream>>>(
      images_of(a.images), reinterpret_cast<const Granule*>(a.granules.address()),
      reinterpret_cast<const std::uint32_t*>(a.location.address()),
      reinterpret_cast<const RingPiece*>(a.piece.address()), a.lock);
  return cudaGetLastError();
}

}  // namespace tandem
