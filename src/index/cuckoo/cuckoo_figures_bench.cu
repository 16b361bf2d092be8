// The hash table experiments of Mega-KV's figures 6 to 8 on this GPU, as one JSON object a line:
//
//   cuckoo_figures_bench [6|7|8]       (all three)
//
// 6: the time of 60,000 searches over 7 streams, by threads of a processing unit. 7: insertions by blocks that own a
// logical partition each, as in the paper, beside those that need none. 8: throughput and latency of each operation by
// batch size, over 1 and 7 streams. Each measurement is repeated; `us` is the median. Every answer is checked, and the
// last line says so.
#include <chrono>
#include <cstring>
#include <utility>

#include "index/cuckoo/cuckoo_cuda.cuh"
#include "index/cuckoo/cuckoo_cuda_bench.cuh"
#include "index/cuckoo/lanes_cuda.cuh"

#define TD_LANES_NAMESPACE figure_lanes
#include "index/cuckoo/cuckoo-inl.hpp"

namespace {

using namespace tandem;
using namespace tandem::cuda_bench;

constexpr std::uint32_t streams_most = 7;
constexpr std::uint64_t batch_most = 1 << 20;

// Times in us, as members of a JSON object.
std::string members(Rates& us) {
  char out[120];
  std::snprintf(out, sizeof out, "\"us\":%.2f,\"us_least\":%.2f,\"us_greatest\":%.2f", us.median(), us.least(),
                us.greatest());
  return out;
}
double mops(std::uint64_t count, Rates& us) { return static_cast<double>(count) / us.median(); }
unsigned long long shown(std::uint64_t n) { return n; }

// --- kernels that only the figures need

// One query per unit, as in the paper; the server's kernel has one per thread.
template <class L>
__global__ void search_by_units(IndexView index, const Fingerprint* f, std::uint32_t* location, std::uint32_t count) {
  const std::uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) / L::threads;
  if (i >= count) return;
  const L lanes = L::here();
  const std::uint32_t found = figure_lanes::search_in_turn(lanes, index, f[i]);
  lanes.once([&] { location[i] = found; });
}

// A partition's insertions by one block, with the algorithm that does not need partitions.
template <class L>
__global__ void insert_by_blocks(IndexView index, const Fingerprint* f, const std::uint32_t* location,
                                 std::uint8_t* done, const std::uint32_t* begin) {
  const L lanes = L::here();
  for (std::uint32_t i = begin[blockIdx.x] + threadIdx.x / L::threads; i < begin[blockIdx.x + 1];
       i += blockDim.x / L::threads) {
    const bool added = figure_lanes::insert(lanes, index, f[i], location[i]);
    lanes.once([&] { done[i] = added ? 1 : 0; });
  }
}

// A partition's insertions by one block as in the paper (4.2, 4.3.2): without atomic operations. A unit reads its cell
// again when all units of the block have written theirs, and retries if another's is there. Departures: a unit reads
// the cell that it displaces before any unit writes, so that no cell being written gets lost; and a conflicting
// signature is no reason to replace a location, since the keys are all different.
template <class L>
__global__ void insert_by_barriers(IndexView index, const Fingerprint* f, const std::uint32_t* location,
                                   std::uint8_t* done, const std::uint32_t* begin) {
  constexpr std::uint32_t displacements_most = 1000;
  const L lanes = L::here();
  const std::uint32_t end = begin[blockIdx.x + 1];
  std::uint32_t i = begin[blockIdx.x] + threadIdx.x / L::threads;
  std::uint32_t b = 0, displacements = 0;
  Cell mine = empty_cell;
  const auto take = [&] {
    if (i >= end) return;
    mine = Cell::of(f[i].signature, location[i]);
    b = index.first(f[i]);
    displacements = 0;
  };
  take();
  while (__syncthreads_or(i < end ? 1 : 0) != 0) {
    const bool busy = i < end;
    Cell victim = empty_cell;
    std::uint32_t slot = 0;
    if (busy) {
      auto v = lanes.load(index.buckets + b);
      std::uint32_t empty = lanes.match(v, 0);
      if (empty == 0) {
        const std::uint32_t other = index.other(b, mine.signature());
        const auto w = lanes.load(index.buckets + other);
        if (const std::uint32_t there = lanes.match(w, 0); there != 0) {
          empty = there;
          v = w;
          b = other;
        }
      }
      slot = empty != 0 ? figure_lanes::nearest_from(lanes, empty, preferred_cell(mine.signature()))
                        : (mine.signature() * 2654435761u + displacements * 40503u) >> 8 & 7;
      victim = lanes.take(index.buckets + b, v, slot);
    }
    __syncthreads();
    if (busy) {
      lanes.once([&] { typename L::Ref(index.buckets[b].cell[slot]).store(mine.bits, cuda::memory_order_relaxed); });
    }
    __syncthreads();
    if (!busy) continue;
    const Bucket* const bucket = index.buckets + b;
    if (!(lanes.take(bucket, lanes.load(bucket), slot) == mine)) continue;  // another unit wrote it
    const bool settled = victim.empty();
    if (!settled && ++displacements < displacements_most) {
      mine = victim;
      b = index.other(b, victim.signature());
      continue;
    }
    lanes.once([&] { done[i] = settled ? 1 : 0; });
    i += blockDim.x / L::threads;
    take();
  }
}

