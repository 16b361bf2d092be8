// What a rest costs: a mark to a set in place, and a return by what has changed, beside a whole upload.
//
// dirty_mark: sets in place of random items, eight prefetched at a time, with and without marks in turns; lower
// quartiles. dirty_return: on the first GPU, else on the simulated device; TANDEM_BENCH_ITEMS is the number of items,
// of 64 bytes each. Arguments: items set in place during the rest, and whether the keys set are beside.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "base/hash.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/sim/sim_device.hpp"
#include "heap/cache.hpp"
#include "index/cuckoo/cuckoo_check.hpp"
#include "index/cuckoo/cuckoo_index.hpp"
#include "placement/mirrored/replica.hpp"

namespace tandem {
namespace {

using Steady = std::chrono::steady_clock;
double ms_since(Steady::time_point begin) {
  return std::chrono::duration<double, std::milli>(Steady::now() - begin).count();
}

constexpr std::uint64_t value_bytes = 32;

std::uint64_t items_wanted(std::uint64_t otherwise) {
  const char* const wanted = std::getenv("TANDEM_BENCH_ITEMS");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : otherwise;
}

// A store full of items with keys of 8 bytes.
struct FullStore {
  explicit FullStore(std::uint64_t count)
      : epochs(16),
        budget(count * 160 + (std::uint64_t{64} << 20)),
        heap({}, budget, epochs),
        dirty(heap, budget.limit_bytes(), budget),
        log({.ring_granules = 1 << 13, .dirty = &dirty}),
        index({.cells_initial = std::bit_ceil(count * 5 / 4), .hash_seed = 1, .log = &log}, budget, epochs, heap),
        epoch(epochs),
        cache(heap) {
    for (std::uint64_t n = 0; n < count; ++n) {
      const Location l = add(n);
      if (l == no_location) break;
      items.push_back(l);
    }
  }

  static std::string_view key_of(const std::uint64_t& n) { return {reinterpret_cast<const char*>(&n), sizeof n}; }
  Fingerprint fingerprint(const std::uint64_t& n) const { return fingerprint_of(key_of(n), 1); }
  // Also replaces.
  Location add(std::uint64_t n) {
    Location l = no_location;
    {
      const Heap::Cache::Lock lock(cache);
      const std::uint64_t bytes = Item::total_bytes(0, sizeof n, value_bytes);
      l = heap.allocate(cache, heap.size_class(bytes), bytes);
    }
    if (l == no_location) return l;
    heap.format(l, key_of(n), 0, value_bytes, 0, 0, false);
    epoch.enter();
    Location old = no_location;
    bool stored = false;
    while (!stored) {
      {
        CuckooIndex::Guard guard = index.lock(fingerprint(n));
        if (const Item* const found = guard.find(key_of(n))) old = heap.location_of(found);
        stored = guard.put(l, static_cast<std::uint64_t>(ItemState::live)) == CuckooIndex::Put::done;
      }
      if (!stored && !index.make_room(fingerprint(n), key_of(n))) break;
    }
    epoch.exit();
    const Heap::Cache::Lock lock(cache);
    if (old != no_location) heap.retire(cache, old);
    heap.reclaim(cache);
    return stored ? l : no_location;
  }

