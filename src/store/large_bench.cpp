// Large values in process beside memcpy, in turns: a set copies a value into the store and replaces one of its key, a
// get copies it out. The copies beside them have as many buffers as the store has keys. `set`, `get`: the speed as a
// share of memcpy's, which `set_copy` and `get_copy` have in GB/s.
//
//   build/bench/store_bench --benchmark_filter=BM_large
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/platform.hpp"
#include "base/shuffled.hpp"
#include "base/ticks.hpp"
#include "tandem/store.hpp"

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

void BM_large(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::size_t keys = std::max<std::size_t>(large_working_bytes / bytes, 4);
  Store store(Options{.memory_bytes = 6 * large_working_bytes, .item_bytes_max = 2 * std::uint64_t{64} << 20});
  Session session = store.session();
  const std::string value(bytes, 'v');
  std::string out(bytes, '\0');
  const HugeBuffers buffers(keys * bytes);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < keys; ++i) names.push_back("key" + std::to_string(i));

  const auto order = shuffled(keys);
  std::array<std::uint64_t, 4> ticks{};
  const auto timed = [&](std::size_t what, auto&& work) {
    const std::uint64_t begin = cycles_now();
    for (const std::size_t i : order) work(i);
    ticks[what] += cycles_now() - begin;
  };
  const auto round = [&] {
    timed(0, [&](std::size_t i) { std::memcpy(buffers.at + i * bytes, value.data(), bytes); });
    timed(1, [&](std::size_t i) {
      if (session.set(names[i], value) != Code::stored) std::abort();
    });
    timed(2, [&](std::size_t i) { std::memcpy(out.data(), buffers.at + i * bytes, bytes); });
    timed(3, [&](std::size_t i) {
      const std::string_view key = names[i];
      session.get_batch({&key, 1}, [&](std::size_t, const Reply& reply) {
        if (reply.value.size() != bytes) std::abort();
        std::memcpy(out.data(), reply.value.data(), bytes);
      });
    });
    benchmark::ClobberMemory();
  };
  round();
  round();
  ticks = {};
  for (auto _ : state) round();
  const auto gb_per_s = [&](std::uint64_t of) {
    return static_cast<double>(keys * bytes) * static_cast<double>(state.iterations()) /
           (static_cast<double>(of) * ns_per_tick());
  };
  state.counters["set_copy"] = gb_per_s(ticks[0]);
  state.counters["get_copy"] = gb_per_s(ticks[2]);
  state.counters["set"] = static_cast<double>(ticks[0]) / static_cast<double>(ticks[1]);
  state.counters["get"] = static_cast<double>(ticks[2]) / static_cast<double>(ticks[3]);
}
BENCHMARK(BM_large)
    ->Unit(benchmark::kMillisecond)
    ->MinTime(1)
    ->ArgName("bytes")
    ->RangeMultiplier(4)
    ->Range(16 << 10, 64 << 20);

}  // namespace
}  // namespace tandem
