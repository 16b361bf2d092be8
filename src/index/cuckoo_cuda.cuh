// The device's operations on a table in its own memory, or on the replica of one (docs/decisions/0002-index.md). All
// asynchronous on `stream`; the error, if any, is the launch's. Device pointers throughout. Everything on one stream,
// or ordered by events: launches that change a table are totally ordered (write protocol 6).
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "index/cell.hpp"

namespace tandem {

// What a replica is told: cell `index` (8 * bucket + slot) now holds `bits`.
struct DirtyCell {
  std::uint64_t index, bits;
};
static_assert(sizeof(DirtyCell) == 16);

// location[i]: of the first cell with f[i]'s signature, or 0.
cudaError_t search_on_device(IndexView index, const Fingerprint* f, std::uint32_t* location, std::uint32_t count,
                             cudaStream_t stream);
// done[i]: 1 if the key was added, 0 if the table is full for it. REQUIRES: no key of the batch is in the table or in
// the batch twice.
cudaError_t insert_on_device(IndexView index, const Fingerprint* f, const std::uint32_t* location, std::uint8_t* done,
                             std::uint32_t count, cudaStream_t stream);
// done[i]: 1 if the cell of this fingerprint and location was removed.
cudaError_t erase_on_device(IndexView index, const Fingerprint* f, const std::uint32_t* location, std::uint8_t* done,
                            std::uint32_t count, cudaStream_t stream);
// Stores each cell. REQUIRES: no cell is named twice.
cudaError_t apply_on_device(IndexView index, const DirtyCell* dirty, std::uint32_t count, cudaStream_t stream);

}  // namespace tandem