// --- operations in batches over PCIe

enum class Operation { search, insert, replace, erase };
constexpr const char* name_of(Operation operation) {
  constexpr const char* names[] = {"search", "insert", "replace", "delete"};
  return names[static_cast<int>(operation)];
}

// Input and output of a batch.
struct Arrays {
  Fingerprint* f;
  std::uint32_t* location;
  CellChange* changes;
  std::uint32_t* found;
  std::uint8_t* done;

  template <class Allocate>
  static Arrays made(Allocate allocate) {
    Arrays a{};
    allocate(a.f), allocate(a.location), allocate(a.changes), allocate(a.found), allocate(a.done);
    return a;
  }
  Arrays from(std::uint64_t i) const { return {f + i, location + i, changes + i, found + i, done + i}; }
};

class Figures {
 public:
  explicit Figures(unsigned log2_cells) : cells_(std::uint64_t{1} << log2_cells) {
    for (cudaStream_t& stream : streams_) stream = new_stream();
    const std::uint64_t buckets = cells_ / bucket_cells;
    index_ = {device_array<Bucket>(buckets), static_cast<std::uint32_t>(buckets - 1)};
    host_ =
        Arrays::made([](auto*& array) { array = pinned_array<std::remove_reference_t<decltype(*array)>>(batch_most); });
    device_ =
        Arrays::made([](auto*& array) { array = device_array<std::remove_reference_t<decltype(*array)>>(batch_most); });
  }

  void figure_6();
  void figure_7();
  void figure_8();

 private:
  static constexpr double load = 0.8;
  static constexpr std::uint64_t jobs_of_figure_6 = 60'000;

  // Leaves a table with keys 0 to `load` of its cells.
  void build(double to_load);
  std::uint32_t wanted_of(std::uint64_t key) const { return static_cast<std::uint32_t>(key + 1); }

  // From the first call to the last answer in host memory, in us. The batch is divided among the streams.
  template <class Launch>  // launch(arrays, count, stream)
  double batch_us(Operation operation, std::uint64_t count, std::uint32_t streams, bool mapped, Launch launch);
  void launch(Operation operation, const Arrays& arrays, std::uint64_t count, cudaStream_t stream,
              const KernelTuning& tuning = {}) const;
  void draw_searches(std::uint64_t count);
  void check_searches(std::uint64_t count) const;
  void check_done(std::uint64_t count, const char* otherwise) const;

  template <std::uint32_t Threads>
  void searches_by(bool units);
  struct Partitioned;
  template <class Insert>
  void insertions(const char* method, std::uint32_t partitions, std::uint32_t blocks, const Partitioned& jobs,
                  Insert insert);

  std::uint64_t cells_, keys_ = 0, seed_ = 1;
  cudaStream_t streams_[streams_most];
  IndexView index_{};
  Arrays host_{}, device_{};
  std::vector<std::uint32_t> expected_;
  Checks checks_{new_stream()};
};

void Figures::build(double to_load) {
  keys_ = static_cast<std::uint64_t>(to_load * static_cast<double>(cells_));
  Fingerprint* const f = device_array<Fingerprint>(keys_);
  std::uint32_t* const location = device_array<std::uint32_t>(keys_);
  std::uint8_t* const done = device_array<std::uint8_t>(keys_);
  cudaStream_t const stream = streams_[0];
  TD_CUDA_CHECK(cudaMemsetAsync(index_.buckets, 0, cells_ * sizeof(Cell), stream));
  make_queries<<<blocks_of(keys_), block_threads, 0, stream>>>(f, location, keys_, 0, 1, 0, 0);
  TD_CUDA_CHECK(insert_on_device(index_, f, location, done, static_cast<std::uint32_t>(keys_), stream));
  TD_CUDA_CHECK(cudaStreamSynchronize(stream));
  checks_.all_done(done, keys_, "keys found no room");
  checks_.cells_used(index_, keys_);
  TD_CUDA_CHECK(cudaFree(f));
  TD_CUDA_CHECK(cudaFree(location));
  TD_CUDA_CHECK(cudaFree(done));
}

