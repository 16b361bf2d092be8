// The index's costs relative to those of memory alone at the same time: each benchmark of a search also runs, in turns,
// a loop that only prefetches and reads one line, and one that reads two lines, of the same table for the same keys.
// Counters are lower quartiles over many short turns, since the machine may be shared: ns_search, ns_1_line, ns_2_lines
// and `of_2_lines`, the share of the ceiling that is reached.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "heap/cache.hpp"
#include "index/cuckoo/cuckoo_check.hpp"
#include "index/cuckoo/cuckoo_index.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t kib = 1024, mib = 1024 * kib, gib = 1024 * mib;
constexpr std::uint32_t strip_default = 64;

// A table at load 0.9 of the given size, filled as cheaply as possible: a random signature per cell. Kept for the next
// benchmark.
struct Filled {
  MemoryBudget budget{16 * gib};
  std::unique_ptr<Table> table;
  std::vector<Fingerprint> hits, misses;
};

const Filled& filled(std::uint64_t bytes) {
  static std::map<std::uint64_t, Filled> all;
  Filled& f = all[bytes];
  if (f.table) return f;
  f.table = Table::make(bytes / sizeof(Bucket), 1, true, f.budget);
  const IndexView view = f.table->view();
  std::uint64_t random = bytes;
  for (std::uint64_t b = 0; b < f.table->buckets(); ++b) {
    for (std::uint64_t& cell : view.buckets[b].cell) {
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      if ((random >> 40) % 10 != 0) {
        cell =
            Cell::of(static_cast<std::uint32_t>(random >> 32) | 1u, static_cast<std::uint32_t>(random >> 8) | 1u).bits;
      }
    }
  }
  // More keys than a branch predictor remembers. Of 100 keys of a table at load 0.9 filled by insertion, 78 are in
  // their first bucket.
  constexpr std::uint32_t keys = 1 << 20;
  for (std::uint64_t i = 0; f.hits.size() < keys; ++i) {
    const std::uint64_t h = mix_bits(i + 1);
    const auto b = static_cast<std::uint32_t>(h) & view.mask;
    const Cell c{view.buckets[b].cell[(h >> 32) % bucket_cells]};
    if (c.empty()) continue;
    f.hits.push_back({c.signature(), (h >> 40) % 100 < 78 ? b : view.other(b, c.signature())});
    f.misses.push_back({static_cast<std::uint32_t>(mix_bits(h)) | 1u, static_cast<std::uint32_t>(h >> 7)});
  }
  return f;
}

using Loop = void (*)(const CuckooOps& ops, IndexView view, const Fingerprint* f, std::uint32_t count,
                      std::uint32_t* out);

void read_1_line(const CuckooOps&, IndexView view, const Fingerprint* f, std::uint32_t count, std::uint32_t* out) {
  for (std::uint32_t i = 0; i < count; ++i) prefetch_read(view.buckets + view.first(f[i]));
  for (std::uint32_t i = 0; i < count; ++i) out[i] = static_cast<std::uint32_t>(view.buckets[view.first(f[i])].cell[0]);
}
void read_2_lines(const CuckooOps&, IndexView view, const Fingerprint* f, std::uint32_t count, std::uint32_t* out) {
  for (std::uint32_t i = 0; i < count; ++i) {
    prefetch_read(view.buckets + view.first(f[i]));
    prefetch_read(view.buckets + view.second(f[i]));
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    out[i] =
        static_cast<std::uint32_t>(view.buckets[view.first(f[i])].cell[0] ^ view.buckets[view.second(f[i])].cell[0]);
  }
}
void prefetch_first(IndexView view, const Fingerprint* f, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) prefetch_read(view.buckets + view.first(f[i]));
}
void prefetch_both(IndexView view, const Fingerprint* f, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    prefetch_read(view.buckets + view.first(f[i]));
    prefetch_read(view.buckets + view.second(f[i]));
  }
}
template <auto prefetch, auto order>
void search_in(const CuckooOps& ops, IndexView view, const Fingerprint* f, std::uint32_t count, std::uint32_t* out) {
  prefetch(view, f, count);
  (ops.*order)(view, f, count, out, nullptr);
}
constexpr auto search_both = search_in<prefetch_both, &CuckooOps::search_both>;
constexpr auto search_two_pass = search_in<prefetch_first, &CuckooOps::search_two_pass>;
constexpr auto search_in_turn = search_in<prefetch_both, &CuckooOps::search_in_turn>;
constexpr auto search_in_turn_first = search_in<prefetch_first, &CuckooOps::search_in_turn>;

