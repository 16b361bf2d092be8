// The cost of a replica's log: for a writer per change, alone and beside drains, and for a drain per record. log_put
// replaces an item's location through the index with and without the log in turns: the difference is the cost to a SET.
// Counters are lower quartiles over many short turns, since the machine may be shared.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/hash.hpp"
#include "heap/cache.hpp"
#include "index/cuckoo/cuckoo_check.hpp"
#include "index/cuckoo/cuckoo_index.hpp"
#include "index/cuckoo/lanes_scalar.hpp"
#include "placement/mirrored/replica_log.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t mib = 1 << 20;

struct Store {
  explicit Store(ChangeLog* log, std::uint64_t cells, std::uint64_t memory_bytes = 256 * mib)
      : epochs(16),
        budget(memory_bytes + cells * sizeof(Cell)),
        heap({}, budget, epochs),
        index({.cells_initial = cells, .hash_seed = 1, .log = log}, budget, epochs, heap) {}
  EpochDomain epochs;
  MemoryBudget budget;
  Heap heap;
  CuckooIndex index;
};

class LowerQuartile {
 public:
  void add(std::chrono::steady_clock::duration time, std::uint64_t of) {
    if (of != 0) values_.push_back(std::chrono::duration<double, std::nano>(time).count() / static_cast<double>(of));
  }
  double ns() {
    if (values_.empty()) return 0;
    const auto at = values_.begin() + static_cast<std::ptrdiff_t>(values_.size() / 4);
    std::nth_element(values_.begin(), at, values_.end());
    return *at;
  }

 private:
  std::vector<double> values_;
};
std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }

// One writer's calls for a SET that replaces an item.
void set(ChangeLog& log, std::uint64_t cell) {
  const std::array<Change, 1> changes{Change{1, cell}};
  const auto ticket = log.reserve(changes);
  benchmark::ClobberMemory();
  log.commit(ticket);
  benchmark::DoNotOptimize(log.launch());
}

constexpr std::uint64_t turn = 1024;

void log_writer(benchmark::State& state, bool on) {
  ReplicaLog log({.ring_records = 1 << 16});
  Store store(nullptr, 1 << 16);
  EpochDomain::Participant epoch(store.epochs);
  std::vector<DirtyCell> memory(1 << 16);
  DirtyQueue<> queue(memory);
  if (on) log.start();
  std::uint64_t cell = 0;
  ChangeLog* calls = &log;
  benchmark::DoNotOptimize(calls);
  LowerQuartile set_ns;
  for (auto _ : state) {
    const auto begin = now();
    for (std::uint64_t i = 0; i < turn; ++i) set(*calls, cell++ & 0xffff);
    set_ns.add(now() - begin, turn);
    epoch.enter();
    log.drain(store.index, {}, queue);
    epoch.exit();
  }
  if (log.overflows() != 0) state.SkipWithError("overflow");
  state.counters["ns_set"] = set_ns.ns();
}
BENCHMARK_CAPTURE(log_writer, off, false);
BENCHMARK_CAPTURE(log_writer, on, true);

