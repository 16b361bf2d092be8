// The device's index operations beside what its memory and its bus allow, measured in the same run:
//
//   cuckoo_cuda_bench [LOG2_CELLS [ROUNDS]]       (27, 5: a table of 1 GiB)
//
// Every location is checked. Rates are medians of the rounds, with the least and the greatest.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "index/cuckoo_cuda.cuh"
#include "index/lanes_cuda.cuh"

namespace {

using namespace tandem;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "cuckoo_cuda_bench: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

template <class T>
T* device_array(std::uint64_t count) {
  void* p = nullptr;
  CHECK(cudaMalloc(&p, count * sizeof(T)));
  return static_cast<T*>(p);
}

__host__ __device__ std::uint64_t mixed(std::uint64_t x) {  // SplitMix64's output function
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
__host__ __device__ Fingerprint fingerprint(std::uint64_t key) {
  const std::uint64_t x = mixed(key);
  const auto signature = static_cast<std::uint32_t>(x);
  return {signature != 0 ? signature : 1, static_cast<std::uint32_t>(x >> 32)};
}

constexpr std::uint64_t absent = std::uint64_t{1} << 40;  // keys from here on are in no table

// Fingerprint i is of key first + i, or of a key drawn from [0, keys) when keys is not 0.
__global__ void make_queries(Fingerprint* f, std::uint32_t* wanted, std::uint64_t count, std::uint64_t first,
                             std::uint64_t keys, std::uint64_t seed) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::uint64_t key = keys == 0 ? first + i : mixed(seed + i) % keys;
  f[i] = fingerprint(key);
  wanted[i] = key >= absent ? 0 : static_cast<std::uint32_t>(key + 1);
}
__global__ void count_wrong(const std::uint32_t* location, const std::uint32_t* wanted, std::uint64_t count,
                            unsigned long long* wrong) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count && location[i] != wanted[i]) atomicAdd(wrong, 1ull);
}
// Item number l at location l: live, 8 bytes of key, 8 of value.
__global__ void make_items(ItemImages images) {
  const std::uint64_t l = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (l >= images.count) return;
  constexpr std::uint64_t fixed = std::uint64_t{8} << word::ValueBytes::lo | 8;
  images.granules[l] = {{static_cast<std::uint64_t>(ItemState::live), fixed, l, ~l}};
}
__global__ void count_zero(const std::uint8_t* done, std::uint64_t count, unsigned long long* zeros) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count && done[i] == 0) atomicAdd(zeros, 1ull);
}
// A random bucket for each thread of a tile, read as a search reads its first one, and nothing else.
template <class L>
__global__ void read_buckets(IndexView index, std::uint32_t* out, std::uint32_t count, std::uint64_t seed) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  const L lanes = L::here();
  const auto b = static_cast<std::uint32_t>(mixed(seed + i)) & index.mask;
  typename L::PerLane v[L::threads];
#pragma unroll
  for (std::uint32_t q = 0; q < L::threads; ++q) v[q] = lanes.load(index.buckets + lanes.of_thread(b, q));
  std::uint64_t x = 0;
#pragma unroll
  for (std::uint32_t q = 0; q < L::threads; ++q) {
#pragma unroll
    for (std::uint32_t k = 0; k < L::cells; ++k) x ^= v[q].cell[k];
  }
  if (i < count) out[i] = static_cast<std::uint32_t>(x ^ x >> 32);
}

struct Rates {
  std::vector<double> all;
  void add(double rate) { all.push_back(rate); }
  double median() {
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  }
  std::string text() {
    const double m = median();
    char out[80];
    std::snprintf(out, sizeof out, "%.2f (%.2f-%.2f)", m, all.front(), all.back());
    return out;
  }
};

class Timer {
 public:
  explicit Timer(cudaStream_t stream) : stream_(stream) {
    CHECK(cudaEventCreate(&from_));
    CHECK(cudaEventCreate(&to_));
  }
  template <class F>
  double seconds(F f) {
    CHECK(cudaEventRecord(from_, stream_));
    f();
    CHECK(cudaEventRecord(to_, stream_));
    CHECK(cudaEventSynchronize(to_));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, from_, to_));
    return ms / 1e3;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t from_{}, to_{};
};

constexpr std::uint32_t threads = 256;
std::uint32_t blocks_of(std::uint64_t count) { return static_cast<std::uint32_t>((count + threads - 1) / threads); }

