// What a query costs in the lane, of each form and with each set of instructions: ns, and on x86-64 instructions.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "codec/packet_builder.hpp"
#include "engine/lane_harness.hpp"
#include "engine/steps.hpp"
#include "lane/state.hpp"

namespace tandem {
namespace {

namespace binary = codec::binary;

constexpr std::size_t run_queries = 1024, runs = 64;
constexpr std::uint32_t key_count = 20'000;  // of 8 bytes, with values of 8: the inner caches hold them

enum Form : std::int64_t {
  text_get,
  meta_get,
  meta_get_key,
  binary_get,
  text_set,
  meta_set,
  binary_set,
  half_sets,
  beside,  // each set finds a value of another length
  // Rows.
  meta_row,
  touch_row,
  gat_row,
  cas_row,  // of an id that no item has
  add_row,  // of keys that are there
  append_row,
  incr_row,
  delete_row,  // of keys that are not there
  meta_set_row,
  meta_delete_row,
  meta_arithmetic_row,
  binary_add_row,
  binary_delete_row,
  binary_incr_row,
  tenth_rows,  // among get
  form_count
};
constexpr const char* form_names[] = {"get",
                                      "mg v",
                                      "mg v K",
                                      "binary GET",
                                      "set",
                                      "ms",
                                      "binary SET",
                                      "get and set",
                                      "set beside",
                                      "mg k f v",
                                      "touch",
                                      "gat",
                                      "cas",
                                      "add",
                                      "append",
                                      "incr",
                                      "delete",
                                      "ms c T",
                                      "md q",
                                      "ma v",
                                      "binary ADD",
                                      "binary DELETE",
                                      "binary INCREMENT",
                                      "get and mg k f v"};
static_assert(std::size(form_names) == form_count);
constexpr bool is_packet(std::int64_t form) noexcept {
  return form == binary_get || form == binary_set || (form >= binary_add_row && form <= binary_incr_row);
}

constexpr std::string_view stored = "10000000";

std::string key_of(std::uint32_t n) {
  std::string key = std::to_string(n);
  return std::string(8 - key.size(), 'k') + key;
}
std::string set_line(const std::string& key, std::string_view value) {
  return "set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" + std::string(value) + "\r\n";
}
std::string request_of(std::int64_t form, const std::string& key, std::size_t run) {
  switch (form) {
    case text_get:
      return "get " + key + "\r\n";
    case meta_get:
      return "mg " + key + " v\r\n";
    case meta_get_key:
      return "mg " + key + " v K\r\n";
    case binary_get:
      return binary::packet(binary::opcode::get, {.key = key});
    case meta_set:
      return "ms " + key + " 8\r\n" + std::string(stored) + "\r\n";
    case meta_row:
      return "mg " + key + " k f v\r\n";
    case touch_row:
      return "touch " + key + " 0\r\n";
    case gat_row:
      return "gat 0 " + key + "\r\n";
    case cas_row:
      return "cas " + key + " 0 0 8 1\r\n" + std::string(stored) + "\r\n";
    case add_row:
      return "add " + key + " 0 0 8\r\n" + std::string(stored) + "\r\n";
    case append_row:
      return "append " + key + " 0 0 0\r\n\r\n";
    case incr_row:
      return "incr " + key + " 1\r\n";
    case delete_row:
      return "delete n" + key + "\r\n";
    case meta_set_row:
      return "ms " + key + " 8 c T0\r\n" + std::string(stored) + "\r\n";
    case meta_delete_row:
      return "md n" + key + " k\r\n";
    case meta_arithmetic_row:
      return "ma " + key + " v\r\n";
    case binary_add_row: {
      const std::string extras = binary::store_extras(0), text(stored);
      return binary::packet(binary::opcode::add, {.key = key, .extras = extras, .value = text});
    }
    case binary_delete_row:
      return binary::packet(binary::opcode::remove, {.key = "n" + key});
    case binary_incr_row: {
      const std::string extras = binary::arithmetic_extras(1);
      return binary::packet(binary::opcode::increment, {.key = key, .extras = extras});
    }
    case binary_set: {
      const std::string extras = binary::store_extras(0), text(stored);
      return binary::packet(binary::opcode::set, {.key = key, .extras = extras, .value = text});
    }
    case beside:
      return set_line(key, stored.substr(run % 2));
    default:
      return set_line(key, stored);
  }
}

class Fixture {
 public:
  Fixture(std::int64_t form, std::string_view instructions, std::string_view kind)
      : store_({}, engine_of(kind)),
        lane_(store_.context(), store_.options(), instructions),
        parser_(store_.options(), store_.engine().shared().clock) {
    std::string fill = is_packet(form) ? "" : "mn\r\n";
    for (std::uint32_t n = 0; n < key_count; ++n)
      fill += request_of(is_packet(form) ? binary_set : text_set, key_of(n), 0);
    store_.exchange(fill);
    std::mt19937 random(1);
    std::vector<std::uint32_t> order(key_count);
    for (std::uint32_t n = 0; n < key_count; ++n) order[n] = n;
    // For sets beside: all keys in the same order over and over, the values' length changes with each turn.
    std::ranges::shuffle(order, random);
    for (std::size_t r = 0, at = 0; r < runs; ++r) {
      std::string input;
      for (std::size_t i = 0; i < run_queries; ++i, ++at) {
        const std::string key = key_of(order[form == beside ? at % key_count : random() % key_count]);
        std::int64_t one = form;
        if (form == half_sets) one = (random() & 1) != 0 ? text_set : text_get;
        if (form == tenth_rows) one = random() % 10 == 0 ? meta_row : text_get;
        input += request_of(one, key, at / key_count + 1);
      }
      bytes_.push_back(input.size());
      inputs_.push_back(padded(input));
    }
    out_.reserve(std::size_t{1} << 20);
  }

