// What a call of the embedded store costs, by the number of its requests: ns a request, and on x86-64 instructions a
// call. Keys of 8 bytes, values of 8, hits; the inner caches hold them.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/steps.hpp"
#include "tandem/store.hpp"

namespace tandem {
namespace {

constexpr std::size_t key_count = 20'000, drawn = 1 << 16, requests_max = 64;

enum Form : std::int64_t { get, get_value, get_batch, set, set_batch, incr, form_count };
constexpr std::array<const char*, form_count> form_names = {"get", "get into a Value", "get_batch",
                                                            "set", "set_batch",        "increment"};

class Fixture {
 public:
  Fixture() : store_({.memory_bytes = std::uint64_t{64} << 20, .hash_seed = 5}), session_(store_.session()) {
    for (std::size_t n = 0; n < key_count; ++n) {
      std::string key = std::to_string(n);
      keys_.push_back(std::string(8 - key.size(), 'k') + key);
      session_.set(keys_.back(), "10000000");
    }
    std::mt19937 random(1);
    for (std::size_t i = 0; i < drawn; ++i) {
      const std::string_view key = keys_[random() % key_count];
      drawn_.push_back(key);
      sets_.push_back({.action = Action::set, .key = key, .value = "10000001"});
    }
  }

  // Makes call number `call` of so many requests.
  void call(std::int64_t form, std::size_t requests, std::size_t call) {
    const std::size_t at = call * requests % (drawn - requests_max);
    switch (form) {
      case get:
        return benchmark::DoNotOptimize(session_.get(drawn_[at]));
      case get_value:
        return benchmark::DoNotOptimize(session_.get(drawn_[at], value_));
      case get_batch:
        return session_.get_batch(std::span(drawn_).subspan(at, requests),
                                  [](std::size_t, const Reply& r) { benchmark::DoNotOptimize(r.value.data()); });
      case set:
        return benchmark::DoNotOptimize(session_.set(drawn_[at], "10000002"));
      case set_batch:
        return session_.execute(std::span(sets_).subspan(at, requests),
                                [](std::size_t, const Reply& r) { benchmark::DoNotOptimize(r.cas); });
      default:
        return benchmark::DoNotOptimize(session_.increment(drawn_[at], 1));
    }
  }

 private:
  Store store_;
  Session session_;
  std::vector<std::string> keys_;
  std::vector<std::string_view> drawn_;
  std::vector<Request> sets_;
  Value value_;
};

void BM_call(benchmark::State& state) {
  Fixture fixture;
  const auto form = state.range(0);
  const auto requests = static_cast<std::size_t>(state.range(1));
  std::size_t n = 0;
  for (; n < drawn; ++n) fixture.call(form, requests, n);
  for ([[maybe_unused]] const auto turn : state) fixture.call(form, requests, n++);
  const double done = static_cast<double>(state.iterations()) * static_cast<double>(requests);
  state.SetItemsProcessed(static_cast<std::int64_t>(done));
  state.counters["ns"] = benchmark::Counter(done / 1e9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
#if defined(__x86_64__)
  // The median: sometimes the index asks to grow.
  std::array<std::uint64_t, 101> steps{};
  for (std::uint64_t& of_call : steps) of_call = steps_of([&] { fixture.call(form, requests, n++); });
  std::ranges::nth_element(steps, steps.begin() + steps.size() / 2);
  state.counters["instructions"] = static_cast<double>(steps[steps.size() / 2]);
#endif
  state.SetLabel(form_names[static_cast<std::size_t>(form)]);
}
BENCHMARK(BM_call)
    ->ArgsProduct({{get, get_value, set, incr}, {1}})
    ->ArgsProduct({{get_batch, set_batch}, {1, 2, 3, 4, 7, 8, 16, 64}})
    ->Iterations(100'000);  // once: instructions are the same each time

}  // namespace
}  // namespace tandem