double lower_quartile(std::vector<double>& values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void search(benchmark::State& state, const CuckooOps& ops, Loop loop, std::uint64_t bytes, bool hits,
            std::uint32_t strip) {
  const Filled& data = filled(bytes);
  const std::vector<Fingerprint>& keys = hits ? data.hits : data.misses;
  constexpr std::uint32_t turn = 8192;
  std::vector<std::uint32_t> out(turn);
  std::size_t at = 0;
  const auto ns_of = [&](Loop run) {
    const Fingerprint* const f = keys.data() + at;
    at = (at + turn) % keys.size();
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < turn; i += strip) run(ops, data.table->view(), f + i, strip, out.data() + i);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<double> searches, one, two;
  for (auto _ : state) {
    const double ns = ns_of(loop);
    state.SetIterationTime(ns * 1e-9);
    searches.push_back(ns / turn);
    one.push_back(ns_of(read_1_line) / turn);
    two.push_back(ns_of(read_2_lines) / turn);
  }
  const double ns_search = lower_quartile(searches), ns_2_lines = lower_quartile(two);
  state.counters["ns_search"] = ns_search;
  state.counters["ns_1_line"] = lower_quartile(one);
  state.counters["ns_2_lines"] = ns_2_lines;
  state.counters["of_2_lines"] = ns_2_lines / ns_search;
}

void add(const std::string& name, const CuckooOps& ops, Loop loop, std::uint64_t bytes, bool hits,
         std::uint32_t strip) {
  benchmark::RegisterBenchmark(
      name.c_str(),
      [&ops, loop, bytes, hits, strip](benchmark::State& state) { search(state, ops, loop, bytes, hits, strip); })
      ->UseManualTime()
      ->Iterations(300);
}

const char* size_name(std::uint64_t bytes) {
  return bytes == 512 * kib ? "512KiB" : bytes == 8 * mib ? "8MiB" : "1GiB";
}

// --- through the index, with items ---

struct Store {
  explicit Store(std::uint64_t cells)
      : epochs(4),
        budget(8 * gib),
        heap({}, budget, epochs),
        index({.cells_initial = cells, .hash_seed = 3}, budget, epochs, heap),
        epoch(epochs),
        cache(heap) {}

  Location make(const std::string& key) {
    const Heap::Cache::Lock lock(cache);
    const std::uint64_t bytes = Item::total_bytes(0, key.size(), 8);
    const Location l = heap.allocate(cache, heap.size_class(bytes), bytes);
    heap.format(l, key, 0, 8, 0, 0, false);
    return l;
  }
  bool put(Fingerprint f, const std::string& key, Location l) {
    for (;;) {
      {
        CuckooIndex::Guard guard = index.lock(f);
        guard.find(std::string_view(key));
        if (guard.put(l, word::State::put(0, static_cast<std::uint64_t>(ItemState::live))) == CuckooIndex::Put::done)
          return true;
      }
      ++rooms;
      if (!index.make_room(f, key)) return false;
    }
  }
  void fill(double load) {
    while (static_cast<double>(keys.size()) < load * static_cast<double>(index.cell_count())) {
      keys.push_back("key:" + std::to_string(keys.size()));
      fingerprints.push_back(fingerprint_of(keys.back(), 3));
      locations.push_back(make(keys.back()));
      put(fingerprints.back(), keys.back(), locations.back());
    }
  }

  EpochDomain epochs;
  MemoryBudget budget;
  Heap heap;
  CuckooIndex index;
  EpochDomain::Participant epoch;
  Heap::Cache cache;
  std::vector<std::string> keys;
  std::vector<Fingerprint> fingerprints;
  std::vector<Location> locations;
  std::uint64_t rooms = 0;
};

// Adds keys at the given load and removes them again, with a Guard each. No items are written: the same ones are
// reused.
void add_and_erase(benchmark::State& state) {
  Store store(static_cast<std::uint64_t>(state.range(0)));
  store.fill(static_cast<double>(state.range(1)) / 100);
  store.epoch.enter();
  constexpr std::size_t turn = 512;
  std::vector<double> erases, adds;
  std::size_t at = 0;
  store.rooms = 0;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = at; i < at + turn; ++i) {
      CuckooIndex::Guard guard = store.index.lock(store.fingerprints[i]);
      if (guard.find(std::string_view(store.keys[i])) != nullptr) benchmark::DoNotOptimize(guard.erase());
    }
    const auto middle = std::chrono::steady_clock::now();
    for (std::size_t i = at; i < at + turn; ++i) store.put(store.fingerprints[i], store.keys[i], store.locations[i]);
    const auto end = std::chrono::steady_clock::now();
    erases.push_back(std::chrono::duration<double, std::nano>(middle - start).count() / turn);
    adds.push_back(std::chrono::duration<double, std::nano>(end - middle).count() / turn);
    state.SetIterationTime(std::chrono::duration<double>(end - start).count());
    at = (at + turn) % (store.keys.size() - 2 * turn);
  }
  state.counters["ns_erase"] = lower_quartile(erases);
  state.counters["ns_add"] = lower_quartile(adds);
  state.counters["displacing"] = static_cast<double>(store.rooms) / static_cast<double>(adds.size() * turn);
  store.epoch.exit();
}

