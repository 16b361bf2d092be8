// The device's operations on a slab list. All are asynchronous on `stream`; a returned error is the launch's. All
// pointers are device pointers. What they do and require: slab_kernels.hpp.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "index/cuckoo/cell.hpp"
#include "index/slab_list/slab_warp.hpp"

namespace tandem {

// Threads of a block, multiples of 32.
struct SlabTuning {
  std::uint32_t search_block = 128, change_block = 128;
};

// locks: slab_search; otherwise slab_search_alone.
cudaError_t slab_search_on_device(const SlabTable& table, bool locks, const Fingerprint* f, std::uint32_t* location,
                                  std::uint32_t count, cudaStream_t stream, const SlabTuning& tuning = {});
cudaError_t slab_change_on_device(const SlabTable& table, const CellChange* changes, std::uint8_t* done,
                                  std::uint32_t* previous, std::uint32_t count, cudaStream_t stream,
                                  const SlabTuning& tuning = {});

}  // namespace tandem
