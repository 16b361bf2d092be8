// The device's index operations relative to the limits of its memory and its bus, measured in the same run:
//
//   cuckoo_cuda_bench [LOG2_CELLS [ROUNDS [updates]]]       (27, 5: a table of 1 GiB; `updates`: only what changes it)
//
// Every answer is checked. Rates are medians of the rounds, with the least and the greatest.
#include <cstring>

#include "index/cuckoo/cuckoo_cuda.cuh"
#include "index/cuckoo/cuckoo_cuda_bench.cuh"
#include "index/cuckoo/lanes_cuda.cuh"

namespace {

using namespace tandem;
using namespace tandem::cuda_bench;

// A random bucket for each thread of a tile, read as a search reads its first one; nothing else.
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

// The location of every `step`-th key changes in one bit, from the built table's or back to it.
__global__ void make_replacements(CellChange* changes, std::uint64_t count, std::uint64_t step, bool back) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const auto built = static_cast<std::uint32_t>(i * step + 1), other = built ^ 1u << 31;
  changes[i] = {fingerprint(i * step), back ? other : built, back ? built : other};
}
// Alternately removes a key of the table and adds one from `keys` on, or the reverse.
__global__ void make_exchanges(CellChange* changes, std::uint64_t count, std::uint64_t step, std::uint64_t keys,
                               bool back) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const bool old = i % 2 == 0;
  const std::uint64_t key = old ? i * step : keys + i;
  const auto location = static_cast<std::uint32_t>(key + 1);
  changes[i] = {fingerprint(key), old != back ? location : 0, old != back ? 0 : location};
}
__global__ void queries_of(const CellChange* changes, std::uint64_t count, Fingerprint* f, std::uint32_t* wanted) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  f[i] = changes[i].f;
  wanted[i] = changes[i].to;
}

struct Bench {
  unsigned log2_cells;
  int rounds;
  cudaStream_t stream = new_stream();
  Checks checks{stream};
  Timer timer{stream};
  IndexView index{};
  std::uint64_t cells, queries;
  Fingerprint* f;
  std::uint32_t *location, *wanted;
  std::uint8_t* done;

  Bench(unsigned log2, int rounds_wanted)
      : log2_cells(log2), rounds(rounds_wanted), cells(std::uint64_t{1} << log2), queries(cells) {
    index = {device_array<Bucket>(cells / bucket_cells), static_cast<std::uint32_t>(cells / bucket_cells - 1)};
    f = device_array<Fingerprint>(queries);
    location = device_array<std::uint32_t>(queries);
    wanted = device_array<std::uint32_t>(queries);
    done = device_array<std::uint8_t>(queries);
  }

  void make(std::uint64_t count, std::uint64_t first, std::uint64_t keys, std::uint64_t seed, std::uint64_t step = 1) {
    make_queries<<<blocks_of(count), block_threads, 0, stream>>>(f, wanted, count, first, step, keys, seed);
    TD_CUDA_CHECK(cudaGetLastError());
  }
  template <class L>
  double bucket_reads() {
    Rates rates;
    for (int r = 0; r <= rounds; ++r) {
      const double s = timer.seconds([&] {
        read_buckets<L><<<blocks_of(queries), block_threads, 0, stream>>>(
            index, location, static_cast<std::uint32_t>(queries), static_cast<std::uint64_t>(r) << 32);
      });
      TD_CUDA_CHECK(cudaGetLastError());
      if (r > 0) rates.add(static_cast<double>(queries) / s / 1e9);
    }
    std::printf("| random buckets of 64 bytes read, tiles of %u | %s |\n", L::threads, rates.text().c_str());
    return rates.median();
  }

  double ceilings() {
    std::printf("\n| ceiling | G/s |\n|---|---:|\n");
    Rates copy;
    for (int r = 0; r <= rounds; ++r) {
      const double s = timer.seconds([&] {
        TD_CUDA_CHECK(cudaMemcpyAsync(f, index.buckets, queries * sizeof *f, cudaMemcpyDeviceToDevice, stream));
      });
      if (r > 0) copy.add(2.0 * static_cast<double>(queries) * sizeof *f / s / 1e9);
    }
    std::printf("| bytes copied within the device, read and written | %s |\n", copy.text().c_str());
    return std::max({bucket_reads<CudaLanes<1>>(), bucket_reads<CudaLanes<2>>(), bucket_reads<CudaLanes<4>>(),
                     bucket_reads<CudaLanes<8>>()});
  }