template <class Launch>
double Figures::batch_us(Operation operation, std::uint64_t count, std::uint32_t streams, bool mapped, Launch launch) {
  const bool changes = operation == Operation::replace, search = operation == Operation::search;
  std::memset(host_.done, 0xee, count);
  std::memset(host_.found, 0xff, count * sizeof *host_.found);
  TD_CUDA_CHECK(cudaDeviceSynchronize());
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint32_t k = 0; k < streams; ++k) {
    const std::uint64_t at = count * k / streams, n = count * (k + 1) / streams - at;
    const Arrays here = host_.from(at), there = device_.from(at);
    cudaStream_t const s = streams_[k];
    if (mapped) {
      launch(here, n, s);
      continue;
    }
    const auto in = [&](auto* to, const auto* from) {
      TD_CUDA_CHECK(cudaMemcpyAsync(to, from, n * sizeof *from, cudaMemcpyHostToDevice, s));
    };
    const auto out = [&](auto* to, const auto* from) {
      TD_CUDA_CHECK(cudaMemcpyAsync(to, from, n * sizeof *from, cudaMemcpyDeviceToHost, s));
    };
    if (changes) {
      in(there.changes, here.changes);
    } else {
      in(there.f, here.f);
      if (!search) in(there.location, here.location);
    }
    launch(there, n, s);
    if (search) {
      out(here.found, there.found);
    } else {
      out(here.done, there.done);
    }
  }
  for (std::uint32_t k = 0; k < streams; ++k) TD_CUDA_CHECK(cudaStreamSynchronize(streams_[k]));
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

void Figures::launch(Operation operation, const Arrays& a, std::uint64_t count, cudaStream_t stream,
                     const KernelTuning& tuning) const {
  const auto n = static_cast<std::uint32_t>(count);
  switch (operation) {
    case Operation::search: {
      const SearchPart part{reinterpret_cast<std::uint64_t>(a.f), reinterpret_cast<std::uint64_t>(a.found), n};
      return TD_CUDA_CHECK(search_on_device({index_.buckets, {.mask = index_.mask}}, &part, 1, stream, tuning));
    }
    case Operation::insert:
      return TD_CUDA_CHECK(insert_on_device(index_, a.f, a.location, a.done, n, stream, tuning));
    case Operation::replace:
      return TD_CUDA_CHECK(change_on_device(index_, a.changes, a.done, n, stream, tuning));
    case Operation::erase:
      return TD_CUDA_CHECK(erase_on_device(index_, a.f, a.location, a.done, n, stream, tuning));
  }
}

void Figures::draw_searches(std::uint64_t count) {
  expected_.resize(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t key = mixed(seed_++) % keys_;
    host_.f[i] = fingerprint(key);
    expected_[i] = wanted_of(key);
  }
}
void Figures::check_searches(std::uint64_t count) const {
  unsigned long long wrong = 0;
  for (std::uint64_t i = 0; i < count; ++i) wrong += host_.found[i] != expected_[i];
  if (!are_few(wrong, count)) fail(wrong, "searches found something else");
}
void Figures::check_done(std::uint64_t count, const char* otherwise) const {
  unsigned long long wrong = 0;
  for (std::uint64_t i = 0; i < count; ++i) wrong += host_.done[i] != 1;
  if (wrong != 0) fail(wrong, otherwise);
}

// --- figure 6

template <std::uint32_t Threads>
void Figures::searches_by(bool units) {
  using L = CudaLanes<Threads>;
  constexpr std::uint64_t jobs = jobs_of_figure_6;
  KernelTuning tuning;
  tuning.search_threads = Threads;
  const auto launch_one = [&](const Arrays& a, std::uint64_t n, cudaStream_t stream) {
    if (!units) return launch(Operation::search, a, n, stream, tuning);
    search_by_units<L>
        <<<blocks_of(n * Threads), block_threads, 0, stream>>>(index_, a.f, a.found, static_cast<std::uint32_t>(n));
    TD_CUDA_CHECK(cudaGetLastError());
  };
  Rates whole, kernel;
  Timer timer(streams_[0]);
  for (int r = 0; r <= 40; ++r) {
    draw_searches(jobs);
    const double us = batch_us(Operation::search, jobs, streams_most, false, launch_one);
    check_searches(jobs);
    const double alone = 1e6 * timer.seconds([&] { launch_one(device_, jobs, streams_[0]); });
    if (r == 0) continue;
    whole.add(us);
    kernel.add(alone);
  }
  const auto line = [&](const char* what, std::uint32_t streams, Rates& us) {
    std::printf(
        "{\"figure\":\"6\",\"time\":\"%s\",\"jobs\":%llu,\"streams\":%u,\"cells_per_bucket\":%u,\"threads\":%u,"
        "\"queries\":\"%s\",%s}\n",
        what, shown(jobs), streams, bucket_cells, Threads, units ? "one a unit" : "one a thread", members(us).c_str());
  };
  line("with transfers", streams_most, whole);
  line("kernel", 1, kernel);
}

