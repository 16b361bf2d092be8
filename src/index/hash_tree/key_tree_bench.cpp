// The costs of trees of either kind of leaf by leaf size, 8-byte keys and values: a new key, a new item for a key, a
// scan of 100 keys. The anchor of a scan is a bare loop over an array of the items in key order; `of_bare` is a scan's
// rate by that loop's. Each benchmark prints `key_bytes`: what the tree takes of the budget for a key.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "index/hash_tree/tree_bench_items.hpp"

namespace tandem::tree_bench {
namespace {

constexpr std::uint32_t scan_keys = 100;

template <class Tree>
void count_bytes(benchmark::State& state, const Tree& tree) {
  state.counters["key_bytes"] = static_cast<double>(tree.bytes()) / static_cast<double>(tree.item_count());
  state.counters["leaves"] = static_cast<double>(tree.leaf_count());
}

template <class Tree>
void BM_add(benchmark::State& state) {
  Items& all = items(false);
  std::unique_ptr<Tree> tree;
  std::vector<std::uint64_t> splits;
  for (auto _ : state) {
    tree = make_tree<Tree>(all, static_cast<std::uint32_t>(state.range(0)));
    splits = add_all(all, *tree);
  }
  state.counters["split_us_p50"] = static_cast<double>(splits[splits.size() / 2]) * ns_per_tick() / 1000;
  state.counters["split_us_p999"] = static_cast<double>(splits[splits.size() * 999 / 1000]) * ns_per_tick() / 1000;
  count_bytes(state, *tree);
  state.SetItemsProcessed(state.iterations() * keys);
}

template <class Tree>
void BM_replace(benchmark::State& state) {
  Items& all = items(false);
  const auto tree = make_tree<Tree>(all, static_cast<std::uint32_t>(state.range(0)));
  add_all(all, *tree);
  std::uint32_t i = 0;
  all.epoch.enter();
  for (auto _ : state) {
    const Location l = all.location[i];
    const std::string_view key = all.heap.at(l)->key();
    tree->hold(key).replace(fingerprint_of(key, 1), key, l, l);
    i = (i + 1) % keys;
  }
  all.epoch.exit();
  state.SetItemsProcessed(state.iterations());
}

// Both read each item's state, as a sender has to.
struct Sum {
  std::uint64_t of = 0;
  void add(const Item* item) {
    std::uint64_t value = 0;
    std::memcpy(&value, item->value(), sizeof value);
    of += value;
  }
};

void bare(const Items& all, std::uint32_t first, Sum& sum) {
  for (std::uint32_t i = first; i < first + scan_keys; ++i) {
    if (i + 12 < keys) prefetch_read(all.heap.at(all.in_order[i + 12]));
    const Item* const item = all.heap.at(all.in_order[i]);
    if (settled_version(item).is_live()) sum.add(item);
  }
}

// In turns of a hundred scans each, so that both see the same machine.
template <class Tree>
void BM_scan(benchmark::State& state) {
  Items& all = items(state.range(1) != 0);
  const auto tree = make_tree<Tree>(all, static_cast<std::uint32_t>(state.range(0)));
  add_all(all, *tree);
  std::mt19937 random(2);
  ScanCopies copies(scan_keys);
  ScanStamp stamp;
  Sum sum;
  std::uint64_t of_bare = 0, of_tree = 0;
  for (auto _ : state) {
    std::uint32_t first[100];
    for (std::uint32_t& f : first) f = static_cast<std::uint32_t>(random() % (keys - scan_keys));
    const std::uint64_t begin = cycles_now();
    for (const std::uint32_t f : first) bare(all, f, sum);
    const std::uint64_t middle = cycles_now();
    for (std::uint32_t& f : first) f = static_cast<std::uint32_t>(random() % (keys - scan_keys));
    std::string_view key[100];
    for (int i = 0; i < 100; ++i) key[i] = all.heap.at(all.in_order[first[i]])->key();
    const std::uint64_t then = cycles_now();
    all.epoch.enter();
    for (const std::string_view k : key) {
      copies.clear();
      const ScanResult found = tree->scan({.begin = k}, scan_keys, copies, stamp);
      if (found.count != scan_keys) std::abort();
      for (std::uint32_t i = 0; i < scan_keys; ++i) sum.add(copies.item(i));
      if (!stamp.is_unchanged()) std::abort();
    }
    all.epoch.exit();
    const std::uint64_t end = cycles_now();
    of_bare += middle - begin;
    of_tree += end - then;
  }
  benchmark::DoNotOptimize(sum.of);
  state.counters["of_bare"] = static_cast<double>(of_bare) / static_cast<double>(of_tree);
  state.counters["scan_ns"] =
      static_cast<double>(of_tree) * ns_per_tick() / (100.0 * static_cast<double>(state.iterations()));
  count_bytes(state, *tree);
}

void leaf_sizes(benchmark::internal::Benchmark* b) {
  for (const int cells : {256, 512, 1024, 2048, 4096}) b->Arg(cells);
}
void all_scans(benchmark::internal::Benchmark* b) {
  b->ArgsProduct({{256, 512, 1024, 2048, 4096}, {0, 1}})->ArgNames({"cells", "placed"})->MinTime(0.5);
}
BENCHMARK(BM_add<HashTree>)->Apply(leaf_sizes)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(BM_add<OrderTree>)->Apply(leaf_sizes)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(BM_replace<HashTree>)->Apply(leaf_sizes);
BENCHMARK(BM_replace<OrderTree>)->Apply(leaf_sizes);
BENCHMARK(BM_scan<HashTree>)->Apply(all_scans);
BENCHMARK(BM_scan<OrderTree>)->Apply(all_scans);

}  // namespace
}  // namespace tandem::tree_bench