  // Leaves a table with `count` keys.
  Rates build(std::uint64_t count, const KernelTuning& tuning, int times) {
    Rates rates;
    make(count, 0, 0, 0);
    for (int r = 0; r < times; ++r) {
      TD_CUDA_CHECK(cudaMemsetAsync(index.buckets, 0, cells * 8, stream));
      rates.add(insert(count, count, tuning));
    }
    return rates;
  }
  // Adds the keys that make() made and finds them.
  double insert(std::uint64_t count, std::uint64_t used, const KernelTuning& tuning) {
    const auto n = static_cast<std::uint32_t>(count);
    TD_CUDA_CHECK(cudaMemsetAsync(done, 0xee, count, stream));
    const double s = timer.seconds([&] { TD_CUDA_CHECK(insert_on_device(index, f, wanted, done, n, stream, tuning)); });
    checks.all_done(done, count, "keys found no room");
    checks.cells_used(index, used);
    search_one(f, location, count, stream);
    checks.locations(location, wanted, count);
    return static_cast<double>(count) / s / 1e9;
  }

  void search_one(const Fingerprint* from, const std::uint32_t* to, std::uint64_t count, cudaStream_t on,
                  const KernelTuning& tuning = {}) {
    const SearchPart part{reinterpret_cast<std::uint64_t>(from), reinterpret_cast<std::uint64_t>(to),
                          static_cast<std::uint32_t>(count)};
    TD_CUDA_CHECK(search_on_device({index.buckets, {.mask = index.mask}}, &part, 1, on, tuning));
  }

