// KVCG's Table 1 on this GPU, as one JSON object a line:
//
//   slab_figures_bench [table-1 [LOG2_BUCKETS]]       (21: 46 million keys)
//
// PUT, DELETE and GET of a slab list with 22 keys a bucket: with locks, without them, and of a cuckoo table with as
// many keys beside it; by warps of a block. Queries and answers are in the device's memory. Each measurement is
// repeated; `us` is the median. Every answer is checked, and the last line says so.
#include <chrono>
#include <cstring>

#include "index/cuckoo/cuckoo_cuda.cuh"
#include "index/cuckoo/cuckoo_cuda_bench.cuh"
#include "index/slab_list/slab_cuda.cuh"
#include "index/slab_list/warp_cuda.cuh"

namespace {

using namespace tandem;
using namespace tandem::cuda_bench;

constexpr std::uint32_t keys_of_bucket = 22, moved = 1u << 31;
constexpr std::uint64_t searches = std::uint64_t{1} << 24;
constexpr int rounds = 8;

unsigned long long shown(std::uint64_t n) { return n; }

// --- kernels that only the figure needs

__global__ void change_alone(const SlabTable table, const CellChange* changes, std::uint8_t* done,
                             std::uint32_t* previous, std::uint32_t count) {
  const std::uint32_t at = (blockIdx.x * blockDim.x + threadIdx.x) / warp_lanes * warp_lanes;
  if (at >= count) return;
  slab_change_warp<false>(CudaWarp(), table, changes + at, min(count - at, warp_lanes), done + at, previous + at);
}

// A key of each bucket, in no order of the buckets. REQUIRES: a power of two of them.
__global__ void choose_keys(SlabBuckets buckets, std::uint32_t* chosen, std::uint64_t keys) {
  const std::uint64_t key = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (key >= keys) return;
  std::uint32_t at = buckets.of(fingerprint(key)) * 0x9E3779B1u;
  at = (at ^ (at & buckets.mask) >> 9) * 0x85EBCA6Bu & buckets.mask;  // a permutation of their numbers
  chosen[at] = static_cast<std::uint32_t>(key);
}
__global__ void choose_every(std::uint32_t step, std::uint32_t* chosen, std::uint64_t count) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) chosen[i] = static_cast<std::uint32_t>(i * step);
}
// Key k's location is from(k), and is to be to(k): 0, or k + 1 with or without the highest bit.
struct Locations {
  std::uint32_t from, to;  // masks of k + 1 (its highest bit set); 0: no location
  __device__ static std::uint32_t of(std::uint32_t mask, std::uint32_t key) {
    return mask == 0 ? 0 : (key + 1) | (mask & moved);
  }
};
__global__ void make_changes(const std::uint32_t* key, std::uint64_t count, Locations l, CellChange* changes,
                             Fingerprint* f, std::uint32_t* from, std::uint32_t* to) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  f[i] = fingerprint(key[i]);
  from[i] = Locations::of(l.from, key[i]);
  to[i] = Locations::of(l.to, key[i]);
  changes[i] = {f[i], from[i], to[i]};
}

// Which of the tables, and how.
enum class Table { slabs, slabs_alone, cuckoo };
constexpr const char* name_of(Table table) {
  constexpr const char* names[] = {"slab_list", "slab_list", "cuckoo"};
  return names[static_cast<int>(table)];
}
constexpr const char* locks_of(Table table) { return table == Table::slabs ? "locks" : "no locks"; }

constexpr Locations changed{1, 1 | moved}, changed_back{1 | moved, 1}, removed{1, 0}, added{0, 1};

class Table1 {
 public:
  explicit Table1(unsigned log2_buckets)
      : buckets_(1u << log2_buckets), keys_(std::uint64_t{buckets_} * keys_of_bucket) {
    const std::uint32_t more = buckets_ / 8;
    slabs_ = {zeroed<Slab>(buckets_),
              zeroed<Slab>(more),
              zeroed<std::uint32_t>(buckets_),
              zeroed<std::uint32_t>(more),
              zeroed<SlabFree>(1),
              SlabBuckets(buckets_),
              more};
    std::uint64_t cells = bucket_cells;
    while (cells * 9 < keys_ * 10) cells *= 2;  // at most 0.9 full
    cuckoo_ = {zeroed<Bucket>(cells / bucket_cells), static_cast<std::uint32_t>(cells / bucket_cells - 1)};
    load_ = static_cast<double>(keys_) / static_cast<double>(cells);
    const std::uint64_t most = std::max(keys_, searches);
    key_ = device_array<std::uint32_t>(most);
    changes_ = device_array<CellChange>(most);
    f_ = device_array<Fingerprint>(most);
    from_ = device_array<std::uint32_t>(most);
    to_ = device_array<std::uint32_t>(most);
    answer_ = device_array<std::uint32_t>(most);
    done_ = device_array<std::uint8_t>(most);
    build();
  }

