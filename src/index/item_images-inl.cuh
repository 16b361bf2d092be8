// A device's side of ItemImages: a search copies the images of the items that it found.
#pragma once
#include <cuda/atomic>

#include "index/item_images.hpp"

namespace tandem {

// Threads that copy images together.
inline constexpr std::uint32_t image_warp = 32;

// Half a granule, which is what a thread loads and stores at a time.
__device__ inline const uint4* half_of(const Granule* granule, std::uint32_t half) {
  return reinterpret_cast<const uint4*>(granule) + half;
}

// Marks the item as read. Returns whether it was marked since the marks were last cleared.
__device__ inline bool mark_read(const ItemImages& images, std::uint32_t location) {
  cuda::atomic_ref<std::uint32_t, cuda::thread_scope_device> marks(images.marks[location / 32]);
  const std::uint32_t mine = 1u << location % 32;
  if ((marks.load(cuda::memory_order_relaxed) & mine) != 0) return true;
  return (marks.fetch_or(mine, cuda::memory_order_relaxed) & mine) != 0;
}

// Shared by a block's threads while they copy images: the number of granules of each warp, and the owner of each
// granule of a warp.
struct ImageScratch {
  std::uint32_t warp_granules[image_warp];
  std::uint8_t owners[];  // image_warp * image_granules_limit of each warp
};

// Copies the images of a block's items contiguously to the beginning of their queries' part of the arena. Neighbouring
// threads write neighbouring places, so that the data crosses the bus in large pieces and a host reads few pages and
// whole lines. An image's bit `accessed` says whether it was read before. REQUIRES: all threads of the block call; i of
// the first one is a multiple of the block's size, and that of image_warp.
__device__ inline void copy_images(const ItemImages& images, std::uint32_t location, const SearchPart& part,
                                   std::uint32_t i, ImageScratch& scratch) {
  constexpr std::uint32_t all = 0xffffffff;
  const std::uint32_t lane = threadIdx.x % image_warp, warp = threadIdx.x / image_warp;
  std::uint8_t* const owners = scratch.owners + warp * image_warp * image_granules_limit;
  std::uint32_t granules = 0;
  bool accessed = false;
  if (i < part.count && location != 0 && location < images.count) {
    const auto head = *reinterpret_cast<const ulonglong2*>(images.granules + location);
    granules = image_granules(head.x, head.y);
    if (granules > images.item_granules || granules > images.count - location) granules = 0;
    if (granules != 0) accessed = mark_read(images, location);
  }
  std::uint32_t end = granules;
#pragma unroll
  for (std::uint32_t step = 1; step < image_warp; step *= 2) {
    const std::uint32_t before = __shfl_up_sync(all, end, step);
    if (lane >= step) end += before;
  }
  const std::uint32_t total = __shfl_sync(all, end, image_warp - 1);
  const std::uint32_t begin = end - granules;
  for (std::uint32_t g = begin; g < end; ++g) owners[g] = static_cast<std::uint8_t>(lane);
  if (lane == 0) scratch.warp_granules[warp] = total;
  __syncthreads();

  std::uint32_t first = (i - threadIdx.x) * images.item_granules;  // of the warp's granules in the arena
  for (std::uint32_t w = 0; w < warp; ++w) first += scratch.warp_granules[w];
  uint4* const out = reinterpret_cast<uint4*>(reinterpret_cast<Granule*>(part.arena) + first);
  for (std::uint32_t step = 0; step < 2 * total; step += image_warp) {
    const std::uint32_t half = step + lane, g = half / 2;
    const std::uint32_t owner = g < total ? owners[g] : 0;
    const std::uint32_t from = __shfl_sync(all, location, static_cast<int>(owner));
    const std::uint32_t of_item = g - __shfl_sync(all, begin, static_cast<int>(owner));
    const std::uint32_t was_accessed = __shfl_sync(all, accessed ? 1u : 0u, static_cast<int>(owner));
    if (g >= total) continue;
    uint4 v = *half_of(images.granules + from + of_item, half % 2);
    if (half % 2 == 0 && of_item == 0) {
      static_assert(word::Accessed::hi <= 32);
      constexpr auto bit = static_cast<std::uint32_t>(word::Accessed::mask);
      v.x = was_accessed != 0 ? v.x | bit : v.x & ~bit;
    }
    out[half] = v;
  }
  if (i < part.count) {
    reinterpret_cast<std::uint32_t*>(part.images)[i] = granules != 0 ? first + begin + 1 : 0;
  }
}

}  // namespace tandem