  // Of queries that are all hits, or all misses.
  Rates search(std::uint64_t keys, bool hits, const KernelTuning& tuning) {
    Rates rates;
    for (int r = 0; r <= rounds; ++r) {
      make(queries, absent, hits ? keys : 0, static_cast<std::uint64_t>(r) << 40);
      TD_CUDA_CHECK(cudaMemsetAsync(location, 0xff, queries * sizeof *location, stream));
      const double s = timer.seconds([&] { search_one(f, location, queries, stream, tuning); });
      checks.locations(location, wanted, queries);
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
        Rates rates = build(keys, tuning, rounds);
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

  // Makes the changes and looks up each of their keys. Leaves `used` cells in use.
  double change(const CellChange* changes, std::uint64_t count, std::uint64_t used, const KernelTuning& tuning) {
    const auto n = static_cast<std::uint32_t>(count);
    TD_CUDA_CHECK(cudaMemsetAsync(done, 0xee, count, stream));
    const double s = timer.seconds([&] { TD_CUDA_CHECK(change_on_device(index, changes, done, n, stream, tuning)); });
    checks.all_done(done, count, "changes found no room");
    queries_of<<<blocks_of(count), block_threads, 0, stream>>>(changes, count, f, wanted);
    search_one(f, location, count, stream);
    checks.locations(location, wanted, count);
    checks.cells_used(index, used);
    return static_cast<double>(count) / s / 1e9;
  }
  // Removes the keys that make() made.
  double erase(std::uint64_t count, std::uint64_t left, const KernelTuning& tuning) {
    const auto n = static_cast<std::uint32_t>(count);
    TD_CUDA_CHECK(cudaMemsetAsync(done, 0xee, count, stream));
    const double s = timer.seconds([&] { TD_CUDA_CHECK(erase_on_device(index, f, wanted, done, n, stream, tuning)); });
    checks.all_done(done, count, "keys were not there to be removed");
    checks.cells_used(index, left);
    return static_cast<double>(count) / s / 1e9;
  }

  // Changes every eighth key, spread evenly, of a table at this load; then removes all.
  void updates(double load) {
    constexpr std::uint64_t step = 8;
    const auto keys = static_cast<std::uint64_t>(load * static_cast<double>(cells)), some = keys / step / 2 * 2;
    std::printf("\n%llu keys, load %.2f, changes and answers in the device's memory:\n\n",
                static_cast<unsigned long long>(keys), load);
    std::printf("| operation | threads of a tile | block | G/s |\n|---|---:|---:|---:|\n");
    CellChange* const changes = device_array<CellChange>(some);
    for (const std::uint32_t t : {1, 2, 4, 8}) {
      for (const std::uint32_t block : {128, 256}) {
        KernelTuning tuning;
        tuning.update_threads = t;
        tuning.update_block = block;
        Rates erased, inserted, replaced, exchanged, erased_all;
        for (int r = 0; r <= rounds; ++r) {
          const auto add = [r](Rates& rates, double rate) {
            if (r > 0) rates.add(rate);
          };
          build(keys, {}, 1);
          make(some, 0, 0, 0, step);
          add(erased, erase(some, keys - some, tuning));
          add(inserted, insert(some, keys, tuning));
          for (const bool back : {false, true}) {
            make_replacements<<<blocks_of(some), block_threads, 0, stream>>>(changes, some, step, back);
            add(replaced, change(changes, some, keys, tuning));
          }
          for (const bool back : {false, true}) {
            make_exchanges<<<blocks_of(some), block_threads, 0, stream>>>(changes, some, step, keys, back);
            add(exchanged, change(changes, some, keys, tuning));
          }
          make(keys, 0, 0, 0);
          add(erased_all, erase(keys, 0, tuning));
        }
        const auto row = [&](const char* what, Rates& rates) {
          std::printf("| %s | %u | %u | %s |\n", what, t, block, rates.text().c_str());
        };
        row("delete, every eighth key", erased);
        row("insert, those again", inserted);
        row("change, every eighth key's location", replaced);
        row("change, one removed for each one added", exchanged);
        row("delete, all keys", erased_all);
        std::fflush(stdout);
      }
    }
    TD_CUDA_CHECK(cudaFree(changes));
  }

  void dirty_cells() {
    std::printf("\n| changes applied at once, from pinned memory | us | M/s |\n|---|---:|---:|\n");
    constexpr std::uint32_t most = 1 << 20;
    DirtyCell* const changed = pinned_array<DirtyCell>(most);
    std::uint32_t* const winners = device_array<std::uint32_t>(cells);
    TD_CUDA_CHECK(cudaMemsetAsync(winners, 0, cells * sizeof *winners, stream));
    for (std::uint32_t i = 0; i < most; ++i) changed[i] = {mixed(i) % cells, i};
    for (const std::uint32_t n : {256u, 4096u, 65536u, most}) {
      Rates us;
      for (int r = 0; r <= 4 * rounds; ++r) {
        const double s =
            timer.seconds([&] { TD_CUDA_CHECK(apply_on_device(index.buckets, cells, winners, changed, n, stream)); });
        if (r > 0) us.add(s * 1e6);
      }
      std::printf("| %u | %s | %.0f |\n", n, us.text().c_str(), n / us.median());
    }
    TD_CUDA_CHECK(cudaFree(winners));
    TD_CUDA_CHECK(cudaFreeHost(changed));
  }

  // Queries and answers in pinned host memory; several batches on several streams, so that copies both ways and kernels
  // overlap.
  void over_the_bus(double load) {
    const auto keys = static_cast<std::uint64_t>(load * static_cast<double>(cells));
    build(keys, {}, 1);
    constexpr int streams = 4;
    constexpr std::uint64_t total = 1 << 26, ring = 1 << 24;
    cudaStream_t s[streams];
    for (auto& each : s) each = new_stream();
    Fingerprint* const host_f = pinned_array<Fingerprint>(ring);
    std::uint32_t* const host_location = pinned_array<std::uint32_t>(ring);
    make(ring, 0, keys, 7);
    TD_CUDA_CHECK(cudaMemcpyAsync(host_f, f, ring * sizeof *f, cudaMemcpyDeviceToHost, stream));
    TD_CUDA_CHECK(cudaStreamSynchronize(stream));
    std::vector<std::uint32_t> expected(ring);
    TD_CUDA_CHECK(cudaMemcpy(expected.data(), wanted, ring * sizeof *wanted, cudaMemcpyDeviceToHost));

    std::printf(
        "\n| through PCIe, load %.2f, batches of | by copies, G/s | by mapped memory, G/s | bytes to the device, G/s | "
        "one batch by copies, us | by mapped memory, us |\n|---:|---:|---:|---:|---:|---:|\n",
        load);
    cudaEvent_t from, to;
    TD_CUDA_CHECK(cudaEventCreate(&from));
    TD_CUDA_CHECK(cudaEventCreate(&to));
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
                TD_CUDA_CHECK(cudaMemcpyAsync(df, host_f + here, batch * sizeof *f, cudaMemcpyHostToDevice, s[k]));
                search_one(df, dl, batch, s[k]);
                TD_CUDA_CHECK(
                    cudaMemcpyAsync(host_location + here, dl, batch * sizeof *dl, cudaMemcpyDeviceToHost, s[k]));
              }
            }
          };
          TD_CUDA_CHECK(cudaDeviceSynchronize());
          timespec a{}, b{};
          const std::uint64_t n = batch < 1 << 16 ? total / 8 : total;
          clock_gettime(CLOCK_MONOTONIC, &a);
          run(n, streams);
          TD_CUDA_CHECK(cudaDeviceSynchronize());
          clock_gettime(CLOCK_MONOTONIC, &b);
          const auto us = [&] {
            return static_cast<double>(b.tv_sec - a.tv_sec) * 1e6 + static_cast<double>(b.tv_nsec - a.tv_nsec) / 1e3;
          };
          if (r > 0) rates[mapped].add(static_cast<double>(n) / us() / 1e3);
          unsigned long long others = 0;
          for (std::uint64_t i = 0; i < std::min(n, ring); ++i) others += host_location[i] != expected[i];
          if (!are_few(others, n)) fail(others, "searches over the bus found something else");
          Rates alone;
          for (int k = 0; k < 9; ++k) {
            clock_gettime(CLOCK_MONOTONIC, &a);
            run(batch, 1);
            TD_CUDA_CHECK(cudaStreamSynchronize(s[0]));
            clock_gettime(CLOCK_MONOTONIC, &b);
            alone.add(us());
          }
          if (r > 0) one[mapped].add(alone.median());
        }
        Timer timer(s[0]);
        const double t = timer.seconds([&] {
          for (int k = 0; k < 8; ++k) {
            TD_CUDA_CHECK(cudaMemcpyAsync(f, host_f, ring * sizeof *f, cudaMemcpyHostToDevice, s[0]));
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
};

}  // namespace

int main(int argc, char** argv) {
  const int log2_cells = argc > 1 ? std::atoi(argv[1]) : 27;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  const bool only_updates = argc > 3 && std::strcmp(argv[3], "updates") == 0;
  if (log2_cells < 25 || log2_cells > 31 || rounds < 1 || argc > (only_updates ? 4 : 3)) {
    std::fprintf(stderr, "usage: cuckoo_cuda_bench [LOG2_CELLS from 25 to 31 [ROUNDS [updates]]]\n");
    return 64;
  }
  cudaDeviceProp properties{};
  TD_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  std::printf("%s, %d multiprocessors, table of %.2f GiB, %d rounds\n", properties.name, properties.multiProcessorCount,
              static_cast<double>(8ull << log2_cells) / (1 << 30), rounds);
  Bench bench(static_cast<unsigned>(log2_cells), rounds);
  if (only_updates) {
    for (const double load : {0.8, 0.9}) bench.updates(load);
    return 0;
  }
  const double ceiling = bench.ceilings();
  for (const double load : {0.8, 0.9}) bench.resident(load, ceiling);
  for (const double load : {0.8, 0.9}) bench.updates(load);
  bench.dirty_cells();
  bench.over_the_bus(0.8);
  return 0;
}