struct Bench {
  unsigned log2_cells;
  int rounds;
  cudaStream_t stream{};
  IndexView index{};
  std::uint64_t cells, queries;
  Fingerprint* f;
  std::uint32_t *location, *wanted;
  std::uint8_t* done;
  unsigned long long* wrong;

  Bench(unsigned log2, int rounds_wanted)
      : log2_cells(log2), rounds(rounds_wanted), cells(std::uint64_t{1} << log2), queries(cells) {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    index = {device_array<Bucket>(cells / bucket_cells), static_cast<std::uint32_t>(cells / bucket_cells - 1)};
    f = device_array<Fingerprint>(queries);
    location = device_array<std::uint32_t>(queries);
    wanted = device_array<std::uint32_t>(queries);
    done = device_array<std::uint8_t>(queries);
    wrong = device_array<unsigned long long>(1);
  }

  void make(std::uint64_t count, std::uint64_t first, std::uint64_t keys, std::uint64_t seed) {
    make_queries<<<blocks_of(count), threads, 0, stream>>>(f, wanted, count, first, keys, seed);
    CHECK(cudaGetLastError());
  }
  unsigned long long counted() {
    unsigned long long n = 0;
    CHECK(cudaMemcpyAsync(&n, wrong, sizeof n, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return n;
  }
  // How many locations are not the wanted ones. A handful may be: of another key with the same signature and bucket.
  unsigned long long wrong_locations(std::uint64_t count) {
    CHECK(cudaMemsetAsync(wrong, 0, sizeof *wrong, stream));
    count_wrong<<<blocks_of(count), threads, 0, stream>>>(location, wanted, count, wrong);
    return counted();
  }
  unsigned long long not_done(std::uint64_t count) {
    CHECK(cudaMemsetAsync(wrong, 0, sizeof *wrong, stream));
    count_zero<<<blocks_of(count), threads, 0, stream>>>(done, count, wrong);
    return counted();
  }
  void expect_few(unsigned long long n, const char* what) {
    if (n <= queries / (1u << 20) + 8) return;
    std::fprintf(stderr, "cuckoo_cuda_bench: FAILED: %llu %s\n", n, what);
    std::exit(1);
  }

  template <class L>
  double bucket_reads() {
    Timer timer(stream);
    Rates rates;
    for (int r = 0; r <= rounds; ++r) {
      const double s = timer.seconds([&] {
        read_buckets<L><<<blocks_of(queries), threads, 0, stream>>>(
            index, location, static_cast<std::uint32_t>(queries), static_cast<std::uint64_t>(r) << 32);
      });
      CHECK(cudaGetLastError());
      if (r > 0) rates.add(static_cast<double>(queries) / s / 1e9);
    }
    std::printf("| random buckets of 64 bytes read, tiles of %u | %s |\n", L::threads, rates.text().c_str());
    return rates.median();
  }

  double ceilings() {
    std::printf("\n| ceiling | G/s |\n|---|---:|\n");
    Timer timer(stream);
    Rates copy;
    for (int r = 0; r <= rounds; ++r) {
      const double s = timer.seconds(
          [&] { CHECK(cudaMemcpyAsync(f, index.buckets, queries * sizeof *f, cudaMemcpyDeviceToDevice, stream)); });
      if (r > 0) copy.add(2.0 * static_cast<double>(queries) * sizeof *f / s / 1e9);
    }
    std::printf("| bytes copied within the device, read and written | %s |\n", copy.text().c_str());
    return std::max({bucket_reads<CudaLanes<1>>(), bucket_reads<CudaLanes<2>>(), bucket_reads<CudaLanes<4>>(),
                     bucket_reads<CudaLanes<8>>()});
  }

  // Leaves a table with `count` keys.
  Rates build(std::uint64_t count, const KernelTuning& tuning) {
    Timer timer(stream);
    Rates rates;
    make(count, 0, 0, 0);
    for (int r = 0; r < rounds; ++r) {
      CHECK(cudaMemsetAsync(index.buckets, 0, cells * 8, stream));
      const double s = timer.seconds(
          [&] { CHECK(insert_on_device(index, f, wanted, done, static_cast<std::uint32_t>(count), stream, tuning)); });
      rates.add(static_cast<double>(count) / s / 1e9);
      if (const auto n = not_done(count); n != 0) {
        std::fprintf(stderr, "cuckoo_cuda_bench: FAILED: %llu of %llu keys found no room\n", n,
                     static_cast<unsigned long long>(count));
        std::exit(1);
      }
    }
    return rates;
  }

  void search_one(const Fingerprint* from, const std::uint32_t* to, std::uint64_t count, cudaStream_t on,
                  const KernelTuning& tuning = {}) {
    const SearchPart part{reinterpret_cast<std::uint64_t>(from), reinterpret_cast<std::uint64_t>(to),
                          static_cast<std::uint32_t>(count)};
    CHECK(search_on_device(index, ItemImages{}, &part, 1, on, tuning));
  }

  // Of queries that are all hits, or all misses.
  Rates search(std::uint64_t keys, bool hits, const KernelTuning& tuning) {
    Timer timer(stream);
    Rates rates;
    for (int r = 0; r <= rounds; ++r) {
      make(queries, absent, hits ? keys : 0, static_cast<std::uint64_t>(r) << 40);
      CHECK(cudaMemsetAsync(location, 0xff, queries * sizeof *location, stream));
      const double s = timer.seconds([&] { search_one(f, location, queries, stream, tuning); });
      expect_few(wrong_locations(queries), "searches found something else");
      if (r > 0) rates.add(static_cast<double>(queries) / s / 1e9);
    }
    return rates;
  }

  void resident(double load, double ceiling) {
    const auto keys = static_cast<std::uint64_t>(load * static_cast<double>(cells));
    std::printf("\n%llu keys, load %.2f, queries and answers in the device's memory:\n\n",
                static_cast<unsigned long long>(keys), load);
    std::printf(
        "| operation | threads of a tile | block | G/s | of the best bucket ceiling |\n|---|---:|---:|---:|---:|\n");
    for (const std::uint32_t t : {1, 2, 4, 8}) {
      for (const std::uint32_t block : {128, 256, 512}) {
        KernelTuning tuning;
        tuning.update_threads = t;
        tuning.update_block = block;
        if (t == 1 && block == 512) continue;
        Rates rates = build(keys, tuning);
        std::printf("| insert | %u | %u | %s | |\n", t, block, rates.text().c_str());
      }
    }
    for (const bool hits : {true, false}) {
      for (const std::uint32_t t : {1, 2, 4, 8}) {
        for (const std::uint32_t block : {128, 256, 512}) {
          KernelTuning tuning;
          tuning.search_threads = t;
          tuning.search_block = block;
          Rates rates = search(keys, hits, tuning);
          std::printf("| search, %s | %u | %u | %s | %.0f %% |\n", hits ? "hits" : "misses", t, block,
                      rates.text().c_str(), 100 * rates.median() / ceiling);
        }
      }
    }
    std::fflush(stdout);
  }

  void changes() {
    std::printf("\n| changes applied at once, from pinned memory | us | M/s |\n|---|---:|---:|\n");
    constexpr std::uint32_t most = 1 << 20;
    DirtyCell* changed = nullptr;
    CHECK(cudaHostAlloc(reinterpret_cast<void**>(&changed), most * sizeof *changed, cudaHostAllocMapped));
    std::uint32_t* const winners = device_array<std::uint32_t>(cells);
    CHECK(cudaMemsetAsync(winners, 0, cells * sizeof *winners, stream));
    for (std::uint32_t i = 0; i < most; ++i) changed[i] = {mixed(i) % cells, i};
    Timer timer(stream);
    for (const std::uint32_t n : {256u, 4096u, 65536u, most}) {
      Rates us;
      for (int r = 0; r <= 4 * rounds; ++r) {
        const double s = timer.seconds([&] { CHECK(apply_on_device(index, winners, changed, n, stream)); });
        if (r > 0) us.add(s * 1e6);
      }
      std::printf("| %u | %s | %.0f |\n", n, us.text().c_str(), n / us.median());
    }
    CHECK(cudaFree(winners));
    CHECK(cudaFreeHost(changed));
  }

  // Queries and answers in pinned host memory; several batches on several streams, so that copies both ways and kernels
  // go on together.
  void over_the_bus(double load) {
    const auto keys = static_cast<std::uint64_t>(load * static_cast<double>(cells));
    build(keys, {});
    constexpr int streams = 4;
    constexpr std::uint64_t total = 1 << 26, ring = 1 << 24;
    cudaStream_t s[streams];
    for (auto& each : s) CHECK(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
    Fingerprint* host_f = nullptr;
    std::uint32_t* host_location = nullptr;
    CHECK(cudaHostAlloc(reinterpret_cast<void**>(&host_f), ring * sizeof *host_f, cudaHostAllocMapped));
    CHECK(cudaHostAlloc(reinterpret_cast<void**>(&host_location), ring * sizeof *host_location, cudaHostAllocMapped));
    make(ring, 0, keys, 7);
    CHECK(cudaMemcpyAsync(host_f, f, ring * sizeof *f, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    std::vector<std::uint32_t> expected(ring);
    CHECK(cudaMemcpy(expected.data(), wanted, ring * sizeof *wanted, cudaMemcpyDeviceToHost));

    std::printf(
        "\n| through PCIe, load %.2f, batches of | by copies, G/s | by mapped memory, G/s | bytes to the device, G/s | "
        "one batch by copies, us | by mapped memory, us |\n|---:|---:|---:|---:|---:|---:|\n",
        load);
    cudaEvent_t from, to;
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    for (const std::uint64_t batch : {1ull << 12, 1ull << 14, 1ull << 16, 1ull << 18, 1ull << 20, 1ull << 21}) {
      Rates rates[2], bytes, one[2];
      for (int r = 0; r <= rounds; ++r) {
        for (const bool mapped : {false, true}) {
          std::fill_n(host_location, ring, 0xffffffffu);
          auto run = [&](std::uint64_t n, int lanes) {
            for (std::uint64_t at = 0; at < n; at += batch) {
              const std::uint64_t k = at / batch % static_cast<std::uint64_t>(lanes), here = at % ring;
              Fingerprint* const df = f + k * batch;
              std::uint32_t* const dl = location + k * batch;
              if (mapped) {
                search_one(host_f + here, host_location + here, batch, s[k]);
              } else {
                CHECK(cudaMemcpyAsync(df, host_f + here, batch * sizeof *f, cudaMemcpyHostToDevice, s[k]));
                search_one(df, dl, batch, s[k]);
                CHECK(cudaMemcpyAsync(host_location + here, dl, batch * sizeof *dl, cudaMemcpyDeviceToHost, s[k]));
              }
            }
          };
          CHECK(cudaDeviceSynchronize());
          timespec a{}, b{};
          const std::uint64_t n = batch < 1 << 16 ? total / 8 : total;
          clock_gettime(CLOCK_MONOTONIC, &a);
          run(n, streams);
          CHECK(cudaDeviceSynchronize());
          clock_gettime(CLOCK_MONOTONIC, &b);
          const auto us = [&] {
            return static_cast<double>(b.tv_sec - a.tv_sec) * 1e6 + static_cast<double>(b.tv_nsec - a.tv_nsec) / 1e3;
          };
          if (r > 0) rates[mapped].add(static_cast<double>(n) / us() / 1e3);
          unsigned long long others = 0;
          for (std::uint64_t i = 0; i < std::min(n, ring); ++i) others += host_location[i] != expected[i];
          expect_few(others, "searches over the bus found something else");
          Rates alone;
          for (int k = 0; k < 9; ++k) {
            clock_gettime(CLOCK_MONOTONIC, &a);
            run(batch, 1);
            CHECK(cudaStreamSynchronize(s[0]));
            clock_gettime(CLOCK_MONOTONIC, &b);
            alone.add(us());
          }
          if (r > 0) one[mapped].add(alone.median());
        }
        Timer timer(s[0]);
        const double t = timer.seconds([&] {
          for (int k = 0; k < 8; ++k) {
            CHECK(cudaMemcpyAsync(f, host_f, ring * sizeof *f, cudaMemcpyHostToDevice, s[0]));
          }
        });
        bytes.add(8.0 * static_cast<double>(ring) * sizeof *f / t / 1e9);
      }
      std::printf("| %llu | %s | %s | %s | %s | %s |\n", static_cast<unsigned long long>(batch),
                  rates[0].text().c_str(), rates[1].text().c_str(), bytes.text().c_str(), one[0].text().c_str(),
                  one[1].text().c_str());
      std::fflush(stdout);
    }
  }

  // The same with the items: images of 32 bytes, of 8-byte keys and values, all over the device's memory.
  void items_over_the_bus(double load) {
    constexpr int streams = 4;
    constexpr std::uint64_t ring = 1 << 20, total = ring << 5;
    constexpr std::uint32_t item_granules = 4;
    const auto keys = static_cast<std::uint64_t>(load * static_cast<double>(cells));
    build(keys, {});
    ItemImages images{nullptr, nullptr, static_cast<std::uint32_t>(keys + 1), item_granules};
    CHECK(cudaMalloc(&images.granules, (keys + 1) * sizeof(Granule)));
    CHECK(cudaMalloc(&images.marks, mark_words(keys + 1) * sizeof *images.marks));
    CHECK(cudaMemset(images.marks, 0, mark_words(keys + 1) * sizeof *images.marks));
    make_items<<<blocks_of(keys + 1), threads, 0, stream>>>(images);
    Fingerprint* host_f = nullptr;
    std::uint32_t *host_location = nullptr, *image = nullptr;
    Granule* arena = nullptr;
    CHECK(cudaHostAlloc(&host_f, ring * sizeof *host_f, cudaHostAllocMapped));
    CHECK(cudaHostAlloc(&host_location, ring * sizeof *host_location, cudaHostAllocMapped));
    CHECK(cudaHostAlloc(&image, ring * sizeof *image, cudaHostAllocMapped));
    CHECK(cudaHostAlloc(&arena, ring * item_granules * sizeof *arena, cudaHostAllocMapped));
    cudaStream_t s[streams];
    for (cudaStream_t& one : s) CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    make(ring, 0, keys, 7);
    CHECK(cudaMemcpyAsync(host_f, f, ring * sizeof *f, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    std::printf("\n| with items through PCIe, load %.2f, batches of | by mapped memory, G/s |\n|---:|---:|\n", load);
    for (const std::uint64_t batch : {1ull << 12, 1ull << 14, 1ull << 16, 1ull << 18, 1ull << 20}) {
      Rates rates;
      for (int r = 0; r <= rounds; ++r) {
        const std::uint64_t n = batch < 1 << 16 ? total / 8 : total;
        CHECK(cudaDeviceSynchronize());
        std::fill_n(image, ring, 1u);  // later rounds of the ring ask with what the first one answered
        const auto begin = std::chrono::steady_clock::now();
        for (std::uint64_t at = 0; at < n; at += batch) {
          const std::uint64_t here = at % ring;
          const SearchPart part{.fingerprints = reinterpret_cast<std::uint64_t>(host_f + here),
                                .locations = reinterpret_cast<std::uint64_t>(host_location + here),
                                .count = static_cast<std::uint32_t>(batch),
                                .images = reinterpret_cast<std::uint64_t>(image + here),
                                .arena = reinterpret_cast<std::uint64_t>(arena + here * item_granules)};
          CHECK(search_on_device(index, images, &part, 1, s[at / batch % streams]));
        }
        CHECK(cudaDeviceSynchronize());
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        if (r > 0) rates.add(static_cast<double>(n) / took.count() / 1e9);
      }
      unsigned long long others = 0;
      for (std::uint64_t i = 0; i < ring; ++i) {
        const Granule* const of_batch = arena + i / batch * batch * item_granules;
        others += image[i] == 0 || of_batch[image[i] - 1].word[2] != host_location[i];
      }
      expect_few(others, "searches brought another item");
      std::printf("| %llu | %s |\n", static_cast<unsigned long long>(batch), rates.text().c_str());
      std::fflush(stdout);
    }
    CHECK(cudaFree(images.granules));
    CHECK(cudaFree(images.marks));
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int log2_cells = argc > 1 ? std::atoi(argv[1]) : 27;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  if (log2_cells < 25 || log2_cells > 31 || rounds < 1) {
    std::fprintf(stderr, "usage: cuckoo_cuda_bench [LOG2_CELLS from 25 to 31 [ROUNDS]]\n");
    return 64;
  }
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 0));
  std::printf("%s, %d multiprocessors, table of %.2f GiB, %d rounds\n", properties.name, properties.multiProcessorCount,
              static_cast<double>(8ull << log2_cells) / (1 << 30), rounds);
  Bench bench(static_cast<unsigned>(log2_cells), rounds);
  const double ceiling = bench.ceilings();
  for (const double load : {0.8, 0.9}) bench.resident(load, ceiling);
  bench.changes();
  bench.over_the_bus(0.8);
  bench.items_over_the_bus(0.8);
  return 0;
}
