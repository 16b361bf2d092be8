// The cost of parsing per request, compared with finding the line ends by memchr only.
//   build/bench/codec_bench --benchmark_filter=parse
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>

#include "codec/packet_builder.hpp"
#include "codec/protocol.hpp"

namespace tandem {
namespace {

namespace binary = codec::binary;

constexpr std::uint32_t requests = 1000;  // of one buffer; the batch holds them all

std::string key_of(std::uint32_t i) {
  std::string digits = std::to_string(i * 7919);
  return "key:" + std::string(12 - digits.size(), '0') + digits;  // 16 bytes
}

std::string repeat(const auto& request) {
  std::string input;
  for (std::uint32_t i = 0; i < requests; ++i) input += request(i);
  return input;
}

void floor(benchmark::State& state, const std::string& input) {
  std::uint64_t lines = 0;
  for (auto _ : state) {
    const char* p = input.data();
    const char* const end = p + input.size();
    while (p != end) {
      p = static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p))) + 1;
      benchmark::DoNotOptimize(p);
      ++lines;
    }
  }
  state.counters["per_line"] =
      benchmark::Counter(static_cast<double>(lines), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void parse(benchmark::State& state, const std::string& input) {
  const ProtocolOptions options;
  const Clock clock;
  Batch batch(65536);
  Parser parser(options, clock);
  std::uint64_t queries = 0;
  for (auto _ : state) {
    std::size_t consumed = 0;
    parser.parse(input.data(), input.data() + input.size(), batch, consumed);
    if (consumed != input.size()) state.SkipWithError("the input was not taken");
    queries += batch.size();
    batch.clear();
  }
  state.counters["per_query"] =
      benchmark::Counter(static_cast<double>(queries), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

const std::string value(64, 'v');
const std::string gets_text = repeat([](std::uint32_t i) { return "get " + key_of(i) + "\r\n"; });
const std::string multiget_text = [] {
  std::string input;
  for (std::uint32_t i = 0; i < requests; ++i) {
    input += (i % 50 == 0 ? "get " : " ") + key_of(i) + (i % 50 == 49 ? "\r\n" : "");
  }
  return input;
}();
const std::string sets_text =
    repeat([](std::uint32_t i) { return "set " + key_of(i) + " 0 0 64\r\n" + value + "\r\n"; });
const std::string sets_noreply_text =
    repeat([](std::uint32_t i) { return "set " + key_of(i) + " 5 0 64 noreply\r\n" + value + "\r\n"; });
const std::string deletes_text = repeat([](std::uint32_t i) { return "delete " + key_of(i) + "\r\n"; });
const std::string mg_text = repeat([](std::uint32_t i) { return "mg " + key_of(i) + " v\r\n"; });
const std::string mg_flags_text = repeat([](std::uint32_t i) { return "mg " + key_of(i) + " t f c v Oabc123 q\r\n"; });
const std::string ms_text = repeat([](std::uint32_t i) { return "ms " + key_of(i) + " 64\r\n" + value + "\r\n"; });
const std::string ms_flags_text =
    repeat([](std::uint32_t i) { return "ms " + key_of(i) + " 64 T300 F5 q\r\n" + value + "\r\n"; });

const std::string binary_gets =
    repeat([](std::uint32_t i) { return binary::packet(binary::opcode::get, {.key = key_of(i)}); });
const std::string binary_multiget = repeat([](std::uint32_t i) {
  const bool last = i % 51 == 50;
  return last ? binary::packet(binary::opcode::noop) : binary::packet(binary::opcode::getkq, {.key = key_of(i)});
});
const std::string binary_sets = repeat([](std::uint32_t i) {
  return binary::packet(binary::opcode::set, {.key = key_of(i), .extras = binary::store_extras(), .value = value});
});

BENCHMARK_CAPTURE(floor, get, gets_text);
BENCHMARK_CAPTURE(parse, get, gets_text);
BENCHMARK_CAPTURE(parse, multiget_50, multiget_text);
BENCHMARK_CAPTURE(floor, mg_v, mg_text);
BENCHMARK_CAPTURE(parse, mg_v, mg_text);
BENCHMARK_CAPTURE(parse, mg_six_flags, mg_flags_text);
BENCHMARK_CAPTURE(parse, set_64, sets_text);
BENCHMARK_CAPTURE(parse, set_64_noreply, sets_noreply_text);
BENCHMARK_CAPTURE(parse, ms_64, ms_text);
BENCHMARK_CAPTURE(parse, ms_64_three_flags, ms_flags_text);
BENCHMARK_CAPTURE(parse, delete, deletes_text);
BENCHMARK_CAPTURE(parse, binary_get, binary_gets);
BENCHMARK_CAPTURE(parse, binary_getkq_50_and_noop, binary_multiget);
BENCHMARK_CAPTURE(parse, binary_set_64, binary_sets);

}  // namespace
}  // namespace tandem
