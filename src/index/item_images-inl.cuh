// A device's side of ItemImages.
#pragma once
#include <cuda/atomic>

#include "index/item_images.hpp"

namespace tandem {

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

}  // namespace tandem
