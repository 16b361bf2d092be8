// The base layer's cost per batch (epochs, locks) and per query (hashing).
#include <benchmark/benchmark.h>

#include <string>

#include "base/epoch.hpp"
#include "base/hash.hpp"
#include "base/spin_lock.hpp"

namespace tandem {
namespace {

void BM_epoch_enter_exit(benchmark::State& state) {
  static EpochDomain domain(64);
  EpochDomain::Participant self(domain);
  for (auto _ : state) {
    self.enter();
    benchmark::ClobberMemory();
    self.exit();
  }
}

void BM_epoch_retire_stamp(benchmark::State& state) {
  static EpochDomain domain(64);
  for (auto _ : state) benchmark::DoNotOptimize(domain.retire_stamp());
}

// By the number of participants, all inactive.
void BM_epoch_safe_stamp(benchmark::State& state) {
  EpochDomain domain(static_cast<std::uint32_t>(state.range(0)));
  std::vector<std::unique_ptr<EpochDomain::Participant>> participants;
  for (std::int64_t i = 0; i < state.range(0); ++i)
    participants.push_back(std::make_unique<EpochDomain::Participant>(domain));
  for (auto _ : state) benchmark::DoNotOptimize(domain.safe_stamp());
}

void BM_spin_lock(benchmark::State& state) {
  static SpinLock lock;
  for (auto _ : state) {
    lock.lock();
    benchmark::ClobberMemory();
    lock.unlock();
  }
}

// By key length, keys in the first-level cache.
void BM_fingerprint(benchmark::State& state) {
  const std::string key(static_cast<std::size_t>(state.range(0)), 'k');
  std::uint64_t seed = 1;
  for (auto _ : state) {
    const Fingerprint f = fingerprint_of(key, seed);
    seed = f.signature;  // dependent: measures latency
    benchmark::DoNotOptimize(seed);
  }
}

BENCHMARK(BM_epoch_enter_exit)->Threads(1)->Threads(2);
BENCHMARK(BM_epoch_retire_stamp)->Threads(1)->Threads(2);
BENCHMARK(BM_epoch_safe_stamp)->Arg(1)->Arg(16)->Arg(256);
BENCHMARK(BM_spin_lock)->Threads(1);
BENCHMARK(BM_fingerprint)->Arg(8)->Arg(16)->Arg(32)->Arg(250);

}  // namespace
}  // namespace tandem
