#include "bench/engine/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <stdexcept>

#include "bench/engine/cell.hpp"
#include "bench/engine/dispatch.hpp"
#include "bench/engine/plans.hpp"
#include "bench/engine/store.hpp"
#include "bench/workload/spec.hpp"
#include "engine/index_kinds.hpp"
#include "net/limits.hpp"

namespace tandem::bench {
namespace {

constexpr std::uint32_t batch_limit = 16 * 1024;

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

bool wants(const EngineSettings& settings, std::string_view subject) {
  return settings.subjects.empty() || std::ranges::find(settings.subjects, subject) != settings.subjects.end();
}

std::vector<unsigned> threads_of(const EngineSettings& settings) {
  if (!settings.plans.empty()) {
    std::vector<unsigned> threads;
    for (const PlanChoice& choice : settings.plans) threads.push_back(choice.threads);
    return threads;
  }
  if (!settings.threads.empty()) return settings.threads;
  return {pinned_threads()};
}

// The batch sizes of the cells with this cycle.
std::vector<std::uint32_t> batches_of(const EngineSettings& settings, unsigned cycle_us) {
  if (settings.batches_per_us.empty()) return settings.batches;
  std::vector<std::uint32_t> batches;
  for (const std::uint32_t requests : settings.batches_per_us) batches.push_back(requests * cycle_us);
  return batches;
}

std::vector<workload::Spec> specs_of(const EngineSettings& settings) {
  std::vector<workload::Spec> specs;
  for (const std::string& name : settings.workloads) {
    workload::Spec spec = workload::preset(name);
    spec.keys =
        settings.keys != 0 ? settings.keys : keys_that_fill(spec, settings.item_bytes / (settings.alternates ? 2 : 1));
    spec.seed = settings.seed;
    if (spec.popularity == workload::Popularity::zipf) {
      spec.shift_ops = settings.shift_ops;
      spec.shift_keys = settings.shift_keys;
    }
    if (settings.theta && spec.popularity != workload::Popularity::uniform) spec.theta = *settings.theta;
    specs.push_back(spec);
  }
  return specs;
}

std::string plans_text(const std::vector<PlanChoice>& plans) {
  std::string text;
  for (const PlanChoice& choice : plans) text.append(text.empty() ? "" : ",").append(choice.text());
  return text.find(' ') == std::string::npos ? text : fmt::format("'{}'", text);
}

void check_operations(const workload::Spec& spec) {
  for (const workload::OpKind kind : {workload::OpKind::scan, workload::OpKind::remove, workload::OpKind::touch}) {
    if (spec.mix[kind] <= 0) continue;
    refuse(
        fmt::format("the workload {} has {} operations; the in-process mode runs gets, sets, inserts and "
                    "read-modify-writes",
                    spec.name, to_string(kind)));
  }
}

// Two workloads with the same keys must agree about the values.
void check_together(const workload::Spec& a, const workload::Spec& b) {
  const auto same = [](const workload::Sizes& x, const workload::Sizes& y) {
    return x.model == y.model && x.low == y.low && x.high == y.high;
  };
  const bool fixed = a.key_bytes.low == a.key_bytes.high && b.key_bytes.low == b.key_bytes.high;
  if (same(a.key_bytes, b.key_bytes) && same(a.value_bytes, b.value_bytes)) return;
  if (fixed && a.key_bytes.low != b.key_bytes.low) return;
  refuse(fmt::format("{} and {} cannot alternate: they give the same keys other values", a.name, b.name));
}

void check_load(const EngineSettings& settings, const std::vector<workload::Spec>& specs) {
  const bool is_wire_alone = settings.subjects == std::vector<std::string>{"wire"} && !settings.getk;
  if (!(settings.miss_share >= 0 && settings.miss_share <= 1)) refuse("the share of misses must be 0 to 1");
  if (settings.miss_share != 0) {
    if (!is_wire_alone) refuse("misses are for the subject \"wire\" alone: --subjects wire, without --getk");
    if (std::ranges::any_of(specs, [](const workload::Spec& s) { return s.mix[workload::OpKind::insert] > 0; }))
      refuse("a workload with inserts has no keys of which is known that they are never stored");
  }
  if (settings.rates.empty()) refuse("no rate was named");
  if (settings.rates == EngineSettings{}.rates) return;
  if (!is_wire_alone) refuse("a rate is for the subject \"wire\" alone: --subjects wire, without --getk");
  if (settings.alternates) refuse("workloads that alternate have no rate");
  constexpr double rate_max = 1e12, seconds_between_batches = 1;
  std::uint32_t batch_max = 0;
  for (const unsigned cycle_us : settings.cycles_us)
    batch_max = std::max(batch_max, std::ranges::max(batches_of(settings, cycle_us)));
  const double rate_min =
      static_cast<double>(batch_max) * std::ranges::max(threads_of(settings)) / seconds_between_batches;
  for (const double rate : settings.rates) {
    if (rate == 0) continue;
    if (!(rate >= rate_min && rate <= rate_max))
      refuse(fmt::format("a rate of {:g}: at least {:g} operations a second, for a batch of each thread a second", rate,
                         rate_min));
  }
}

struct Cells {
  const EngineSettings& settings;
  Json& document;
  const EngineHooks& hooks;
  std::unique_ptr<LoadedStore> store;
  unsigned loaders;

