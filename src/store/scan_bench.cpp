// Scans of 100 small items by the embedded store, of two stores in turns: items where stores in a random order put
// them, and arranged in the order of their keys. `gain`: the first one's time by the second one's.
//
//   build/bench/store_bench --benchmark_filter=BM_scan
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <random>

#include "base/platform.hpp"
#include "base/shuffled.hpp"
#include "base/ticks.hpp"
#include "tandem/store.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t scan_bench_keys = 2'000'000;
constexpr std::size_t scan_bench_items = 100;

std::string_view bytes_of(const std::uint64_t& number) { return {reinterpret_cast<const char*>(&number), 8}; }

std::unique_ptr<Store> filled(bool arranged) {
  auto store = std::make_unique<Store>(
      Options{.memory_bytes = std::uint64_t{512} << 20, .arrange = false, .preset = "heterokv"});
  Session session = store->session();
  for (const std::uint64_t number : shuffled(scan_bench_keys)) {
    if (session.set(bytes_of(__builtin_bswap64(number)), bytes_of(number)) != Code::stored) std::abort();
  }
  if (arranged) session.arrange();
  return store;
}

// Returns the ticks.
std::uint64_t scan_some(Session& session, std::mt19937_64& random, std::uint64_t& sum) {
  const std::uint64_t begin = cycles_now();
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t first = __builtin_bswap64(random() % (scan_bench_keys - scan_bench_items));
    const Scanned scanned = session.scan({.begin = bytes_of(first)}, scan_bench_items, [&sum](const ScannedItem& item) {
      std::uint64_t value = 0;
      std::memcpy(&value, item.value.data(), sizeof value);
      sum += value;
    });
    if (scanned.count != scan_bench_items) std::abort();
  }
  return cycles_now() - begin;
}

void BM_scan(benchmark::State& state) {
  const auto scattered = filled(false), arranged = filled(true);
  Session of_scattered = scattered->session(), of_arranged = arranged->session();
  std::mt19937_64 random(2);
  std::uint64_t sum = 0, ticks_scattered = 0, ticks_arranged = 0;
  for (auto _ : state) {
    ticks_scattered += scan_some(of_scattered, random, sum);
    ticks_arranged += scan_some(of_arranged, random, sum);
  }
  benchmark::DoNotOptimize(sum);
  const auto us = [&state](std::uint64_t ticks) {
    return static_cast<double>(ticks) * ns_per_tick() / 1000 / (100.0 * static_cast<double>(state.iterations()));
  };
  state.counters["scattered_us"] = us(ticks_scattered);
  state.counters["arranged_us"] = us(ticks_arranged);
  state.counters["gain"] = static_cast<double>(ticks_scattered) / static_cast<double>(ticks_arranged);
}
BENCHMARK(BM_scan)->Unit(benchmark::kMillisecond)->MinTime(2);

}  // namespace
}  // namespace tandem
