#include "index/cuckoo/cuckoo_cuda.cuh"
#include "index/cuckoo/search_cuda-inl.cuh"
#include "index/cuckoo/table_kernels.hpp"

namespace tandem {
namespace {

// The query of this thread's tile. All threads of a tile agree, so a tile returns as a whole.
template <class L>
__device__ std::uint32_t tile_index() {
  return (blockIdx.x * blockDim.x + threadIdx.x) / L::threads;
}

// With one load.
__device__ CellChange change_at(const CellChange* changes, std::uint32_t i) {
  const uint4 words = reinterpret_cast<const uint4*>(changes)[i];
  return {{words.x, words.y}, words.z, words.w};
}

// Blocks belong to one part each: part p's end before block_end[p].
struct Parts {
  SearchPart part[search_parts_max];
  std::uint32_t block_end[search_parts_max];
};
template <class L>
__global__ void search_kernel(const SearchedTable table, const __grid_constant__ Parts parts) {
  std::uint32_t p = 0, begin = 0;
  while (blockIdx.x >= parts.block_end[p]) begin = parts.block_end[p++];
  const SearchPart& part = parts.part[p];
  const std::uint32_t i = (blockIdx.x - begin) * blockDim.x + threadIdx.x;
  const std::uint32_t found =
      search_thread<L>(table, reinterpret_cast<const Fingerprint*>(part.fingerprints), part.count, i);
  if (i < part.count) reinterpret_cast<std::uint32_t*>(part.locations)[i] = found;
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

template <class L>
__global__ void replace_changed_kernel(IndexView index, const CellChange* changes, std::uint8_t* done,
                                       std::uint32_t count) {
  const std::uint32_t i = tile_index<L>();
  if (i >= count) return;
  const L lanes = L::here();
  const bool finished = cuda_lanes::replace_changed(lanes, index, change_at(changes, i));
  lanes.once([&] { done[i] = finished; });
}
template <class L>
__global__ void insert_changed_kernel(IndexView index, const CellChange* changes, std::uint8_t* done,
                                      std::uint32_t count) {
  const std::uint32_t i = tile_index<L>();
  if (i >= count || done[i] != 0) return;
  const L lanes = L::here();
  const bool added = cuda_lanes::insert_changed(lanes, index, change_at(changes, i));
  lanes.once([&] { done[i] = added; });
}

// Two passes: each cell's last change wins its word in `winners`, then the winners store their cells and clear the
// word.
__global__ void apply_vote_kernel(std::uint64_t cell_count, std::uint32_t* winners, const DirtyCell* cells,
                                  std::uint32_t count) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count && cells[i].index < cell_count) atomicMax(winners + cells[i].index, i + 1);
}
__global__ void apply_store_kernel(Bucket* buckets, std::uint64_t cell_count, std::uint32_t* winners,
                                   const DirtyCell* cells, std::uint32_t count) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count || cells[i].index >= cell_count) return;
  // A word that its winner has already cleared is not another change's number either.
  using Winner = cuda::atomic_ref<std::uint32_t, cuda::thread_scope_device>;
  Winner winner(winners[cells[i].index]);
  if (winner.load(cuda::memory_order_relaxed) != i + 1) return;
  std::uint64_t* const cell = buckets->cell + cells[i].index;
  CudaLanes<1>::Ref(*cell).store(cells[i].bits, cuda::memory_order_relaxed);
  winner.store(0, cuda::memory_order_relaxed);
}

constexpr std::uint32_t warp_threads = 32, apply_threads = 256;

std::uint32_t blocks_for(std::uint64_t threads, std::uint32_t block_threads) {
  return static_cast<std::uint32_t>((threads + block_threads - 1) / block_threads);
}

// Calls `launch` with the lanes of `threads` threads.
template <class F>
cudaError_t with_lanes(std::uint32_t threads, F launch) {
  switch (threads) {
    case 1:
      launch(CudaLanes<1>{});
      break;
    case 2:
      launch(CudaLanes<2>{});
      break;
    case 4:
      launch(CudaLanes<4>{});
      break;
    case 8:
      launch(CudaLanes<8>{});
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t search_on_device(const SearchedTable& table, const SearchPart* part, std::uint32_t parts,
                             cudaStream_t stream, const KernelTuning& tuning) {
  if (parts > search_parts_max || tuning.search_block % warp_threads != 0) return cudaErrorInvalidValue;
  Parts all{};
  std::uint32_t blocks = 0, used = 0;
  for (std::uint32_t p = 0; p < parts; ++p) {
    if (part[p].count == 0) continue;
    blocks += blocks_for(part[p].count, tuning.search_block);
    all.part[used] = part[p];
    all.block_end[used++] = blocks;
  }
  if (blocks == 0) return cudaSuccess;
  return with_lanes(tuning.search_threads,
                    [&]<class L>(L) { search_kernel<L><<<blocks, tuning.search_block, 0, stream>>>(table, all); });
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

cudaError_t change_on_device(IndexView index, const CellChange* changes, std::uint8_t* done, std::uint32_t count,
                             cudaStream_t stream, const KernelTuning& tuning) {
  if (count == 0) return cudaSuccess;
  return with_lanes(tuning.update_threads, [&]<class L>(L) {
    const std::uint32_t blocks = blocks_for(std::uint64_t{count} * L::threads, tuning.update_block);
    replace_changed_kernel<L><<<blocks, tuning.update_block, 0, stream>>>(index, changes, done, count);
    insert_changed_kernel<L><<<blocks, tuning.update_block, 0, stream>>>(index, changes, done, count);
  });
}

cudaError_t apply_on_device(Bucket* buckets, std::uint64_t cell_count, std::uint32_t* winners, const DirtyCell* cells,
                            std::uint32_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const std::uint32_t blocks = blocks_for(count, apply_threads);
  apply_vote_kernel<<<blocks, apply_threads, 0, stream>>>(cell_count, winners, cells, count);
  apply_store_kernel<<<blocks, apply_threads, 0, stream>>>(buckets, cell_count, winners, cells, count);
  return cudaGetLastError();
}

// --- entries of the kernels

namespace {

template <class T>
T* pointer(DevicePtr<T> at) {
  return reinterpret_cast<T*>(at.address());
}
IndexView view(DeviceIndex index) { return {pointer(index.buckets), index.shape.mask}; }

}  // namespace

int cuda_search(const SearchArguments& a, cudaStream_t stream) noexcept {
  return search_on_device({pointer(a.index.buckets), a.index.shape}, a.part.data(), a.parts, stream);
}

int cuda_insert(const UpdateArguments& a, cudaStream_t stream) noexcept {
  return insert_on_device(view(a.index), pointer(a.f), pointer(a.location), pointer(a.done), a.count, stream);
}

int cuda_erase(const UpdateArguments& a, cudaStream_t stream) noexcept {
  return erase_on_device(view(a.index), pointer(a.f), pointer(a.location), pointer(a.done), a.count, stream);
}

int cuda_change(const ChangeArguments& a, cudaStream_t stream) noexcept {
  return change_on_device(view(a.index), pointer(a.changes), pointer(a.done), a.count, stream);
}

int cuda_store_cells(const StoreArguments& a, cudaStream_t stream) noexcept {
  return apply_on_device(pointer(a.index.buckets), a.index.shape.cells(), pointer(a.winners), pointer(a.cells), a.count,
                         stream);
}

}  // namespace tandem