void Figures::figure_6() {
  build(load);
  for (const bool units : {true, false}) {
    searches_by<1>(units);
    searches_by<2>(units);
    searches_by<4>(units);
    searches_by<8>(units);
  }
  std::printf(
      "{\"figure\":\"6\",\"left_out\":\"buckets of 4, 16 and 32 cells: a bucket is one line of 64 bytes with eight "
      "cells, which hosts and devices share\"}\n");
  std::fflush(stdout);
}

// --- figure 7

// Keys that are not in the table yet, in the order of their partitions.
struct Figures::Partitioned {
  std::vector<Fingerprint> f;
  std::vector<std::uint32_t> location, begin;

  Partitioned(std::uint64_t first_key, std::uint64_t count, std::uint32_t partitions) : begin(partitions + 1) {
    for (std::uint32_t p = 0; p < partitions; ++p) {
      begin[p] = static_cast<std::uint32_t>(f.size());
      for (std::uint64_t key = first_key; key < first_key + count; ++key) {
        const Fingerprint one = fingerprint(key);
        if ((one.hash & (partitions - 1)) != p) continue;
        f.push_back(one);
        location.push_back(static_cast<std::uint32_t>(key + 1));
      }
    }
    begin[partitions] = static_cast<std::uint32_t>(f.size());
  }
};

template <class Insert>
void Figures::insertions(const char* method, std::uint32_t partitions, std::uint32_t blocks, const Partitioned& jobs,
                         Insert insert) {
  const std::uint64_t count = jobs.f.size();
  cudaStream_t const stream = streams_[0];
  std::uint32_t* const begin = device_array<std::uint32_t>(jobs.begin.size());
  const auto upload = [](auto* to, const auto& from) {
    TD_CUDA_CHECK(cudaMemcpy(to, from.data(), from.size() * sizeof from[0], cudaMemcpyHostToDevice));
  };
  upload(begin, jobs.begin);
  upload(device_.f, jobs.f);
  upload(device_.location, jobs.location);
  TD_CUDA_CHECK(cudaDeviceSynchronize());  // a copy from pageable memory may return before it is done
  Timer timer(stream);
  Rates us;
  for (int r = 0; r <= 10; ++r) {
    TD_CUDA_CHECK(cudaMemsetAsync(device_.done, 0xee, count, stream));
    const double t = 1e6 * timer.seconds([&] { insert(begin, stream); });
    TD_CUDA_CHECK(cudaGetLastError());
    TD_CUDA_CHECK(cudaStreamSynchronize(stream));
    checks_.all_done(device_.done, count, "keys found no room");
    checks_.cells_used(index_, keys_ + count);
    TD_CUDA_CHECK(cudaMemsetAsync(device_.found, 0xff, count * sizeof *device_.found, stream));
    launch(Operation::search, device_, count, stream);
    TD_CUDA_CHECK(cudaStreamSynchronize(stream));
    checks_.locations(device_.found, device_.location, count);
    launch(Operation::erase, device_, count, stream);
    TD_CUDA_CHECK(cudaStreamSynchronize(stream));
    checks_.all_done(device_.done, count, "keys were not there to be removed");
    checks_.cells_used(index_, keys_);
    if (r > 0) us.add(t);
  }
  std::printf(
      "{\"figure\":\"7\",\"method\":\"%s\",\"partitions\":%u,\"blocks\":%u,\"jobs\":%llu,\"load\":%.2f,%s,\"mops\":%."
      "1f}\n",
      method, partitions, blocks, shown(count), static_cast<double>(keys_) / static_cast<double>(cells_),
      members(us).c_str(), mops(count, us));
  TD_CUDA_CHECK(cudaFree(begin));
}

