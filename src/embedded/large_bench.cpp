// Large values in process beside memcpy, in turns: a set copies a value into the store and replaces one of its key, a
// get copies it to the caller's buffer (tandem_get_into). The copies beside them have as many buffers as the store has
// keys, in huge pages, and the same source and target. `set`, `get`: the speed as a share of memcpy's, which `set_copy`
// and `get_copy` have in GB/s, all by the thread's processor time.
//
//   build/bench/embedded_bench --benchmark_filter=BM_large
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <tandem/tandem.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/shuffled.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t large_working_bytes = std::uint64_t{256} << 20;  // larger than the processor's caches

struct HugeBuffers {
  static constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
  char* const at;

  explicit HugeBuffers(std::size_t bytes)
      : at(static_cast<char*>(std::aligned_alloc(huge_page_bytes, round_up(bytes)))) {
    if (at == nullptr) std::abort();
    madvise(at, round_up(bytes), MADV_HUGEPAGE);
    std::memset(at, 'b', bytes);
  }
  ~HugeBuffers() { std::free(at); }
  HugeBuffers(const HugeBuffers&) = delete;
  HugeBuffers& operator=(const HugeBuffers&) = delete;

  static std::size_t round_up(std::size_t bytes) {
    return (bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
  }
};

tandem_store* open_large_store() {
  tandem_options options;
  tandem_options_init(&options, sizeof options);
  options.memory_bytes = 6 * large_working_bytes;
  options.item_bytes_max = std::uint64_t{128} << 20;
  tandem_store* const store = tandem_open(&options, nullptr, 0);
  if (store == nullptr) std::abort();
  return store;
}

std::uint64_t thread_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void BM_large(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::size_t keys = std::max<std::size_t>(large_working_bytes / bytes, 4);
  tandem_store* const store = open_large_store();
  const std::string value(bytes, 'v');
  std::string out(bytes, '\0');
  const HugeBuffers buffers(keys * bytes);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < keys; ++i) names.push_back("key" + std::to_string(i));

  const auto order = shuffled(keys);
  std::array<std::uint64_t, 4> ns{};
  const auto timed = [&](std::size_t what, auto&& work) {
    const std::uint64_t begin = thread_ns();
    for (const std::size_t i : order) work(i);
    ns[what] += thread_ns() - begin;
  };
  const auto round = [&] {
    timed(0, [&](std::size_t i) { std::memcpy(buffers.at + i * bytes, value.data(), bytes); });
    timed(1, [&](std::size_t i) {
      if (tandem_set(store, names[i].data(), names[i].size(), value.data(), bytes, 0, 0) != TANDEM_STORED) std::abort();
    });
    timed(2, [&](std::size_t i) { std::memcpy(out.data(), buffers.at + i * bytes, bytes); });
    timed(3, [&](std::size_t i) {
      tandem_reply reply;
      if (tandem_get_into(store, names[i].data(), names[i].size(), out.data(), bytes, &reply) != TANDEM_HIT ||
          reply.value_bytes != bytes)
        std::abort();
    });
    benchmark::ClobberMemory();
  };
  round();
  round();
  ns = {};
  for (auto _ : state) round();
  const auto gb_per_s = [&](std::uint64_t of) {
    return static_cast<double>(keys * bytes) * static_cast<double>(state.iterations()) / static_cast<double>(of);
  };
  state.counters["set_copy"] = gb_per_s(ns[0]);
  state.counters["get_copy"] = gb_per_s(ns[2]);
  state.counters["set"] = static_cast<double>(ns[0]) / static_cast<double>(ns[1]);
  state.counters["get"] = static_cast<double>(ns[2]) / static_cast<double>(ns[3]);
  tandem_close(store);
}
BENCHMARK(BM_large)
    ->Unit(benchmark::kMillisecond)
    ->MinTime(1)
    ->ArgName("bytes")
    ->RangeMultiplier(4)
    ->Range(16 << 10, 64 << 20);

}  // namespace
}  // namespace tandem
