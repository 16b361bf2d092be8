// HeteroKV (Yang, Li, Wang, Yin, Wei, Liu: "HeteroKV: A Scalable Line-rate Key-Value Store on Heterogeneous CPU-FPGA
// Platforms").
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/shuffled.hpp"
#include "bench/engine/dispatch.hpp"
#include "bench/engine/store.hpp"
#include "bench/engine/threads.hpp"
#include "bench/papers/paper.hpp"
#include "bench/workload/keys.hpp"
#include "bench/workload/random.hpp"
#include "bench/workload/zipf.hpp"
#include "tandem/store.hpp"

namespace tandem::bench::hetero_kv_paper {
namespace {

// Section IV-A: zipf 0.99, keys and values of 4 bytes; Tandem's benchmarks have keys of at least 8.
struct KeyValueMix {
  std::string_view name, workload;
};
constexpr std::array<KeyValueMix, 2> key_value_mixes = {{{"GET-heavy", "K8-V4-G95-S"}, {"PUT-heavy", "K8-V4-G5-S"}}};

EngineSettings settings_of(const PaperRun& run, const KeyValueMix& mix, std::string_view plan = "cpu") {
  EngineSettings settings = run.engine_settings({std::string(mix.workload)});
  settings.index = "hash_tree";
  settings.plan = plan;
  return settings;
}

// As each thread answers what it receives, and dispatched by leaf (sections III-B and III-C2), without the FPGA.
struct PlanSeries {
  std::string_view plan, name;
};
constexpr std::array<PlanSeries, 2> plan_series = {{{"cpu", "CPU plan"}, {"dispatched", "dispatched by leaf"}}};

std::size_t threads_of(const EngineSettings& settings) {
  return settings.threads.empty() ? allowed_processors().size() : std::ranges::max(settings.threads);
}

// False: as the figure says now, there are too many threads to dispatch between.
bool can_run(PaperRun& run, const PlanSeries& series, std::size_t threads) {
  if (series.plan == "cpu" || threads <= DispatchGroup::members_max) return true;
  run.missing(fmt::format("{}: between at most {} threads", series.name, DispatchGroup::members_max));
  return false;
}

// SCAN-heavy (section IV-C): 95 % scans of 100 items from a key of zipf 0.99, 5 % PUTs of such keys, by the embedded
// store, 64 scans a call. Each scan is one snapshot: its items are read and counted; those of every 16th one are
// compared. Keys are stored in a random order, so that neighbours do not lie together before they are arranged.
class ScanHeavy {
 public:
  static constexpr std::string_view mix = "K8-V4-G95-S";
  static constexpr std::size_t items = 100;

  explicit ScanHeavy(const PaperRun& run)
      : spec_(workload::preset(mix)),
        keys_(keys_that_fill(spec_, run.engine_settings({}).item_bytes)),
        space_(spec_),
        zipf_(keys_, spec_.theta),
        store_(
            {.memory_bytes = keys_ * bytes_a_key + (std::uint64_t{64} << 20), .arrange = false, .preset = "heterokv"}) {
    const std::vector<std::uint64_t> order = shuffled(keys_);
    const std::uint64_t threads = allowed_processors().size();  // of these, each of which has one
    on_each_thread(static_cast<unsigned>(threads), [&](unsigned t) {
      Session session = store_.session();
      const std::uint64_t end = keys_ * (t + 1) / threads;
      for (std::uint64_t i = keys_ * t / threads; i < end; ++i) put(session, order[i]);
    });
  }
  void arrange() { store_.session().arrange(); }
  std::uint64_t keys() const noexcept { return keys_; }
  Turn turn(unsigned threads, double seconds, std::uint64_t seed) {
    constexpr std::uint64_t puts_of_20 = 1, step = 256;
    std::vector<std::unique_ptr<Session>> sessions;
    for (unsigned t = 0; t < threads; ++t) sessions.push_back(std::make_unique<Session>(store_.session()));
    std::vector<workload::Random> random;
    for (unsigned t = 0; t < threads; ++t) random.emplace_back(seed * threads + t);
    return take_turn(threads, seconds, [&](unsigned t) {
      std::array<std::uint64_t, scans_at_once> first;
      std::size_t scans = 0;
      for (std::uint64_t i = 0; i < step; ++i) {
        const std::uint64_t key = scattered(zipf_.draw(random[t]));
        if (random[t].below(20) < puts_of_20) {
          put(*sessions[t], key);
        } else {
          first[scans++] = key;
        }
        if (scans == first.size() || i + 1 == step) scan(*sessions[t], std::span(first).first(std::exchange(scans, 0)));
      }
      return step;
    });
  }