  void load(const std::vector<workload::Spec>& specs) {
    if (store != nullptr && store->holds(specs)) return;
    store.reset();  // frees its memory before the next one is made
    if (hooks.progress) hooks.progress(fmt::format("{}: storing {} keys", specs.front().name, specs.front().keys));
    store = std::make_unique<LoadedStore>(specs, settings, engine_plan(settings.plan, settings.simulate), loaders);
    for (const LoadedStore::Load& l : store->loads()) {
      EngineSettings one = settings;
      one.workloads = {specs.front().name};
      document["runs"].push_back(load_run(one, store->keys()[l.keys]->spec, l, loaders));
    }
    if (hooks.loaded) hooks.loaded(store->engine());
  }
};

}  // namespace

const std::vector<std::string>& dido_workloads() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const char* size : {"K8", "K16", "K32", "K128"}) {
      for (const char* share : {"G100", "G95", "G50"}) {
        for (const char* popularity : {"U", "S"}) all.push_back(fmt::format("{}-{}-{}", size, share, popularity));
      }
    }
    return all;
  }();
  return names;
}

const std::vector<std::string>& engine_subjects() {
  static const std::vector<std::string> names = {"wire", "embedded", "two-lines", "copy"};
  return names;
}

const std::vector<std::string>& engine_indexes() {
  static const std::vector<std::string> names = {"cuckoo", "ordered", "set_associative", "hash_tree", "slab_list"};
  return names;
}

namespace {

void check_devices(const EngineSettings& settings) {
  const EnginePlan chosen = engine_plan(settings.plan);
  if (settings.devices == 0 || settings.devices > shards_max || !std::has_single_bit(settings.devices))
    refuse(fmt::format("{} devices: 1, 2, 4 or 8 share the index", settings.devices));
  if (!chosen.uses_devices()) {
    if (settings.devices != 1 || settings.steal || settings.simulate)
      refuse(fmt::format("plan {} has no devices", settings.plan));
    return;
  }
  const std::string kind = settings.index == "ordered" ? "cuckoo" : settings.index;
  const std::uint32_t devices_max = index_kind_named(kind).devices_max;
  if (devices_max == 0) refuse(fmt::format("devices cannot follow the index {}", settings.index));
  if (begins_with_input(chosen.plan) && chosen.plan != plan_located_index && settings.devices != 1)
    refuse(fmt::format("plan {}: one device begins with the input", settings.plan));
  if (chosen.plan == plan_located && kind != "cuckoo")
    refuse(fmt::format("plan {}: keys are located in the cuckoo index", settings.plan));
  if (chosen.answers_hot && settings.protocol != WireProtocol::udp && settings.protocol != WireProtocol::raw)
    refuse(fmt::format("plan {}: streams of so many requests go to a device whole: --protocol udp, or raw",
                       settings.plan));
  if (settings.devices > devices_max)
    refuse(fmt::format("the index {} has {} device at most", settings.index, devices_max));
  if (chosen.placement == tandem::Placement::on_device && settings.index != "cuckoo")
    refuse(fmt::format("the index {} cannot be in device memory alone", settings.index));
}

void check_dispatch(const EngineSettings& settings) {
  if (!engine_plan(settings.plan).dispatches) return;
  if (settings.index != "hash_tree" || settings.protocol != WireProtocol::text)
    refuse(fmt::format("plan {}: the leaves of index hash_tree, and the text protocol", settings.plan));
  if (std::ranges::max(threads_of(settings)) > DispatchGroup::members_max)
    refuse(fmt::format("plan {}: at most {} threads", settings.plan, DispatchGroup::members_max));
}

void check_cycles(const EngineSettings& settings) {
  constexpr unsigned cycle_us_max = 5'000;
  if (settings.cycles_us.empty()) refuse("no cycle was named");
  for (const unsigned cycle_us : settings.cycles_us) {
    if (cycle_us != 0 && !engine_plan(settings.plan).uses_devices())
      refuse(fmt::format("plan {} has no device whose launches had a cycle", settings.plan));
    if (cycle_us > cycle_us_max) refuse(fmt::format("a cycle has at most {} us", cycle_us_max));
  }
}

void check_workloads(const EngineSettings& settings, const std::vector<workload::Spec>& specs) {
  for (const workload::Spec& spec : specs) {
    check_operations(spec);
    workload::validate(spec);
    if (engine_plan(settings.plan).dispatches && spec.value_bytes.most() > copied_value_bytes_max)
      refuse(fmt::format("plan {}: values of at most {} bytes", settings.plan, copied_value_bytes_max));
    if (settings.protocol == WireProtocol::raw && spec.value_bytes.most() > raw_value_bytes_max)
      refuse(fmt::format("a value of {} bytes and its headers are no frame of 1,500 bytes", spec.value_bytes.most()));
  }
  if (!settings.alternates) return;
  if (specs.size() != 2) refuse("two workloads alternate, not " + std::to_string(specs.size()));
  check_together(specs[0], specs[1]);
  if (settings.ops != 0) refuse("workloads alternate by time: a number of operations does not say how long");
  if (!(settings.alternate_every_s >= 1e-5 && settings.alternate_every_s <= 60))
    refuse("workloads alternate every 10 us to 60 s");
}

void check_batches(const EngineSettings& settings) {
  if (settings.batches.empty()) refuse("no batch size was named");
  for (const unsigned cycle_us : settings.cycles_us) {
    if (cycle_us == 0 && !settings.batches_per_us.empty()) refuse("batches by time need a cycle");
    if (std::ranges::any_of(settings.batches_per_us, [](std::uint32_t requests) { return requests > batch_limit; }))
      refuse(fmt::format("requests for a microsecond: 1 to {}", batch_limit));
    for (const std::uint32_t batch : batches_of(settings, cycle_us)) {
      if (batch == 0 || batch > batch_limit) refuse(fmt::format("batch sizes: 1 to {}", batch_limit));
    }
  }
}

}  // namespace

