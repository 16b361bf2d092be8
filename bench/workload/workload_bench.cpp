// The load generator's cost per request, before it is sent and after it is answered.
#include <benchmark/benchmark.h>

#include <sstream>
#include <string>

#include "bench/workload/keys.hpp"
#include "bench/workload/stream.hpp"
#include "bench/workload/trace.hpp"

namespace tandem::workload {
namespace {

void items_per_iteration(benchmark::State& state) { state.SetItemsProcessed(state.iterations()); }

void BM_zipf(benchmark::State& state) {
  const Zipf zipf(static_cast<std::uint64_t>(state.range(0)), static_cast<double>(state.range(1)) / 100);
  Random random(1);
  for (auto _ : state) benchmark::DoNotOptimize(zipf.draw(random));
  items_per_iteration(state);
}

void BM_stream(benchmark::State& state, const char* name) {
  Stream stream(preset(name), 0, 1);
  for (auto _ : state) benchmark::DoNotOptimize(stream.next());
  items_per_iteration(state);
}

Spec sized(const char* key_bytes, const char* value_bytes) {
  Spec spec;
  spec.key_bytes = parse_key_sizes(key_bytes);
  spec.value_bytes = parse_value_sizes(value_bytes);
  return spec;
}

void BM_write_key(benchmark::State& state, const char* sizes) {
  const KeySpace keys(sized(sizes, "8"));
  char out[key_bytes_max];
  std::uint64_t key = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(keys.write_key(key++, out));
    benchmark::ClobberMemory();
  }
  items_per_iteration(state);
}

void BM_write_value(benchmark::State& state, const char* sizes) {
  const KeySpace keys(sized("16", sizes));
  std::string out(keys.value_bytes(0) + (1 << 20), '\0');
  std::uint64_t key = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(keys.write_value(key++, out.data()));
    benchmark::ClobberMemory();
  }
  items_per_iteration(state);
}

void BM_is_value(benchmark::State& state, const char* size) {
  const KeySpace keys(sized("16", size));
  std::string value(keys.value_bytes(7), '\0');
  keys.write_value(7, value.data());
  for (auto _ : state) benchmark::DoNotOptimize(keys.is_value(7, value));
  items_per_iteration(state);
}

// Bytes of a CSV file read per second.
void BM_read_trace(benchmark::State& state) {
  std::string text;
  for (int i = 0; i < 100'000; ++i)
    text += "5,q:q:1:8WTfjZU14ee" + std::to_string(i * 7919 % 10'000) + ",17,213," + std::to_string(i) + ",get,0\n";
  for (auto _ : state) {
    std::istringstream in(text);
    benchmark::DoNotOptimize(Trace::parse(in, "bench.csv"));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
}

BENCHMARK(BM_zipf)
    ->Args({1'000'000, 0})
    ->Args({1'000'000, 50})
    ->Args({1'000'000, 99})
    ->Args({1 << 30, 99})
    ->Args({1'000'000, 120});
BENCHMARK_CAPTURE(BM_stream, K8_G95_U, "K8-G95-U");
BENCHMARK_CAPTURE(BM_stream, K8_G95_S, "K8-G95-S");
BENCHMARK_CAPTURE(BM_stream, ycsb_d, "ycsb-d");
BENCHMARK_CAPTURE(BM_write_key, 8, "8");
BENCHMARK_CAPTURE(BM_write_key, 16, "16");
BENCHMARK_CAPTURE(BM_write_key, 32, "32");
BENCHMARK_CAPTURE(BM_write_key, etc, "etc");
BENCHMARK_CAPTURE(BM_write_value, 8, "8");
BENCHMARK_CAPTURE(BM_write_value, 64, "64");
BENCHMARK_CAPTURE(BM_write_value, 1024, "1024");
BENCHMARK_CAPTURE(BM_write_value, etc, "etc");
BENCHMARK_CAPTURE(BM_is_value, 8, "8");
BENCHMARK_CAPTURE(BM_is_value, 64, "64");
BENCHMARK_CAPTURE(BM_is_value, 1024, "1024");
BENCHMARK(BM_read_trace);

}  // namespace
}  // namespace tandem::workload
