// Searches of the set-associative index, by how readers are kept from a set that changes, by lanes, and beside the
// cuckoo index. Strips of 8; a million keys, uniform; 5 of 100 operations of a mixed run
// replace a key's item by itself.
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "index/cuckoo/cuckoo_index.hpp"
#include "index/cuckoo/index_test_support.hpp"
#include "index/set_associative/set_index-inl.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t keys = 1'000'000;
constexpr std::uint32_t strip = 8;

// Filled once, for all threads and runs.
template <class I>
struct Filled {
  explicit Filled(std::string_view lanes)
      : store({.cells = keys / 3 * 4, .memory_bytes = std::uint64_t{512} << 20, .lanes = lanes}) {
    BasicTestWorker<I> worker(store);
    for (std::uint64_t n = 0; n < keys; ++n) {
      if (worker.set(key_of(n), n) != BasicTestWorker<I>::Outcome::done) continue;
      if (store.index.wants_growth()) worker.grow();
    }
    fingerprints.reserve(keys);
    for (std::uint64_t n = 0; n < keys; ++n) fingerprints.push_back(store.fingerprint(key_of(n)));
  }
  static Filled& of(const std::string& lanes) {
    static std::map<std::string, std::unique_ptr<Filled>> all;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    auto& one = all[lanes];
    if (!one) one = std::make_unique<Filled>(lanes);
    return *one;
  }
  BasicTestStore<I> store;
  std::vector<Fingerprint> fingerprints;
};

// Both passes over a strip, the next one's lines under way, and the item's state as a get reads it.
template <class I>
void search(benchmark::State& state, const std::string& lanes, unsigned changes_percent) {
  Filled<I>& filled = Filled<I>::of(lanes);
  const I& index = filled.store.index;
  BasicTestWorker<I> worker(filled.store);
  std::minstd_rand random(static_cast<unsigned>(state.thread_index()) + 1);
  std::array<Fingerprint, strip> now{}, next{};
  std::array<std::uint64_t, strip> number{};
  const auto draw = [&] {
    for (std::uint32_t i = 0; i < strip; ++i) {
      number[i] = random() % keys;
      next[i] = filled.fingerprints[number[i]];
      index.prefetcher()(next[i]);
    }
  };
  draw();
  std::uint64_t found = 0;
  for (auto _ : state) {
    const typename BasicTestWorker<I>::Batch batch(worker);
    now = next;
    draw();
    std::array<Location, strip> l{};
    index.search_second(now.data(), index.search_first(now.data(), strip, l.data()), l.data());
    for (const Location each : l) found += each != no_location ? filled.store.heap.at(each)->state_acquire() & 1 : 0;
    for (std::uint32_t i = 0; i < strip; ++i) {
      if (random() % 100 < changes_percent) (void)worker.touch(key_of(number[i]), 0);
    }
  }
  benchmark::DoNotOptimize(found);
  state.SetItemsProcessed(state.iterations() * strip);
}

template <class I>
void add(const std::string& name, const std::string& lanes) {
  for (const unsigned changes : {0u, 5u}) {
    benchmark::RegisterBenchmark(
        (name + "/" + (lanes.empty() ? "best" : lanes) + "/changes:" + std::to_string(changes)).c_str(),
        [lanes, changes](benchmark::State& state) { search<I>(state, lanes, changes); })
        ->ThreadRange(1, 2)
        ->UseRealTime();
  }
}

[[gnu::constructor]] void add_all() {
  add<SetAssociativeIndex>("validated", "");
  add<BasicSetIndex<16, SetReading::locked>>("locked", "");
  add<CuckooIndex>("cuckoo", "");
  for (const SetOps16* ops : set_ops_built()) {
    if (ops->supported()) add<SetAssociativeIndex>("validated", std::string(ops->name));
  }
}

}  // namespace
}  // namespace tandem
