// The device's operations on a table in its own memory, or on the replica of one (docs/decisions/0002-index.md). All
// are asynchronous on `stream`; a returned error is the launch's. All pointers are device pointers. Launches that
// change a table are totally ordered, on one stream or by events (write protocol 6).
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "index/cuckoo/cell.hpp"

namespace tandem {

// Shapes of the kernels: data, since the best ones differ by device (docs/decisions/0011-kernels.md).
struct KernelTuning {
  std::uint32_t search_threads = 4, search_block = 128;  // threads of a tile: 1, 2, 4 or 8; of a block
  std::uint32_t update_threads = 2, update_block = 128;  // insert, erase, change
};

// For each part, location[i]: of the first cell with f[i]'s signature, or 0. REQUIRES: parts <= search_parts_max;
// search_block is a multiple of 32.
cudaError_t search_on_device(const SearchedTable& table, const SearchPart* part, std::uint32_t parts,
                             cudaStream_t stream, const KernelTuning& tuning = {});
// done[i]: 1 if the key was added, 0 if the table is full for it. REQUIRES: no key of the batch is in the table or in
// the batch twice.
cudaError_t insert_on_device(IndexView index, const Fingerprint* f, const std::uint32_t* location, std::uint8_t* done,
                             std::uint32_t count, cudaStream_t stream, const KernelTuning& tuning = {});
// done[i]: 1 if the cell of this fingerprint and location was removed.
cudaError_t erase_on_device(IndexView index, const Fingerprint* f, const std::uint32_t* location, std::uint8_t* done,
                            std::uint32_t count, cudaStream_t stream, const KernelTuning& tuning = {});
// Two passes, one launch each. First, every change with its cell (f's signature, from) in one of f's buckets sets it to
// (signature, to), or clears it if to is 0; then those with a `to` that found none are inserted. done[i]: 1, or 0 if
// the table is full for it. REQUIRES: no two changes name the same `from`, or the same `to`, other than 0; no change's
// `from` is another's `to`; a key that the first pass does not find is not in the table. A concurrent search may miss a
// key that is displaced.
cudaError_t change_on_device(IndexView index, const CellChange* changes, std::uint8_t* done, std::uint32_t count,
                             cudaStream_t stream, const KernelTuning& tuning = {});
// Stores each cell; if a cell occurs several times, the last one in `cells` counts. `winners`: a word for each cell of
// the table, all zero before and after. Cells beyond the table are ignored.
cudaError_t apply_on_device(Bucket* buckets, std::uint64_t cell_count, std::uint32_t* winners, const DirtyCell* cells,
                            std::uint32_t count, cudaStream_t stream);

}  // namespace tandem
