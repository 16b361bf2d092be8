// Ways to run strips through the tasks (docs/decisions/0006-strips.md): GETs of 8/8 over 192 MiB of items, uniform,
// without replies. `lockstep` runs each task over a strip before the next task; `staggered` runs the tasks over
// successive strips; `executor` is the pipeline itself, by size of the batch; `direct` is one GET after the other
// without it. `floor` does the prefetches and first reads of the same buckets and items, and nothing else.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "pipeline/executor.hpp"
#include "task/index_operation-inl.hpp"
#include "task/key_compare-inl.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t items = (std::uint64_t{192} << 20) / granule_bytes;
constexpr std::uint32_t batch_max = 1024;

struct NoReplies final : ResponseWriter {
  bool write(Batch&, Strip) override { return true; }
  void control(Batch&, std::uint32_t) override {}
};

// The parts of a store, filled.
struct Fixture {
  MemoryBudget budget{std::uint64_t{512} << 20};
  EpochDomain epochs{2};
  Clock clock;
  Heap heap{{}, budget, epochs};
  CuckooIndex index{{.cells_initial = items / 3 * 4, .hash_seed = 7}, budget, epochs, heap};
  IndexPlacement placement{index, heap};
  Shared shared{.heap = heap,
                .index = index,
                .code = cuckoo_code,
                .placement = placement,
                .epochs = epochs,
                .clock = clock,
                .policy = {},
                .hash_seed = 7};
  Context context{shared};
  Executor executor{context};
  NoReplies writer;
  Batch batch{batch_max};
  std::vector<std::uint64_t> keys;

  Fixture() {
    std::vector<std::uint64_t> all(items);
    for (std::uint64_t i = 0; i < items; ++i) all[i] = i;
    for (std::uint64_t i = 0; i < items; i += batch_max) {
      for (std::uint64_t j = i; j < std::min(items, i + batch_max); ++j) {
        Query& q = batch.next();
        q = {};
        q.key = reinterpret_cast<const char*>(&all[j]);
        q.key_bytes = 8;
        q.value = "8 bytes.";
        q.value_bytes = 8;
        q.opcode = Opcode::store;
        batch.commit();
      }
      executor.run(batch, writer);
      batch.clear();
    }
    std::mt19937_64 rng(1);
    keys.resize(std::size_t{1} << 21);
    for (std::uint64_t& key : keys) key = rng() % items;
  }
  void fill(std::uint32_t at, std::size_t key, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      Query& q = batch.query(at + i);
      q.key = reinterpret_cast<const char*>(&keys[key + i]);
      q.key_bytes = 8;
      q.opcode = Opcode::get;
      q.options = 0;
    }
  }
};
Fixture& fixture() {
  static Fixture f;
  return f;
}

void report(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(fixture().keys.size()));
}

void floor(benchmark::State& state) {
  Fixture& f = fixture();
  std::vector<Fingerprint> prints;
  for (const std::uint64_t& key : f.keys) prints.push_back(fingerprint_of(reinterpret_cast<const char*>(&key), 8, 7));
  std::vector<Location> locations(prints.size());
  f.context.epoch.enter();
  f.index.search(prints.data(), static_cast<std::uint32_t>(prints.size()), locations.data());
  f.context.epoch.exit();
  const CuckooIndex::Prefetcher prefetch = f.index.prefetcher();
  std::uint64_t sum = 0;
  for (auto _ : state) {
    for (std::size_t i = 0; i + 8 < prints.size(); ++i) {
      prefetch(prints[i + 8]);
      prefetch_read(f.heap.at(locations[i + 8]));
      sum += f.heap.at(locations[i])->fixed();
    }
  }
  benchmark::DoNotOptimize(sum);
  report(state);
}

// Each task over `strip` queries, `lead` strips behind the previous task; 0: at once.
void staggered(benchmark::State& state) {
  Fixture& f = fixture();
  const auto strip = static_cast<std::uint32_t>(state.range(0));
  const auto lead = static_cast<std::int64_t>(state.range(1));
  constexpr std::size_t ring = 32;
  std::vector<StripState> states(ring);
  const auto strips = static_cast<std::int64_t>(f.keys.size() / strip);
  const std::uint32_t places = batch_max / strip;
  f.batch.resize(batch_max);
  for (auto _ : state) {
    f.context.epoch.enter();
    for (std::int64_t k = -3 * lead; k < strips; ++k) {
      const auto at = [&](std::int64_t s) -> StripState& { return states[static_cast<std::size_t>(s) % ring]; };
      const auto is_strip = [&](std::int64_t s) { return s >= 0 && s < strips; };
      if (const std::int64_t s = k + 3 * lead; is_strip(s)) {
        const auto from = static_cast<std::uint32_t>(static_cast<std::uint64_t>(s) % places * strip);
        f.fill(from, static_cast<std::size_t>(s) * strip, strip);
        at(s).strip = {from, from + strip};
        at(s).now_s = 1;
        task::fingerprint<CuckooIndex>(f.context, f.batch, at(s));
      }
      if (const std::int64_t s = k + 2 * lead; is_strip(s)) task::search<CuckooIndex>(f.context, f.batch, at(s));
      if (const std::int64_t s = k + lead; is_strip(s)) task::search_rest<CuckooIndex>(f.context, f.batch, at(s));
      if (k >= 0) task::key_compare<CuckooIndex>(f.context, f.batch, at(k));
    }
    f.context.epoch.exit();
  }
  report(state);
}

// The next batch depends on the answer to this one, like a client's next request. Otherwise the processor itself
// overlaps batches of one.
void executor(benchmark::State& state) {
  Fixture& f = fixture();
  const auto queries = static_cast<std::uint32_t>(state.range(0));
  for (auto _ : state) {
    for (std::size_t i = 0; i + queries <= f.keys.size(); i += queries * f.batch.result(queries - 1).value_bytes / 8) {
      f.fill(0, i, queries);
      f.batch.resize(queries);
      f.executor.run(f.batch, f.writer);
    }
  }
  report(state);
}

// One GET at a time without a pipeline: the reference for a batch of one.
void direct(benchmark::State& state) {
  Fixture& f = fixture();
  std::uint64_t sum = 0;
  for (auto _ : state) {
    for (std::size_t i = 0; i < f.keys.size();) {
      const std::string_view key(reinterpret_cast<const char*>(&f.keys[i]), sizeof f.keys[i]);
      f.context.epoch.enter();
      ItemVersion word;
      const Item* const item = f.index.find(fingerprint_of(key, 7), key, word);
      if (item == nullptr || is_expired(word.state, 1)) return state.SkipWithError("a key is missing");
      sum += static_cast<unsigned char>(*item->value());
      i += item->small_value_bytes() / 8;
      f.context.epoch.exit();
    }
  }
  benchmark::DoNotOptimize(sum);
  report(state);
}

BENCHMARK(floor)->Unit(benchmark::kMillisecond);
BENCHMARK(direct)->Unit(benchmark::kMillisecond);
BENCHMARK(staggered)
    ->Name("lockstep")
    ->ArgNames({"strip", "lead"})
    ->ArgsProduct({{8, 16, 32}, {0}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(staggered)
    ->ArgNames({"strip", "lead"})
    ->ArgsProduct({{4, 8, 16, 32}, {1, 2, 4}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(executor)->ArgName("batch")->RangeMultiplier(4)->Range(1, batch_max)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tandem