  void measure(std::uint32_t block) {
    for (const Table table : {Table::slabs, Table::slabs_alone, Table::cuckoo}) gets(table, block);
    choose_every<<<blocks_of(keys_ / 8), block_threads, 0, stream_>>>(8, key_, keys_ / 8);
    for (const Table table : {Table::slabs, Table::cuckoo}) changes(table, block, keys_ / 8, "every eighth key");
    choose_keys<<<blocks_of(keys_), block_threads, 0, stream_>>>(SlabBuckets(buckets_), key_, keys_);
    changes(Table::slabs_alone, block, buckets_, "a key of each bucket");
    std::fflush(stdout);
  }
  std::uint64_t keys() const { return keys_; }
  double load() const { return load_; }

 private:
  template <class T>
  T* zeroed(std::uint64_t count) {
    T* const array = device_array<T>(count);
    TD_CUDA_CHECK(cudaMemsetAsync(array, 0, count * sizeof(T), stream_));
    return array;
  }
  void make(std::uint64_t count, Locations l) {
    make_changes<<<blocks_of(count), block_threads, 0, stream_>>>(key_, count, l, changes_, f_, from_, to_);
    TD_CUDA_CHECK(cudaGetLastError());
  }
  void build();
  void search(Table table, std::uint64_t count, std::uint32_t block);
  double change(Table table, std::uint64_t count, std::uint32_t block, Locations l);
  void gets(Table table, std::uint32_t block);
  void changes(Table table, std::uint32_t block, std::uint64_t count, const char* of);
  void line(Table table, std::uint32_t block, const char* operation, std::uint64_t ops, const char* of, Rates& us) {
    std::printf(
        "{\"figure\":\"table-1\",\"operation\":\"%s\",\"table\":\"%s\",\"locks\":\"%s\",\"warps\":%u,\"ops\":%llu,"
        "\"of\":\"%s\",\"us\":%.2f,\"us_least\":%.2f,\"us_greatest\":%.2f,\"mops\":%.1f}\n",
        operation, name_of(table), locks_of(table), block / warp_lanes, shown(ops), of, us.median(), us.least(),
        us.greatest(), static_cast<double>(ops) / us.median());
  }

  std::uint32_t buckets_;
  std::uint64_t keys_;
  cudaStream_t stream_ = new_stream();
  Checks checks_{stream_};
  Timer timer_{stream_};
  SlabTable slabs_{nullptr, nullptr, nullptr, nullptr, nullptr, SlabBuckets(2), 0};
  IndexView cuckoo_{};
  double load_ = 0;
  std::uint32_t* key_ = nullptr;  // numbers of the keys that are changed
  CellChange* changes_ = nullptr;
  Fingerprint* f_ = nullptr;
  std::uint32_t *from_ = nullptr, *to_ = nullptr, *answer_ = nullptr;
  std::uint8_t* done_ = nullptr;
};

void Table1::search(Table table, std::uint64_t count, std::uint32_t block) {
  const auto n = static_cast<std::uint32_t>(count);
  if (table == Table::cuckoo) {
    KernelTuning tuning;
    tuning.search_block = block;
    const SearchPart part{reinterpret_cast<std::uint64_t>(f_), reinterpret_cast<std::uint64_t>(answer_), n};
    TD_CUDA_CHECK(search_on_device({cuckoo_.buckets, {.mask = cuckoo_.mask}}, &part, 1, stream_, tuning));
  } else {
    TD_CUDA_CHECK(slab_search_on_device(slabs_, table == Table::slabs, f_, answer_, n, stream_, {block, block}));
  }
}