// A drain of `records` random cells of a table of `table_mib` MiB.
void log_drain(benchmark::State& state, std::uint64_t table_mib, std::uint32_t records) {
  ReplicaLog log({.ring_records = 1 << 16});
  Store store(nullptr, table_mib * mib / sizeof(Cell));
  EpochDomain::Participant epoch(store.epochs);
  std::vector<DirtyCell> memory(1 << 16);
  DirtyQueue<> queue(memory);
  epoch.enter();
  const CuckooIndex::Searched table = store.index.searched();
  const std::uint64_t cells = (std::uint64_t{table.view.mask} + 1) * bucket_cells;
  for (std::uint64_t i = 0; i < cells; i += 512) table.view.buckets->cell[i] = i;  // maps its pages
  log.start();
  std::uint64_t random = 1;
  LowerQuartile record_ns;
  for (auto _ : state) {
    for (std::uint32_t i = 0; i < records; ++i) {
      random = mix_bits(random + 1);
      const Change change{table.serial, random % cells};
      log.commit(log.reserve({&change, 1}));
    }
    const auto begin = now();
    const Drained d = log.drain(store.index, {table.serial, cells}, queue);
    record_ns.add(now() - begin, d.records);
    queue.send(d.cells);
    queue.release(queue.sent());
  }
  epoch.exit();
  state.counters["ns_record"] = record_ns.ns();
}
BENCHMARK_CAPTURE(log_drain, mib_1_records_1000, 1, 1000)->Iterations(1000);
BENCHMARK_CAPTURE(log_drain, mib_64_records_1000, 64, 1000)->Iterations(1000);
BENCHMARK_CAPTURE(log_drain, mib_1024_records_1000, 1024, 1000)->Iterations(1000);
BENCHMARK_CAPTURE(log_drain, mib_1024_records_30000, 1024, 30'000)->Iterations(200);
BENCHMARK_CAPTURE(log_drain, mib_64_records_1, 64, 1)->Iterations(10'000);

// One writer and one drainer at once.
void log_both(benchmark::State& state, std::chrono::microseconds pause) {
  ReplicaLog log({.ring_records = 1 << 20});
  Store store(nullptr, 64 * mib / sizeof(Cell));
  const std::uint64_t cells = store.index.cell_count();
  std::atomic<bool> stop{false};
  LowerQuartile record_ns, set_ns;
  std::uint64_t records = 0, drains = 0;
  log.start();
  std::thread drainer([&] {
    EpochDomain::Participant epoch(store.epochs);
    std::vector<DirtyCell> memory(1 << 20);
    DirtyQueue<> queue(memory);
    while (!stop.load(std::memory_order_relaxed)) {
      const auto begin = now();
      epoch.enter();
      const Drained d = log.drain(store.index, {1, cells}, queue);
      epoch.exit();
      record_ns.add(now() - begin, d.records);
      records += d.records;
      ++drains;
      while (queue.waiting() != 0) queue.send(queue.unsent().size());
      queue.release(queue.sent());
      std::this_thread::sleep_for(pause);
    }
  });
  std::uint64_t random = 1;
  ChangeLog* calls = &log;
  benchmark::DoNotOptimize(calls);
  for (auto _ : state) {
    const auto begin = now();
    for (std::uint64_t i = 0; i < turn; ++i) {
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      set(*calls, (random >> 20) % cells);
    }
    set_ns.add(now() - begin, turn);
    while (log.wants_drain()) std::this_thread::yield();
  }
  stop = true;
  drainer.join();
  state.counters["ns_set"] = set_ns.ns();
  state.counters["ns_record"] = record_ns.ns();
  state.counters["records_drain"] = static_cast<double>(records) / static_cast<double>(drains);
  state.counters["overflows"] = static_cast<double>(log.overflows());
}
BENCHMARK_CAPTURE(log_both, every_100_us, std::chrono::microseconds(100))->UseRealTime();
BENCHMARK_CAPTURE(log_both, without_a_pause, std::chrono::microseconds(0))->UseRealTime();

// A replacement through the index: lock, find, put, unlock. It alternates between two items, so that nothing is
// allocated.
void log_put(benchmark::State& state) {
  ReplicaLog log({.ring_records = 1 << 16});
  Store plain(nullptr, 1 << 16), logged(&log, 1 << 16);
  log.start();
  constexpr std::uint64_t live = word::State::put(0, static_cast<std::uint64_t>(ItemState::live));
  struct Key {
    Fingerprint f;
    std::string text;
    Location at[2];
  };
  const auto fill = [&](Store& store) {
    std::vector<Key> keys(4096);
    EpochDomain::Participant epoch(store.epochs);
    Heap::Cache cache(store.heap);
    epoch.enter();
    for (std::size_t k = 0; k < keys.size(); ++k) {
      keys[k].text = "key:" + std::to_string(k);
      keys[k].f = fingerprint_of(keys[k].text, 1);
      const std::uint64_t bytes = Item::total_bytes(0, keys[k].text.size(), 8);
      for (Location& l : keys[k].at) {
        const Heap::Cache::Lock lock(cache);
        l = store.heap.allocate(cache, store.heap.size_class(bytes), bytes);
        store.heap.format(l, keys[k].text, 0, 8, 0, 0, false);
      }
      CuckooIndex::Guard guard = store.index.lock(keys[k].f);
      guard.find(std::string_view(keys[k].text));
      if (guard.put(keys[k].at[0], live) != CuckooIndex::Put::done) state.SkipWithError("no room");
    }
    epoch.exit();
    return keys;
  };
  const std::vector<Key> keys[2] = {fill(plain), fill(logged)};
  Store* const stores[2] = {&plain, &logged};
  std::vector<DirtyCell> memory(1 << 16);
  DirtyQueue<> queue(memory);
  EpochDomain::Participant epoch(logged.epochs);
  LowerQuartile put_ns[2];
  std::size_t other = 1;
  for (auto _ : state) {
    for (int s = 0; s < 2; ++s) {
      const auto begin = now();
      for (const Key& key : keys[s]) {
        CuckooIndex::Guard guard = stores[s]->index.lock(key.f);
        guard.find(std::string_view(key.text));
        benchmark::DoNotOptimize(guard.put(key.at[other], live));
      }
      put_ns[s].add(now() - begin, keys[s].size());
    }
    other = 1 - other;
    epoch.enter();
    log.drain(logged.index, {}, queue);
    epoch.exit();
  }
  state.counters["ns_plain"] = put_ns[0].ns();
  state.counters["ns_logged"] = put_ns[1].ns();
}
BENCHMARK(log_put);

}  // namespace
}  // namespace tandem