void validate(const EngineSettings& settings) {
  if (settings.workloads.empty()) refuse("no workload was named");
  if (!settings.plans.empty()) {
    validate_plans(settings);
    for (const PlanChoice& choice : settings.plans) validate(settings_of(settings, choice));
    return;
  }
  if (std::ranges::find(engine_indexes(), settings.index) == engine_indexes().end())
    refuse(fmt::format("unknown index \"{}\"; there are: {}", settings.index, fmt::join(engine_indexes(), ", ")));
  check_devices(settings);
  check_dispatch(settings);
  if (settings.getk && settings.protocol != WireProtocol::meta) refuse("getk is a flag of the meta protocol");
  check_cycles(settings);
  const std::vector<workload::Spec> specs = specs_of(settings);
  check_workloads(settings, specs);
  for (const std::string& subject : settings.subjects) {
    if (std::ranges::find(engine_subjects(), subject) == engine_subjects().end())
      refuse(fmt::format("unknown subject \"{}\"; there are: {}", subject, fmt::join(engine_subjects(), ", ")));
  }
  if (!wants(settings, "wire")) refuse("the subject \"wire\" cannot be left out: the others are compared with it");
  for (const unsigned threads : settings.threads) {
    if (threads == 0 || threads > pinned_threads_max) refuse(fmt::format("threads: 1 to {}", pinned_threads_max));
  }
  check_batches(settings);
  check_load(settings, specs);
  if (settings.rounds == 0) refuse("rounds: at least 1");
  if (settings.tape.ops == 0) refuse("requests: at least 1");
  if (!(settings.seconds > 0 && settings.seconds <= 3600)) refuse("seconds of a turn: above 0, at most 3600");
}