// In us. A slab list returns what was there; both have what is to be there afterwards.
double Table1::change(Table table, std::uint64_t count, std::uint32_t block, Locations l) {
  const auto n = static_cast<std::uint32_t>(count);
  make(count, l);
  TD_CUDA_CHECK(cudaMemsetAsync(done_, 0xee, count, stream_));
  TD_CUDA_CHECK(cudaMemsetAsync(answer_, 0xee, count * sizeof *answer_, stream_));
  KernelTuning tuning;
  tuning.update_block = block;
  const double s = timer_.seconds([&] {
    if (table == Table::slabs) {
      TD_CUDA_CHECK(slab_change_on_device(slabs_, changes_, done_, answer_, n, stream_, {block, block}));
    } else if (table == Table::slabs_alone) {
      change_alone<<<(n + block - 1) / block, block, 0, stream_>>>(slabs_, changes_, done_, answer_, n);
    } else if (l.from == 0) {
      TD_CUDA_CHECK(insert_on_device(cuckoo_, f_, to_, done_, n, stream_, tuning));
    } else if (l.to == 0) {
      TD_CUDA_CHECK(erase_on_device(cuckoo_, f_, from_, done_, n, stream_, tuning));
    } else {
      TD_CUDA_CHECK(change_on_device(cuckoo_, changes_, done_, n, stream_, tuning));
    }
  });
  TD_CUDA_CHECK(cudaGetLastError());
  checks_.all_done(done_, count, "changes found no room, or not their key");
  if (table != Table::cuckoo) checks_.locations(answer_, from_, count, true);
  search(table, count, 128);
  checks_.locations(answer_, to_, count, table != Table::cuckoo);
  return 1e6 * s;
}

// Leaves both tables with all keys.
void Table1::build() {
  choose_every<<<blocks_of(keys_), block_threads, 0, stream_>>>(1, key_, keys_);
  change(Table::slabs, keys_, 128, added);
  change(Table::cuckoo, keys_, 128, added);
}

void Table1::gets(Table table, std::uint32_t block) {
  Rates us;
  for (int r = 0; r <= rounds; ++r) {
    make_queries<<<blocks_of(searches), block_threads, 0, stream_>>>(f_, to_, searches, 0, 0, keys_,
                                                                     static_cast<std::uint64_t>(r) << 40);
    TD_CUDA_CHECK(cudaMemsetAsync(answer_, 0xee, searches * sizeof *answer_, stream_));
    const double s = timer_.seconds([&] { search(table, searches, block); });
    checks_.locations(answer_, to_, searches, table != Table::cuckoo);
    if (r > 0) us.add(1e6 * s);
  }
  line(table, block, "GET", searches, "any", us);
}

void Table1::changes(Table table, std::uint32_t block, std::uint64_t count, const char* of) {
  Rates put, erase, put_new;
  for (int r = 0; r <= rounds; ++r) {
    const auto add = [&](Rates& us, Locations l) {
      const double t = change(table, count, block, l);
      if (r > 0) us.add(t);
    };
    add(put, changed);
    add(put, changed_back);
    add(erase, removed);
    add(put_new, added);
  }
  line(table, block, "PUT", count, of, put);
  line(table, block, "DELETE", count, of, erase);
  line(table, block, "PUT of a new key", count, of, put_new);
}

}  // namespace

int main(int argc, char** argv) {
  const int log2_buckets = argc > 2 ? std::atoi(argv[2]) : 21;
  if (argc > 3 || (argc > 1 && std::strcmp(argv[1], "table-1") != 0) || log2_buckets < 16 || log2_buckets > 24) {
    std::fprintf(stderr, "usage: slab_figures_bench [table-1 [LOG2_BUCKETS from 16 to 24]]\n");
    return 64;
  }
  const auto begin = std::chrono::steady_clock::now();
  cudaDeviceProp properties{};
  TD_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  Table1 table(static_cast<unsigned>(log2_buckets));
  std::printf(
      "{\"program\":\"slab_figures_bench\",\"gpu\":\"%s\",\"multiprocessors\":%d,\"keys\":%llu,\"load\":%.2f}\n",
      properties.name, properties.multiProcessorCount, shown(table.keys()), table.load());
  for (const std::uint32_t block : {32u, 128u, 512u}) table.measure(block);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("{\"verified\":true,\"seconds\":%.1f}\n", took.count());
  return 0;
}
