// The cost of writing replies per query, from given results, compared with copying the values only.
//   build/bench/task_bench --benchmark_filter=write
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>

#include "codec/packet_builder.hpp"
#include "codec/protocol.hpp"
#include "task/write_response.hpp"

namespace tandem {
namespace {

constexpr std::uint32_t queries = 1000;

// Hits for one parsed input, each on an item of its own.
class Hits {
 public:
  Hits(const std::string& input, std::uint32_t value_bytes, std::uint32_t client_flags)
      : epochs_(2), heap_(HeapOptions{}, budget_, epochs_), batch_(queries), items_(queries * item_stride) {
    Parser parser(options_, clock_);
    std::size_t consumed = 0;
    parser.parse(input.data(), input.data() + input.size(), batch_, 0, consumed);
    for (std::uint32_t i = 0; i < batch_.size(); ++i) {
      const Query& q = batch_.query(i);
      char* const at = items_.data() + i * item_stride;
      auto* const item = new (at) Item{};
      std::uint64_t fixed = word::KeyBytes::put(0, q.key_bytes);
      fixed = word::ValueBytes::put(fixed, value_bytes);
      fixed = word::HasFlags::put(fixed, client_flags != 0);
      item->set_fixed(word::CasLow::put(fixed, 1000 + i));
      std::memcpy(item->bytes() + 16, &client_flags, sizeof client_flags);
      std::memcpy(item->bytes() + item->key_offset(), q.key, q.key_bytes);
      std::memset(item->value(), 'v', value_bytes);
      batch_.result(i) = {{item}, 0, 0, value_bytes, Status::hit, 0, static_cast<std::uint16_t>(item->value_offset())};
    }
  }
  void write(Output& out) { task::write_response(batch_, {0, batch_.size()}, {heap_, clock_, options_, out}); }
  Batch& batch() noexcept { return batch_; }

 private:
  static constexpr std::size_t item_stride = 1024;

  const ProtocolOptions options_;
  const Clock clock_;
  MemoryBudget budget_{std::uint64_t{64} << 20};
  EpochDomain epochs_;
  Heap heap_;
  Batch batch_;
  std::vector<char> items_;
};

std::string requests(const std::string& before, const std::string& after) {
  std::string input;
  for (std::uint32_t i = 0; i < queries; ++i) {
    std::string digits = std::to_string(i * 7919);
    input += before + "key:" + std::string(12 - digits.size(), '0') + digits + after;
  }
  return input;
}

void set_rate(benchmark::State& state) {
  state.counters["per_query"] = benchmark::Counter(static_cast<double>(state.iterations()) * queries,
                                                   benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

std::string packets(std::uint8_t opcode) {
  std::string input;
  for (std::uint32_t i = 0; i < queries; ++i) {
    std::string digits = std::to_string(i * 7919);
    input += codec::binary::packet(opcode, {.key = "key:" + std::string(12 - digits.size(), '0') + digits});
  }
  return input;
}

void write_binary(benchmark::State& state, std::uint8_t opcode) {
  const std::string input = packets(opcode);
  Hits hits(input, static_cast<std::uint32_t>(state.range(0)), 0);
  Output out;
  for (auto _ : state) {
    hits.write(out);
    benchmark::DoNotOptimize(out.data());
    out.clear();
  }
  set_rate(state);
}

void write(benchmark::State& state, const std::string& before, const std::string& after, std::uint32_t client_flags) {
  const std::string input = requests(before, after);
  Hits hits(input, static_cast<std::uint32_t>(state.range(0)), client_flags);
  Output out;
  for (auto _ : state) {
    hits.write(out);
    benchmark::DoNotOptimize(out.data());
    out.clear();
  }
  set_rate(state);
}

void write_floor(benchmark::State& state) {
  const std::string input = requests("get ", "\r\n");
  const auto value_bytes = static_cast<std::uint32_t>(state.range(0));
  Hits hits(input, value_bytes, 0);
  Output out;
  for (auto _ : state) {
    for (std::uint32_t i = 0; i < queries; ++i) out.append(hits.batch().result(i).item->value(), value_bytes);
    benchmark::DoNotOptimize(out.data());
    out.clear();
  }
  set_rate(state);
}

BENCHMARK(write_floor)->Arg(8)->Arg(64)->Arg(512);
BENCHMARK_CAPTURE(write, get, "get ", "\r\n", 0)->Arg(8)->Arg(64)->Arg(512);
BENCHMARK_CAPTURE(write_binary, get, codec::binary::opcode::get)->Arg(8)->Arg(64)->Arg(512);
BENCHMARK_CAPTURE(write_binary, getkq, codec::binary::opcode::getkq)->Arg(64);
BENCHMARK_CAPTURE(write, get_client_flags, "get ", "\r\n", 123456)->Arg(64);
BENCHMARK_CAPTURE(write, gets, "gets ", "\r\n", 0)->Arg(64);
BENCHMARK_CAPTURE(write, mg_v, "mg ", " v\r\n", 0)->Arg(64);
BENCHMARK_CAPTURE(write, mg_six_flags, "mg ", " t f c v Oabc123 q\r\n", 0)->Arg(64);

}  // namespace
}  // namespace tandem
