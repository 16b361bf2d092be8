// Scans of small items by the embedded store, of two stores in turns: items where stores in a random order put
// them, and arranged in the order of their keys. `gain`: the first one's time by the second one's. `batch`: scans of a
// call. The small stores stay in the processor's caches.
//
//   build/bench/embedded_bench --benchmark_filter=BM_scan
#include <benchmark/benchmark.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

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

std::uint64_t value_of(const ScannedItem& item) {
  std::uint64_t value = 0;
  std::memcpy(&value, item.value.data(), sizeof value);
  return value;
}

constexpr std::size_t scans_of_turn = 128;

// Returns the ticks.
std::uint64_t scan_some(Session& session, std::uint64_t keys, std::size_t items, std::size_t batch,
                        std::mt19937_64& random, std::uint64_t& sum) {
  std::array<std::uint64_t, scans_of_turn> first;
  std::vector<RangeScan> scans;
  for (std::uint64_t& number : first) {
    number = __builtin_bswap64(random() % (keys - items));
    scans.push_back({.range = {.begin = bytes_of(number)}, .limit = items});
  }
  const std::uint64_t begin = cycles_now();
  if (batch == 1) {
    for (RangeScan& scan : scans)
      scan.scanned = session.scan(scan.range, items, [&sum](const ScannedItem& item) { sum += value_of(item); });
  } else {
    for (std::size_t i = 0; i < scans.size(); i += batch) {
      session.scan_batch(std::span(scans).subspan(i, batch),
                         [&sum](std::size_t, const ScannedItem& item) { sum += value_of(item); });
    }
  }
  const std::uint64_t ticks = cycles_now() - begin;
  for (const RangeScan& scan : scans) {
    if (scan.scanned.count != items) std::abort();
  }
  return ticks;
}

void BM_scan(benchmark::State& state) {
  const ScannedStores& stores = scanned_stores;
  Session of_scattered = stores.scattered->session(), of_arranged = stores.arranged->session();
  std::mt19937_64 random(static_cast<std::uint64_t>(state.thread_index()) + 2);
  const auto items = static_cast<std::size_t>(state.range(1)), batch = static_cast<std::size_t>(state.range(2));
  std::uint64_t sum = 0, ticks_scattered = 0, ticks_arranged = 0;
  for (auto _ : state) {
    ticks_scattered += scan_some(of_scattered, stores.keys, items, batch, random, sum);
    ticks_arranged += scan_some(of_arranged, stores.keys, items, batch, random, sum);
  }
  benchmark::DoNotOptimize(sum);
  const auto us = [&state](std::uint64_t ticks) {
    return benchmark::Counter(static_cast<double>(ticks) * ns_per_tick() / 1000 /
                                  static_cast<double>(scans_of_turn * static_cast<std::uint64_t>(state.iterations())),
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
    ->ArgNames({"keys", "items", "batch"})
    ->ArgsProduct({{10'000, 2'000'000}, {1, 10, 100}, {1, 16, 128}})
    ->Setup([](const benchmark::State& state) { scanned_stores.fill(static_cast<std::uint64_t>(state.range(0))); })
    ->ThreadRange(1, 16);

}  // namespace
}  // namespace tandem