  EpochDomain epochs;
  MemoryBudget budget;
  Heap heap;
  DirtyMap dirty;
  ReplicaLog log;
  CuckooIndex index;
  EpochDomain::Participant epoch;
  Heap::Cache cache;
  std::vector<Location> items;
};

void dirty_mark(benchmark::State& state, double theta) {
  static FullStore store(items_wanted(1 << 22));
  store.epoch.enter();
  store.dirty.use();
  store.dirty.make(store.index.followed());
  store.epoch.exit();
  constexpr std::uint64_t turn = 1 << 14;
  std::vector<double> ns[2];
  std::vector<Location> chosen(turn);
  std::uint64_t random = 1;
  const auto draw = [&] {
    random = mix_bits(random + 1);
    const double u = static_cast<double>(random >> 11) * 0x1p-53, n = static_cast<double>(store.items.size());
    // The inverse of a power law's integral: as skewed as zipf of that theta, near enough.
    const double at = theta == 0 ? u * n : std::pow(u * (std::pow(n, 1 - theta) - 1) + 1, 1 / (1 - theta)) - 1;
    return store.items[mix_bits(static_cast<std::uint64_t>(at)) % store.items.size()];
  };
  bool marks = false;
  for (auto _ : state) {
    marks = !marks;
    for (Location& l : chosen) l = draw();
    const auto begin = Steady::now();
    for (std::uint64_t i = 0; i < turn; i += 8) {
      for (std::uint64_t k = i + 16; k < std::min(i + 24, turn); ++k) {
        prefetch_write(store.heap.at(chosen[k]));
        if (marks) store.dirty.prefetch(store.heap.at(chosen[k]));
      }
      for (std::uint64_t k = i; k < i + 8; ++k) {
        Item* const item = store.heap.at(chosen[k]);
        std::uint64_t was = item->state_word.load(std::memory_order_relaxed);
        item->state_word.compare_exchange_strong(was, rewriting_state(was), std::memory_order_acquire);
        item->fixed_word.store(item->fixed_word.load(std::memory_order_relaxed), std::memory_order_relaxed);
        std::memcpy(item->value(), &i, sizeof i);
        unlock_item(item, was);
        if (marks) store.dirty.mark(item);
      }
    }
    ns[marks].push_back(ms_since(begin) * 1e6 / static_cast<double>(turn));
  }
  for (auto& all : ns)
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 4), all.end());
  const auto quartile = [](const std::vector<double>& all) { return all.empty() ? 0 : all[all.size() / 4]; };
  state.counters["ns_set"] = quartile(ns[0]);
  state.counters["ns_mark"] = quartile(ns[1]) - quartile(ns[0]);
  state.counters["share"] = store.dirty.share();
}
BENCHMARK_CAPTURE(dirty_mark, uniform, 0)->Name("Dirty/mark/uniform")->Iterations(2000);
BENCHMARK_CAPTURE(dirty_mark, zipf_0_99, 0.99)->Name("Dirty/mark/zipf")->Iterations(2000);

struct OnDevice {
  explicit OnDevice(std::uint64_t count)
      : store(count),
        device(cuda_device_count().count != 0 ? make_cuda_device(0) : make_sim_device()),
        replica(*device, store.index, store.log, store.epochs, {.images = {.bytes = store.budget.limit_bytes()}},
                &store.heap) {}
  double ms_until(ReplicaState wanted) {
    const auto begin = Steady::now();
    while (replica.step(std::uint64_t{8} << 20) != wanted && ms_since(begin) < 120'000) {
    }
    return ms_since(begin);
  }
  FullStore store;
  std::unique_ptr<Device> device;
  Replica replica;
};

void dirty_return(benchmark::State& state) {
  static OnDevice on(items_wanted(1 << 20));
  static double upload_ms = 0;
  if (upload_ms == 0) {
    on.replica.start();
    upload_ms = on.ms_until(ReplicaState::current);
    on.replica.stop(ReplicaAbsence::rests);
    on.replica.start();
    upload_ms = on.ms_until(ReplicaState::current);  // the second one finds its memory
  }
  const auto sets = static_cast<std::uint64_t>(state.range(0));
  std::vector<double> all;
  std::uint64_t random = 7, bytes = 0;
  const std::uint64_t whole = on.replica.stats().returns_whole;
  for (auto _ : state) {
    if (!on.replica.rest()) return state.SkipWithError("it does not rest");
    on.ms_until(ReplicaState::resting);
    for (std::uint64_t i = 0; i < sets; ++i) {
      random = mix_bits(random + 1);
      const std::uint64_t n = random % on.store.items.size();
      if (state.range(1) != 0) {
        if (on.store.add(n) == no_location) return state.SkipWithError("no memory");
      } else {
        on.store.dirty.mark(on.store.heap.at(on.store.items[n]));
      }
    }
    const std::uint64_t before = on.replica.stats().return_bytes;
    on.replica.start();
    all.push_back(on.ms_until(ReplicaState::current));
    bytes = on.replica.stats().return_bytes - before;
  }
  std::sort(all.begin(), all.end());
  state.counters["items"] = static_cast<double>(on.store.items.size());
  state.counters["ms_upload"] = upload_ms;
  state.counters["ms_return"] = all.empty() ? 0 : all[all.size() / 2];
  state.counters["MB"] = static_cast<double>(bytes) / 1e6;
  state.counters["dirty_permille"] = static_cast<double>(on.replica.stats().dirty_permille);
  state.counters["whole"] = static_cast<double>(on.replica.stats().returns_whole - whole);
}
void sizes(benchmark::internal::Benchmark* b) {
  const auto count = static_cast<std::int64_t>(items_wanted(1 << 20));
  for (const std::int64_t sets : {std::int64_t{1'000'000}, count / 1000, count / 100, count / 10})
    b->Args({std::min(sets, count), 0});
  b->Args({std::min<std::int64_t>(1'000'000, count), 1});
}
BENCHMARK(dirty_return)->Name("Dirty/return")->Apply(sizes)->Iterations(5)->UseRealTime();

}  // namespace
}  // namespace tandem