  // Answers the first `part` of a run's bytes.
  std::uint32_t run(std::size_t r, std::size_t bytes) {
    LaneSegment segment{
        .begin = inputs_[r].get(), .end = inputs_[r].get() + bytes, .parser = &parser_, .binary = is_binary(r)};
    out_.clear();
    lane_.run({&segment, 1}, out_, std::size_t{1} << 20);
    return segment.queries + segment.rows;
  }
  std::uint32_t run(std::size_t r) { return run(r, bytes_[r]); }
  // Of so many queries, about.
  std::size_t bytes_of(std::size_t r, std::size_t queries) const { return bytes_[r] / run_queries * queries; }
  bool is_binary(std::size_t r) const { return static_cast<unsigned char>(inputs_[r][0]) == binary::request_magic; }
  std::uint64_t sampled_runs() { return store_.context().tasks.batches_sampled.get(); }

 private:
  static EngineOptions engine_of(std::string_view kind) {
    EngineOptions engine = codec::ReplyHarness::small_engine();
    engine.index_kind = kind;
    return engine;
  }

  codec::ReplyHarness store_;
  Lane lane_;
  Parser parser_;
  std::vector<std::unique_ptr<char[]>> inputs_;
  std::vector<std::size_t> bytes_;
  Output out_;
};

#if defined(__x86_64__)
// Of a query, without what a run costs by itself: the difference of two runs' parts. Runs with timed tasks are
// left out.
double instructions_of(Fixture& fixture) {
  double sum = 0;
  int count = 0;
  for (std::size_t r = 0; count < 2; r += 2) {
    const std::uint64_t sampled = fixture.sampled_runs();
    std::uint32_t few = 0, many = 0;
    const std::uint64_t of_few = steps_of([&] { few = fixture.run(r % runs, fixture.bytes_of(r % runs, 64)); });
    const std::uint64_t of_many =
        steps_of([&] { many = fixture.run((r + 1) % runs, fixture.bytes_of(r % runs, 256)); });
    if (fixture.sampled_runs() != sampled) continue;
    sum += static_cast<double>(of_many - of_few) / (many - few);
    ++count;
  }
  return sum / count;
}
#endif

void BM_lane(benchmark::State& state, const lane::Ops* ops, std::string_view kind) {
  if (!ops->supported()) return state.SkipWithError("not on this processor");
  Fixture fixture(state.range(0), ops->name, kind);
  std::size_t r = 0, queries = 0;
  for (; r < runs; ++r) fixture.run(r);
  for ([[maybe_unused]] const auto turn : state) {
    queries += fixture.run(r++ % runs);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(queries));
  state.counters["ns"] =
      benchmark::Counter(static_cast<double>(queries) / 1e9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
#if defined(__x86_64__)
  state.counters["instructions"] = instructions_of(fixture);
#endif
  state.SetLabel(form_names[state.range(0)]);
}

const int registered = [] {
  for (const lane::Ops* const ops : lane::ops_built()) {
    for (const std::string_view kind : {"cuckoo", "set_associative", "hash_tree", "slab_list"}) {
      benchmark::RegisterBenchmark(("BM_lane/" + std::string(kind) + "/" + std::string(ops->name)).c_str(), BM_lane,
                                   ops, kind)
          ->DenseRange(0, form_count - 1)
          ->Iterations(4000);  // once: instructions are the same each time
    }
  }
  return 0;
}();

}  // namespace
}  // namespace tandem