std::string command_line(const EngineSettings& settings) {
  std::string line = "tandem bench engine";
  const auto add = [&line](std::string_view option, const std::string& value) {
    line.append(" --").append(option).append(" ").append(value);
  };
  add(settings.alternates ? "alternate" : "workloads", fmt::format("{}", fmt::join(settings.workloads, ",")));
  if (settings.alternates) add("every", fmt::format("{}us", settings.alternate_every_s * 1e6));
  if (settings.theta) add("theta", fmt::format("{}", *settings.theta));
  if (settings.shift_ops != 0) {
    add("shift-ops", std::to_string(settings.shift_ops));
    add("shift-keys", std::to_string(settings.shift_keys));
  }
  if (settings.keys != 0) {
    add("keys", std::to_string(settings.keys));
  } else {
    add("items", fmt::format("{}B", settings.item_bytes));
  }
  if (settings.plans.empty()) add("threads", fmt::format("{}", fmt::join(threads_of(settings), ",")));
  if (!settings.plans.empty()) {
    add("plans", plans_text(settings.plans));
  } else if (settings.batches_per_us.empty()) {
    add("batch", fmt::format("{}", fmt::join(settings.batches, ",")));
  } else {
    add("batch-per-us", fmt::format("{}", fmt::join(settings.batches_per_us, ",")));
  }
  add("protocol", std::string(to_string(settings.protocol)));
  if (settings.in_flight != 0) add("in-flight", std::to_string(settings.in_flight));
  add("sink", std::string(to_string(settings.sink)));
  if (settings.getk) line.append(" --getk");
  if (settings.index != EngineSettings{}.index) add("index", settings.index);
  if (settings.plans.empty())
    add("plan", settings.plan.find(' ') == std::string::npos ? settings.plan : fmt::format("'{}'", settings.plan));
  if (settings.simulate) line.append(" --simulate");
  if (settings.devices != 1) add("devices", std::to_string(settings.devices));
  if (settings.steal) line.append(" --steal");
  if (settings.cycles_us != EngineSettings{}.cycles_us)
    add("cycle", fmt::format("{}", fmt::join(settings.cycles_us, ",")));
  if (settings.miss_share != 0) add("misses", fmt::format("{:g}", settings.miss_share));
  if (settings.rates != EngineSettings{}.rates) add("rate", fmt::format("{}", fmt::join(settings.rates, ",")));
  if (!settings.subjects.empty()) add("subjects", fmt::format("{}", fmt::join(settings.subjects, ",")));
  add("rounds", std::to_string(settings.rounds));
  if (settings.ops != 0) {
    add("ops", std::to_string(settings.ops));
  } else {
    add("seconds", fmt::format("{}", settings.seconds));
  }
  if (settings.from_start) line.append(" --from-start");
  if (settings.timeline_every_s != 0) add("timeline", fmt::format("{:g}ms", settings.timeline_every_s * 1e3));
  if (settings.tape.ops != Tape::Limits{}.ops) add("requests", std::to_string(settings.tape.ops));
  add("seed", std::to_string(settings.seed));
  if (!settings.memory_file.empty()) add("memory-file", settings.memory_file);
  return line;
}

Json run_engine(const EngineSettings& settings, Json& document, const EngineHooks& hooks) {
  validate(settings);
  const std::vector<workload::Spec> specs = specs_of(settings);
  const std::vector<unsigned> threads = threads_of(settings);
  if (const std::size_t processors = allowed_processors().size(); std::ranges::max(threads) > processors)
    document["notes"].push_back(
        fmt::format("{} threads on {} processors: they share them", std::ranges::max(threads), processors));
  Json summary = Json::array();
  if (!settings.plans.empty()) {
    PlanStores stores(settings, std::ranges::max(threads), document, hooks);
    for (const workload::Spec& spec : specs) {
      summary.push_back(stores.run(spec));
      if (hooks.cell) hooks.cell(summary.back());
    }
    return summary;
  }
  Cells cells{settings, document, hooks, nullptr, std::ranges::max(threads)};
  const std::size_t step = settings.alternates ? specs.size() : 1;
  for (std::size_t first = 0; first < specs.size(); first += step) {
    const std::vector<workload::Spec> together(specs.begin() + static_cast<std::ptrdiff_t>(first),
                                               specs.begin() + static_cast<std::ptrdiff_t>(first + step));
    cells.load(together);
    for (const unsigned t : threads) {
      for (const unsigned cycle_us : settings.cycles_us) {
        for (const std::uint32_t batch : batches_of(settings, cycle_us)) {
          for (const double rate : settings.rates) {
            EngineSettings one = settings;
            one.workloads.clear();
            for (const workload::Spec& spec : together) one.workloads.push_back(spec.name);
            one.threads = {t};
            one.batches = {batch};
            one.batches_per_us.clear();
            one.cycles_us = {cycle_us};
            one.rates = {rate};
            cells.store->engine().set_cycle(std::chrono::microseconds(cycle_us));
            summary.push_back(run_cell(one, together, *cells.store, document, hooks));
            if (hooks.cell) hooks.cell(summary.back());
          }
        }
      }
    }
  }
  return summary;
}

std::string errors_of(const Json& document) {
  std::uint64_t wrong_values = 0, wrong_replies = 0, misses = 0;
  std::string first;
  for (const Json& run : document.at("runs")) {
    if (!run.contains("result") || !run["result"].contains("errors")) continue;
    const Json& errors = run["result"]["errors"];
    wrong_values += errors.value("wrong_values", std::uint64_t{0});
    wrong_replies += errors.value("wrong_replies", std::uint64_t{0});
    misses += errors.value("unexpected_misses", std::uint64_t{0});
    const std::string text = errors.value("first", std::string());
    if (first.empty() && !text.empty()) first = fmt::format("{}: {}", run.value("cell", std::string()), text);
  }
  if (wrong_values + wrong_replies + misses == 0) return {};
  return fmt::format("{} wrong values, {} wrong replies, {} misses of keys that are stored; the first: {}",
                     wrong_values, wrong_replies, misses, first);
}

}  // namespace tandem::bench
