// Shared by the benchmarks of the device's index: keys, checks of answers, and times. Each program is one source, so
// its kernels are its own.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/fingerprint.hpp"
#include "index/cuckoo/cell.hpp"

namespace tandem::cuda_bench {

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "FAILED: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define TD_CUDA_CHECK(call) ::tandem::cuda_bench::check(call, #call)

template <class T>
T* device_array(std::uint64_t count) {
  void* p = nullptr;
  TD_CUDA_CHECK(cudaMalloc(&p, count * sizeof(T)));
  return static_cast<T*>(p);
}
template <class T>
T* pinned_array(std::uint64_t count) {
  void* p = nullptr;
  TD_CUDA_CHECK(cudaHostAlloc(&p, count * sizeof(T), cudaHostAllocMapped));
  return static_cast<T*>(p);
}

__host__ __device__ inline std::uint64_t mixed(std::uint64_t x) {  // SplitMix64's output function
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
__host__ __device__ inline Fingerprint fingerprint(std::uint64_t key) {
  const std::uint64_t x = mixed(key);
  const auto signature = static_cast<std::uint32_t>(x);
  return {signature != 0 ? signature : 1, static_cast<std::uint32_t>(x >> 32)};
}

constexpr std::uint64_t absent = std::uint64_t{1} << 40;  // keys from here on are in no table

// Searches may rarely find another key with the same signature in the same bucket.
inline bool are_few(unsigned long long wrong, std::uint64_t of) { return wrong <= of / (1u << 20) + 8; }

inline constexpr std::uint32_t block_threads = 256;
inline std::uint32_t blocks_of(std::uint64_t count) {
  return static_cast<std::uint32_t>((count + block_threads - 1) / block_threads);
}

// Fingerprint i is of key first + i * step, or of a key drawn from [0, keys) when keys is not 0.
static __global__ void make_queries(Fingerprint* f, std::uint32_t* wanted, std::uint64_t count, std::uint64_t first,
                                    std::uint64_t step, std::uint64_t keys, std::uint64_t seed) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::uint64_t key = keys == 0 ? first + i * step : mixed(seed + i) % keys;
  f[i] = fingerprint(key);
  wanted[i] = key >= absent ? 0 : static_cast<std::uint32_t>(key + 1);
}
static __global__ void count_wrong(const std::uint32_t* location, const std::uint32_t* wanted, std::uint64_t count,
                                   unsigned long long* wrong) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count && location[i] != wanted[i]) atomicAdd(wrong, 1ull);
}
static __global__ void count_not_done(const std::uint8_t* done, std::uint64_t count, unsigned long long* found) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count && done[i] != 1) atomicAdd(found, 1ull);
}
// REQUIRES: a multiple of block_threads buckets.
static __global__ void count_cells(IndexView index, unsigned long long* used) {
  const std::uint64_t b = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  int n = 0;
  for (const std::uint64_t bits : index.buckets[b].cell) n += __popc(__ballot_sync(~0u, bits != 0 ? 1 : 0));
  if (threadIdx.x % 32 == 0) atomicAdd(used, static_cast<unsigned long long>(n));
}

inline cudaStream_t new_stream() {
  cudaStream_t stream{};
  TD_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

[[noreturn]] inline void fail(unsigned long long n, const char* what) {
  std::fprintf(stderr, "FAILED: %llu %s\n", n, what);
  std::exit(1);
}

// Checks of answers in device memory; each ends the program when they are wrong.
class Checks {
 public:
  explicit Checks(cudaStream_t stream) : stream_(stream), sum_(device_array<unsigned long long>(1)) {}

  // all: of a table that cannot take one key for another.
  void locations(const std::uint32_t* found, const std::uint32_t* wanted, std::uint64_t count, bool all = false) {
    const auto n =
        counted([&] { count_wrong<<<blocks_of(count), block_threads, 0, stream_>>>(found, wanted, count, sum_); });
    if (all ? n != 0 : !are_few(n, count)) fail(n, "searches found something else");
  }
  void all_done(const std::uint8_t* done, std::uint64_t count, const char* otherwise) {
    const auto n = counted([&] { count_not_done<<<blocks_of(count), block_threads, 0, stream_>>>(done, count, sum_); });
    if (n != 0) fail(n, otherwise);
  }
  void cells_used(IndexView index, std::uint64_t wanted) {
    const std::uint64_t buckets = std::uint64_t{index.mask} + 1;
    const auto n = counted([&] { count_cells<<<blocks_of(buckets), block_threads, 0, stream_>>>(index, sum_); });
    if (n != wanted) fail(n, ("cells are in use, not " + std::to_string(wanted)).c_str());
  }

 private:
  template <class Launch>
  unsigned long long counted(Launch launch) {
    TD_CUDA_CHECK(cudaMemsetAsync(sum_, 0, sizeof *sum_, stream_));
    launch();
    TD_CUDA_CHECK(cudaGetLastError());
    unsigned long long n = 0;
    TD_CUDA_CHECK(cudaMemcpyAsync(&n, sum_, sizeof n, cudaMemcpyDeviceToHost, stream_));
    TD_CUDA_CHECK(cudaStreamSynchronize(stream_));
    return n;
  }
  cudaStream_t stream_;
  unsigned long long* sum_;
};

struct Rates {
  std::vector<double> all;
  void add(double rate) { all.push_back(rate); }
  double median() {
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  }
  double least() const { return *std::min_element(all.begin(), all.end()); }
  double greatest() const { return *std::max_element(all.begin(), all.end()); }
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
    TD_CUDA_CHECK(cudaEventCreate(&from_));
    TD_CUDA_CHECK(cudaEventCreate(&to_));
  }
  template <class F>
  double seconds(F f) {
    TD_CUDA_CHECK(cudaEventRecord(from_, stream_));
    f();
    TD_CUDA_CHECK(cudaEventRecord(to_, stream_));
    TD_CUDA_CHECK(cudaEventSynchronize(to_));
    float ms = 0;
    TD_CUDA_CHECK(cudaEventElapsedTime(&ms, from_, to_));
    return ms / 1e3;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t from_{}, to_{};
};
}  // namespace tandem::cuda_bench
