// SETs of new keys, 8 bytes of key and value each, by the embedded store: without an order of keys, with one beside the
// index, and with the tree alone. Batches of 64 SETs, keys in a random order or ascending, of a thread's own each.
//
//   build/bench/embedded_bench --benchmark_filter=BM_insert
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "base/shuffled.hpp"
#include "tandem/store.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t inserted_keys = 1'000'000;  // by each thread
constexpr std::size_t insert_batch = 64;
constexpr std::array<const char*, 3> kinds = {"plain", "ordered", "heterokv"};

std::unique_ptr<Store> store_of_inserts;

void BM_insert(benchmark::State& state) {
  const auto thread = static_cast<std::uint64_t>(state.thread_index()),
             threads = static_cast<std::uint64_t>(state.threads());
  std::vector<std::uint64_t> order = shuffled(inserted_keys);
  if (state.range(1) == 0) std::ranges::sort(order);
  std::vector<std::uint64_t> keys(inserted_keys);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = __builtin_bswap64(order[i] * threads + thread);
  Session session = store_of_inserts->session();
  for (auto _ : state) {
    std::array<Request, insert_batch> batch;
    for (std::size_t i = 0; i < keys.size(); i += insert_batch) {
      const std::size_t count = std::min(insert_batch, keys.size() - i);
      for (std::size_t j = 0; j < count; ++j) {
        const std::string_view bytes(reinterpret_cast<const char*>(&keys[i + j]), 8);
        batch[j] = {.action = Action::set, .key = bytes, .value = bytes};
      }
      session.execute(std::span(batch.data(), count), [](std::size_t, const Reply& reply) {
        if (reply.code != Code::stored) std::abort();
      });
    }
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(inserted_keys));
  if (thread == 0) state.SetLabel(kinds[static_cast<std::size_t>(state.range(0))]);
}
BENCHMARK(BM_insert)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1)  // the keys are new once
    ->UseRealTime()
    ->ArgNames({"kind", "random"})
    ->ArgsProduct({{0, 1, 2}, {0, 1}})
    ->Setup([](const benchmark::State& state) {
      Options options{.memory_bytes = (std::uint64_t{64} << 20) +
                                      192 * inserted_keys * static_cast<std::uint64_t>(state.threads())};
      options.ordered = state.range(0) == 1;
      if (state.range(0) == 2) options.preset = "heterokv";
      store_of_inserts = std::make_unique<Store>(options);
    })
    ->Teardown([](const benchmark::State&) { store_of_inserts.reset(); })
    ->ThreadRange(1, 16)
    ->Repetitions(5)
    ->ReportAggregatesOnly();

}  // namespace
}  // namespace tandem