 private:
  static constexpr std::uint64_t bytes_a_key = 128;
  static constexpr std::size_t scans_at_once = 64;

  // Popular keys are not neighbours.
  std::uint64_t scattered(std::uint64_t rank) const noexcept { return rank * 0x9E3779B97F4A7C15u % keys_; }
  void put(Session& session, std::uint64_t key) const {
    char bytes[16];
    char* const value = space_.write_key(key, bytes);
    const char* const end = space_.write_value(key, value);
    const Code code =
        session.set({bytes, static_cast<std::size_t>(value - bytes)}, {value, static_cast<std::size_t>(end - value)});
    if (code != Code::stored) throw std::runtime_error("a PUT was refused: the store is too small");
  }
  void scan(Session& session, std::span<const std::uint64_t> first) const {
    struct Bytes {
      char of[16];
    };
    std::array<Bytes, scans_at_once> begins;
    std::array<std::uint64_t, scans_at_once> next;
    std::vector<RangeScan> scans;
    for (std::size_t i = 0; i < first.size(); ++i) {
      next[i] = first[i];
      const char* const end = space_.write_key(first[i], begins[i].of);
      const std::string_view begin(begins[i].of, static_cast<std::size_t>(end - begins[i].of));
      scans.push_back({.range = {.begin = begin}, .limit = items});
    }
    // A comparison with what was stored takes longer than the scan.
    constexpr std::size_t compared = 16;
    std::uint64_t sum = 0;
    const auto see = [&](std::size_t i, const ScannedItem& item) {
      sum += static_cast<unsigned char>(item.key.back() ^ item.value.front());
      if (i % compared == 0 && (!space_.is_key(next[i], item.key) || !space_.is_value(next[i], item.value)))
        throw std::runtime_error("a wrong item");
      ++next[i];
    };
    session.scan_batch(scans, see);
    seen_.fetch_add(sum, std::memory_order_relaxed);  // so that the items are read
    for (std::size_t i = 0; i < scans.size(); ++i) {
      // Beside writers a snapshot may be shorter, and another one goes on behind it.
      Scanned& scanned = scans[i].scanned;
      for (std::string last; !scanned.done && next[i] - first[i] < items;) {
        last = std::move(scanned.last);
        scans[i].range.go_on_behind(last);
        scanned = session.scan(scans[i].range, items - static_cast<std::size_t>(next[i] - first[i]),
                               [&](const ScannedItem& item) { see(i, item); });
      }
      if (next[i] - first[i] != std::min<std::uint64_t>(items, keys_ - first[i]))
        throw std::runtime_error("an item was missed");
    }
  }