void Figures::figure_7() {
  constexpr std::uint32_t threads = 1024;
  for (std::uint32_t bits = 0; bits <= 4; ++bits) {
    const std::uint32_t partitions = 1u << bits;
    index_.shard_bits = bits;  // both buckets of a key are of one partition
    build(load);
    for (const std::uint64_t count : {4'000u, 16'000u, 60'000u}) {
      const Partitioned jobs(keys_, count, partitions);
      insertions("a block a partition, barriers", partitions, partitions, jobs,
                 [&](const std::uint32_t* begin, cudaStream_t stream) {
                   insert_by_barriers<CudaLanes<8>>
                       <<<partitions, threads, 0, stream>>>(index_, device_.f, device_.location, device_.done, begin);
                 });
      insertions("a block a partition, compare and swap", partitions, partitions, jobs,
                 [&](const std::uint32_t* begin, cudaStream_t stream) {
                   insert_by_blocks<CudaLanes<2>>
                       <<<partitions, threads, 0, stream>>>(index_, device_.f, device_.location, device_.done, begin);
                 });
      if (bits != 0) continue;
      const KernelTuning tuning;
      insertions(
          "no partitions, compare and swap", 1,
          static_cast<std::uint32_t>((count * tuning.update_threads + tuning.update_block - 1) / tuning.update_block),
          jobs, [&](const std::uint32_t*, cudaStream_t stream) {
            launch(Operation::insert, device_, count, stream, tuning);
          });
    }
    std::fflush(stdout);
  }
  index_.shard_bits = 0;
}

// --- figure 8

// A round: some searches; keys are added, their locations changed, and they are removed again.
void Figures::figure_8() {
  build(load);
  constexpr Operation operations[] = {Operation::search, Operation::insert, Operation::replace, Operation::erase};
  for (std::uint64_t count = 1 << 10; count <= batch_most; count *= 2) {
    for (const bool mapped : {false, true}) {
      for (const std::uint32_t streams : {1u, streams_most}) {
        Rates us[4];
        const int rounds = count <= 1 << 16 ? 20 : 8;
        std::uint64_t first = keys_;
        for (int r = 0; r <= rounds; ++r, first += count) {
          const auto run = [&](Operation operation) {
            const double t =
                batch_us(operation, count, streams, mapped,
                         [&](const Arrays& a, std::uint64_t n, cudaStream_t s) { launch(operation, a, n, s); });
            if (r > 0) us[static_cast<int>(operation)].add(t);
          };
          draw_searches(count);
          run(Operation::search);
          check_searches(count);
          for (std::uint64_t i = 0; i < count; ++i) {
            host_.f[i] = fingerprint(first + i);
            host_.location[i] = wanted_of(first + i);
            host_.changes[i] = {host_.f[i], host_.location[i], host_.location[i] ^ 1u << 31};
          }
          run(Operation::insert);
          check_done(count, "keys found no room");
          run(Operation::replace);
          check_done(count, "keys were not there to be changed");
          // The removals show that they were changed and not added again.
          for (std::uint64_t i = 0; i < count; ++i) host_.location[i] ^= 1u << 31;
          run(Operation::erase);
          check_done(count, "keys were not there to be removed");
          checks_.cells_used(index_, keys_);
        }
        for (const Operation operation : operations) {
          Rates& t = us[static_cast<int>(operation)];
          std::printf(
              "{\"figure\":\"8\",\"operation\":\"%s\",\"batch\":%llu,\"streams\":%u,\"transfers\":\"%s\",\"load\":%.2f,"
              "%s,\"mops\":%.1f}\n",
              name_of(operation), shown(count), streams, mapped ? "mapped memory" : "copies", load, members(t).c_str(),
              mops(count, t));
        }
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  constexpr unsigned log2_cells = 27;
  const char wanted = argc == 2 && std::strlen(argv[1]) == 1 ? argv[1][0] : argc == 1 ? '*' : '?';
  if (std::strchr("*678", wanted) == nullptr) {
    std::fprintf(stderr, "usage: cuckoo_figures_bench [6|7|8]\n");
    return 64;
  }
  const auto begin = std::chrono::steady_clock::now();
  cudaDeviceProp properties{};
  TD_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  std::printf("{\"program\":\"cuckoo_figures_bench\",\"gpu\":\"%s\",\"multiprocessors\":%d,\"cells\":%llu}\n",
              properties.name, properties.multiProcessorCount, shown(std::uint64_t{1} << log2_cells));
  Figures figures(log2_cells);
  if (wanted == '*' || wanted == '6') figures.figure_6();
  if (wanted == '*' || wanted == '7') figures.figure_7();
  if (wanted == '*' || wanted == '8') figures.figure_8();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("{\"verified\":true,\"seconds\":%.1f}\n", took.count());
  return 0;
}
