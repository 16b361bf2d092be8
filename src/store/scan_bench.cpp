// Scans of small items by the embedded store, of two stores in turns: items where stores in a random order put
// them, and arranged in the order of their keys. `gain`: the first one's time by the second one's. The small stores
// stay in the processor's caches.
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

std::string_view bytes_of(const std::uint64_t& number) { return {reinterpret_cast<const char*>(&number), 8}; }

// Of one number of keys at a time, for all threads.
struct ScannedStores {
  std::uint64_t keys = 0;
  std::unique_ptr<Store> scattered, arranged;

  static std::unique_ptr<Store> filled(std::uint64_t keys) {
    auto store = std::make_unique<Store>(
        Options{.memory_bytes = (std::uint64_t{64} << 20) + 192 * keys, .arrange = false, .preset = "heterokv"});
    Session session = store->session();
    for (const std::uint64_t number : shuffled(keys)) {
      if (session.set(bytes_of(__builtin_bswap64(number)), bytes_of(number)) != Code::stored) std::abort();
    }
    return store;
  }
  void fill(std::uint64_t wanted) {
    if (keys == wanted) return;
    keys = wanted;
    scattered = filled(keys);
    arranged = filled(keys);
    arranged->session().arrange();
  }
};
ScannedStores scanned_stores;

// Returns the ticks.
std::uint64_t scan_some(Session& session, std::uint64_t keys, std::size_t items, std::mt19937_64& random,
                        std::uint64_t& sum) {
  const std::uint64_t begin = cycles_now();
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t first = __builtin_bswap64(random() % (keys - items));
    const Scanned scanned = session.scan({.begin = bytes_of(first)}, items, [&sum](const ScannedItem& item) {
      std::uint64_t value = 0;
      std::memcpy(&value, item.value.data(), sizeof value);
      sum += value;
    });
    if (scanned.count != items) std::abort();
  }
  return cycles_now() - begin;
}

void BM_scan(benchmark::State& state) {
  const ScannedStores& stores = scanned_stores;
  Session of_scattered = stores.scattered->session(), of_arranged = stores.arranged->session();
  std::mt19937_64 random(static_cast<std::uint64_t>(state.thread_index()) + 2);
  const auto items = static_cast<std::size_t>(state.range(1));
  std::uint64_t sum = 0, ticks_scattered = 0, ticks_arranged = 0;
  for (auto _ : state) {
    ticks_scattered += scan_some(of_scattered, stores.keys, items, random, sum);
    ticks_arranged += scan_some(of_arranged, stores.keys, items, random, sum);
  }
  benchmark::DoNotOptimize(sum);
  const auto us = [&state](std::uint64_t ticks) {
    return benchmark::Counter(
        static_cast<double>(ticks) * ns_per_tick() / 1000 / (100.0 * static_cast<double>(state.iterations())),
        benchmark::Counter::kAvgThreads);
  };
  state.counters["scattered_us"] = us(ticks_scattered);
  state.counters["arranged_us"] = us(ticks_arranged);
  state.counters["gain"] = benchmark::Counter(
      static_cast<double>(ticks_scattered) / static_cast<double>(ticks_arranged), benchmark::Counter::kAvgThreads);
}
BENCHMARK(BM_scan)
    ->Unit(benchmark::kMillisecond)
    ->MinTime(2)
    ->ArgNames({"keys", "items"})
    ->ArgsProduct({{10'000, 2'000'000}, {1, 10, 100}})
    ->Setup([](const benchmark::State& state) { scanned_stores.fill(static_cast<std::uint64_t>(state.range(0))); })
    ->ThreadRange(1, 16);

}  // namespace
}  // namespace tandem