  const workload::Spec spec_;
  const std::uint64_t keys_;
  const workload::KeySpace space_;
  const workload::Zipf zipf_;
  Store store_;
  alignas(cache_line_bytes) mutable std::atomic<std::uint64_t> seen_{0};
};

std::vector<PaperRun::Point> scan_heavy(PaperRun& run, ScanHeavy& store, std::string_view cell, std::string_view x,
                                        const std::vector<unsigned>& threads) {
  const EngineSettings settings = run.engine_settings({});
  std::vector<PaperRun::Point> points;
  for (const unsigned n : threads) {
    run.say(fmt::format("{}, {} threads", cell, n));
    std::vector<double> rates;
    std::vector<std::size_t> runs;
    for (unsigned round = 0; round < settings.rounds; ++round) {
      const Turn turn = store.turn(n, settings.seconds, settings.seed + round);
      rates.push_back(turn.ops_per_s / 1e6);
      runs.push_back(run.run_count());
      run.document()["runs"].push_back({{"kind", "memory"},
                                        {"cell", cell},
                                        {"subject", "embedded scans of 100"},
                                        {"round", round},
                                        {"command", run.command()},
                                        {"seed", settings.seed},
                                        {"settings", {{"threads", n}, {"keys", store.keys()}, {"theta", 0.99}}},
                                        {"result",
                                         {{"seconds", turn.seconds},
                                          {"ops", turn.ops},
                                          {"ops_per_s", turn.ops_per_s},
                                          {"ns_per_op", 1e9 * n / turn.ops_per_s}}}});
    }
    points.push_back({x.empty() ? std::to_string(n) : std::string(x), spread_of(rates), runs});
  }
  return points;
}

// Both states of the store's memory: items where the stores put them, and in the order of their keys.
constexpr std::array<std::string_view, 2> scan_heavy_cells = {"SCAN-heavy", "SCAN-heavy, arranged"};
template <class F>
void in_both_states(PaperRun& run, F measure) {
  run.say("SCAN-heavy: storing the keys");
  ScanHeavy store(run);
  measure(store, scan_heavy_cells[0]);
  run.say("SCAN-heavy: arranging the items");
  store.arrange();
  measure(store, scan_heavy_cells[1]);
}

void figure_4(PaperRun& run) {
  run.axes("requests in a batch", "throughput", "Mops/s", true);
  for (const KeyValueMix& mix : key_value_mixes) {
    for (const PlanSeries& series : plan_series) {
      EngineSettings settings = settings_of(run, mix, series.plan);
      if (!can_run(run, series, threads_of(settings))) continue;
      settings.batches = run.options().quick ? std::vector<std::uint32_t>{1, 1024}
                                             : std::vector<std::uint32_t>{1, 16, 128, 1024, 2048, 4096, 8192, 16384};
      // Smaller batches leave most threads without a request.
      if (series.plan != "cpu") std::erase_if(settings.batches, [](std::uint32_t batch) { return batch < 128; });
      const Json cells = run.engine(settings);
      std::vector<PaperRun::Point> rates, times;
      for (std::size_t i = 0; i < settings.batches.size(); ++i) {
        const std::string x = std::to_string(settings.batches[i]);
        rates.push_back(PaperRun::throughput(cells[i], x));
        std::vector<double> us;
        for (const std::size_t r : rates.back().runs)
          us.push_back(run.document()["runs"][r]["result"]["batch_us"].get<double>());
        times.push_back({x, spread_of(us), rates.back().runs});
      }
      run.measured(fmt::format("{}, {}", series.name, mix.name), std::move(rates));
      run.measured(fmt::format("{}, {}, time", series.name, mix.name), std::move(times), {},
                   {"mean time of a batch", "us"});
    }
  }
  run.not_given("paper: HeteroKV",
                "figure 4, a plot; section IV-C, text: batches of 8K were chosen, with GETs and PUTs below 35 us");
}

void figure_5(PaperRun& run) {
  run.axes("threads", "throughput", "Mops/s", true);
  std::vector<unsigned> threads = run.options().threads;
  if (threads.empty()) {
    const unsigned processors = pinned_threads();
    for (unsigned n = 1; n < processors; n *= 2) threads.push_back(n);
    threads.push_back(processors);
  }
  for (const KeyValueMix& mix : key_value_mixes) {
    EngineSettings settings = settings_of(run, mix);
    settings.threads = threads;
    const Json cells = run.engine(settings);
    std::vector<PaperRun::Point> points;
    for (std::size_t i = 0; i < threads.size(); ++i)
      points.push_back(PaperRun::throughput(cells[i], std::to_string(threads[i])));
    run.measured(fmt::format("CPU plan, {}", mix.name), std::move(points));
  }
  in_both_states(run, [&](ScanHeavy& store, std::string_view cell) {
    run.measured(fmt::format("CPU plan, {}", cell), scan_heavy(run, store, cell, {}, threads));
  });
  run.given("paper: HeteroKV, GET-heavy", "section IV-C, text", {{"20", 430}});
  run.given("paper: HeteroKV, PUT-heavy", "section IV-C, text", {{"20", 315}});
  run.given("paper: HeteroKV, SCAN-heavy", "section IV-C, text", {{"20", 15.3}});
  run.not_given("paper: other thread counts", "figure 5, a plot");
}

void table_2(PaperRun& run) {
  run.axes("workload", "throughput", "Mops/s");
  std::array<std::vector<PaperRun::Point>, plan_series.size()> of_plan;
  for (const KeyValueMix& mix : key_value_mixes) {
    for (std::size_t i = 0; i < plan_series.size(); ++i) {
      const EngineSettings settings = settings_of(run, mix, plan_series[i].plan);
      if (!can_run(run, plan_series[i], threads_of(settings))) continue;
      const Json cells = run.engine(settings);
      of_plan[i].push_back(PaperRun::throughput(cells[0], std::string(mix.name)));
    }
  }
  std::vector<unsigned> threads = run.options().threads;
  if (threads.empty()) threads = {static_cast<unsigned>(allowed_processors().size())};
  threads.resize(1);
  in_both_states(run, [&](ScanHeavy& store, std::string_view cell) {
    of_plan[0].push_back(scan_heavy(run, store, cell, cell, threads).front());
  });
  for (std::size_t i = 0; i < plan_series.size(); ++i) {
    if (!of_plan[i].empty()) run.measured(plan_series[i].name, std::move(of_plan[i]));
  }
  run.given("paper: HeteroKV (FPGA, 20 cores)", "table II",
            {{"GET-heavy", 430}, {"PUT-heavy", 315}, {"SCAN-heavy", 15.3}});
  run.given("paper: KV-Direct (FPGA)", "table II", {{"GET-heavy", 180}, {"PUT-heavy", 114}, {"SCAN-heavy", 1.8}});
  run.given("paper: PALM (12 cores)", "table II", {{"GET-heavy", 170}, {"PUT-heavy", 130}, {"SCAN-heavy", 1.7}});
  run.given("paper: MICA (24 cores)", "table II", {{"GET-heavy", 137}, {"PUT-heavy", 135}, {"SCAN-heavy", 1.4}});
  run.given("paper: HiKV (16 cores)", "table II", {{"GET-heavy", 33}, {"PUT-heavy", 14}, {"SCAN-heavy", 1.5}});
}

constexpr std::string_view other_parts =
    "the FPGA's dispatcher: needs an FPGA (its cycles are counted in rtl/), processors dispatch here; "
    "keys have 8 bytes here, 4 in the paper";
constexpr std::string_view batches_only =
    "SCAN-heavy: scans are calls of their own here; the FPGA's dispatcher: needs an FPGA, processors dispatch here; "
    "keys have 8 bytes here, 4 in the paper";

constexpr std::array experiments = {
    Experiment{"table-1", "resources of the FPGA", "section IV-B",
               "needs an FPGA; `make rtl-area` estimates cells of another family"},
    Experiment{"table-2", "comparison with other stores", "section IV-C", other_parts, table_2},
    Experiment{"4", "throughput and time of a batch by batch size", "section IV-C", batches_only, figure_4},
    Experiment{"5", "throughput by threads", "section IV-C", other_parts, figure_5},
};

}  // namespace
}  // namespace tandem::bench::hetero_kv_paper

namespace tandem::bench {

const Paper& hetero_kv() {
  static const Paper paper = {"heterokv", "HeteroKV", "Xeon Gold 6138 (20 cores), Stratix 10 FPGA over PCIe 3.0 x16",
                              hetero_kv_paper::experiments};
  return paper;
}

}  // namespace tandem::bench