// The search that compares every candidate, of keys that are present (100) or not (0).
void find(benchmark::State& state) {
  Store store(static_cast<std::uint64_t>(state.range(0)));
  store.fill(0.9);
  store.epoch.enter();
  const bool hits = state.range(1) != 0;
  std::vector<std::string> keys;
  std::vector<Fingerprint> f;
  for (std::size_t i = 0; i < store.keys.size(); ++i) {
    keys.push_back(hits ? store.keys[mix_bits(i) % store.keys.size()] : "none:" + std::to_string(i));
    f.push_back(fingerprint_of(keys.back(), 3));
  }
  std::size_t i = 0;
  for (auto _ : state) {
    ItemVersion word;
    benchmark::DoNotOptimize(store.index.find(f[i], keys[i], word));
    i = i + 1 == keys.size() ? 0 : i + 1;
  }
  store.epoch.exit();
}

// From empty to load 0.95: how often an insertion must displace, by tenths of the load.
void fill_to_95(benchmark::State& state) {
  for (auto _ : state) {
    Store store(1 << 20);
    std::uint64_t before = 0;
    for (const int load : {50, 80, 90, 95}) {
      const std::size_t keys = store.keys.size();
      store.fill(load / 100.0);
      state.counters["displacing_to_" + std::to_string(load)] =
          static_cast<double>(store.rooms - before) / static_cast<double>(store.keys.size() - keys);
      before = store.rooms;
    }
  }
}

void grow(benchmark::State& state) {
  for (auto _ : state) {
    Store store(static_cast<std::uint64_t>(state.range(0)));
    store.fill(0.9);
    const auto start = std::chrono::steady_clock::now();
    if (!store.index.grow(store.epoch)) state.SkipWithError("growth failed");
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    state.SetIterationTime(seconds);
    state.counters["ns_item"] = seconds * 1e9 / static_cast<double>(store.keys.size());
  }
}

const bool registered = [] {
  const CuckooOps& best = cuckoo_ops_best();
  for (const std::uint64_t bytes : {512 * kib, 8 * mib, gib}) {
    for (const bool hits : {true, false}) {
      const std::string where = std::string("/") + size_name(bytes) + (hits ? "/hits" : "/misses");
      add("order/both" + where, best, search_both, bytes, hits, strip_default);
      add("order/two_pass" + where, best, search_two_pass, bytes, hits, strip_default);
      add("order/in_turn" + where, best, search_in_turn, bytes, hits, strip_default);
      add("order/in_turn_prefetch_first" + where, best, search_in_turn_first, bytes, hits, strip_default);
    }
    // The choice of CuckooIndex::search (Table::reads_both).
    const Loop chosen = bytes <= Table::reads_both_bytes_max ? search_both : search_two_pass;
    for (const CuckooOps* ops : cuckoo_ops_built()) {
      if (!ops->supported()) continue;
      add("lanes/" + std::string(ops->name) + "/" + size_name(bytes), *ops, chosen, bytes, true, strip_default);
    }
    for (const std::uint32_t strip : {1u, 4u, 16u, 32u, 64u, 128u, 256u}) {
      add("strip/" + std::to_string(strip) + "/" + size_name(bytes), best, chosen, bytes, true, strip);
    }
  }
  return true;
}();

BENCHMARK(add_and_erase)
    ->ArgNames({"cells", "load"})
    ->ArgsProduct({{1 << 14, 1 << 22}, {50, 90, 95}})
    ->UseManualTime()
    ->Iterations(500);
BENCHMARK(find)->ArgNames({"cells", "hits"})->ArgsProduct({{1 << 14, 1 << 22}, {100, 0}});
BENCHMARK(fill_to_95)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(grow)->ArgName("cells")->Arg(1 << 16)->Arg(1 << 22)->UseManualTime()->Iterations(1)->Unit(
    benchmark::kMillisecond);

}  // namespace
}  // namespace tandem
