#include <cuda_runtime_api.h>

#include <cuda/atomic>

#include "frames/frames-inl.hpp"
#include "index/cuckoo/search_cuda-inl.cuh"
#include "index/item_images-inl.cuh"

namespace tandem {
namespace {

constexpr std::uint32_t block_threads = 256;
constexpr std::uint32_t warp = 32, warps = block_threads / warp;

struct Columns {
  std::uint32_t at[256];
};
constexpr Columns make_columns() {
  Columns c{};
  for (std::uint32_t i = 0; i < 256; ++i) c.at[i] = short_hash::columns[i];
  return c;
}
__constant__ Columns constant_columns = make_columns();

// A block. `warp_sums` and `shared_columns` are shared by its threads.
class BlockTile {
 public:
  __device__ BlockTile(std::uint32_t* warp_sums, std::uint32_t* shared_columns)
      : warp_sums_(warp_sums), columns_(shared_columns) {
    for (std::uint32_t i = threadIdx.x; i < 256; i += block_threads) columns_[i] = constant_columns.at[i];
    __syncthreads();
  }

  template <class F>
  __device__ __forceinline__ void each(std::uint32_t n, F f) {
    for (std::uint32_t i = threadIdx.x; i < n; i += block_threads) f(i);
    __syncthreads();
  }
  // From both ends of the block, so that different warps have the two.
  template <class F, class G>
  __device__ __forceinline__ void both(std::uint32_t n, F f, std::uint32_t m, G g) {
    for (std::uint32_t i = threadIdx.x; i < n; i += block_threads) f(i);
    for (std::uint32_t j = block_threads - 1 - threadIdx.x; j < m; j += block_threads) g(j);
    __syncthreads();
  }
  template <class F>
  __device__ __forceinline__ void once(F f) {
    if (threadIdx.x == 0) f();
    __syncthreads();
  }
  // Each thread sums neighbouring elements, each warp its threads' sums, and each thread the warps before its own.
  template <class N>
  __device__ std::uint32_t scan(N* a, std::uint32_t n) {
    constexpr std::uint32_t all = 0xffffffff;
    const std::uint32_t each = (n + block_threads - 1) / block_threads;
    const std::uint32_t begin = min(threadIdx.x * each, n), end = min(begin + each, n);
    std::uint32_t mine = 0;
    for (std::uint32_t i = begin; i < end; ++i) mine += a[i];
    std::uint32_t sum = mine;
    const std::uint32_t lane = threadIdx.x % warp;
    for (std::uint32_t step = 1; step < warp; step *= 2) {
      const std::uint32_t before = __shfl_up_sync(all, sum, step);
      if (lane >= step) sum += before;
    }
    if (lane == warp - 1) warp_sums_[threadIdx.x / warp] = sum;
    __syncthreads();
    std::uint32_t total = 0, before = 0;
    for (std::uint32_t w = 0; w < warps; ++w) {
      if (w == threadIdx.x / warp) before = total;
      total += warp_sums_[w];
    }
    before += sum - mine;
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::uint32_t one = a[i];
      a[i] = static_cast<N>(before);
      before += one;
    }
    __syncthreads();
    return total;
  }
  __device__ __forceinline__ void lower(std::uint32_t* x, std::uint32_t v) { atomicMin_block(x, v); }
  __device__ __forceinline__ void add(std::uint32_t* x, std::uint32_t v) { atomicAdd_block(x, v); }
  __device__ __forceinline__ std::uint32_t take(std::uint32_t* cursor, std::uint32_t n) { return atomicAdd(cursor, n); }
  __device__ __forceinline__ void search(const SearchedTable& table, const Fingerprint* f, std::uint32_t n,
                                         std::uint32_t* location) {
    using L = CudaLanes<4>;
    for (std::uint32_t base = 0; base < n; base += block_threads) {
      const std::uint32_t i = base + threadIdx.x;
      const std::uint32_t found = search_thread<L>(table, f, n, i);
      if (i < n) location[i] = found;
    }
    __syncthreads();
  }
  __device__ __forceinline__ bool mark_read(const ItemImages& images, std::uint32_t location) {
    return tandem::mark_read(images, location);
  }
  __device__ __forceinline__ const std::uint32_t* columns() const { return columns_; }

 private:
  std::uint32_t* warp_sums_;
  std::uint32_t* columns_;
};

// Blocks belong to one part each: part p's end before block_end[p].
struct Launch {
  SearchedTable table;
  ItemImages images;
  FrameCursors* cursors;
  FrameRules rules;
  FramePart part[frame_parts_max];
  std::uint32_t block_end[frame_parts_max];
};

template <class T>
__device__ __forceinline__ T* pointer(std::uint64_t address) {
  return reinterpret_cast<T*>(address);
}

template <frames::Forms forms>
__global__ void __launch_bounds__(block_threads, 3) answer_frames_kernel(const __grid_constant__ Launch launch) {
  __shared__ frames::Scratch scratch;
  __shared__ std::uint32_t warp_sums[warps];
  __shared__ std::uint32_t columns[256];
  BlockTile tile(warp_sums, columns);
  std::uint32_t p = 0, begin = 0;
  while (blockIdx.x >= launch.block_end[p]) begin = launch.block_end[p++];
  const FramePart& part = launch.part[p];
  const frames::Job job{pointer<const char>(part.input),
                        pointer<const FramePiece>(part.pieces),
                        pointer<const FrameTile>(part.tiles),
                        pointer<FrameTileAnswer>(part.answers),
                        pointer<FrameRun>(part.runs),
                        pointer<FrameMiss>(part.misses),
                        pointer<Location>(part.reads),
                        pointer<char>(part.replies),
                        launch.cursors + p,
                        part.runs_max,
                        part.misses_max,
                        part.reads_max,
                        part.reply_bytes_max,
                        launch.rules.now_s,
                        part.cas,
                        launch.table,
                        launch.images};
  frames::answer_tile<forms>(tile, scratch, job, launch.rules, blockIdx.x - begin);
}

}  // namespace

int cuda_answer_frames(const FramesArguments& a, cudaStream_t stream) noexcept {
  if (a.parts > frame_parts_max) return cudaErrorInvalidValue;
  Launch launch{};
  launch.table = {reinterpret_cast<const Bucket*>(a.index.buckets.address()), a.index.shape};
  launch.images = {reinterpret_cast<Granule*>(a.images.granules.address()),
                   reinterpret_cast<std::uint32_t*>(a.images.marks.address()), a.images.count, a.images.item_granules};
  launch.cursors = reinterpret_cast<FrameCursors*>(a.cursors.address());
  launch.rules = a.rules;
  std::uint32_t blocks = 0;
  bool has_raw = false;
  for (std::uint32_t p = 0; p < a.parts; ++p) {
    blocks += a.part[p].tile_count;
    launch.part[p] = a.part[p];
    launch.block_end[p] = blocks;
    has_raw = has_raw || a.part[p].has_raw;
  }
  if (blocks == 0) return cudaSuccess;
  if (a.answers == FrameAnswers::locations) {
    answer_frames_kernel<frames::Forms::located><<<blocks, block_threads, 0, stream>>>(launch);
  } else if (has_raw) {
    answer_frames_kernel<frames::Forms::lines_and_raw><<<blocks, block_threads, 0, stream>>>(launch);
  } else {
    answer_frames_kernel<frames::Forms::lines><<<blocks, block_threads, 0, stream>>>(launch);
  }
  return cudaGetLastError();
}

}  // namespace tandem
