#include "bench/engine/plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "bench/engine/cell.hpp"
#include "bench/engine/plan_costs.hpp"
#include "bench/engine/run_json.hpp"
#include "bench/engine/subject.hpp"
#include "net/limits.hpp"

namespace tandem::bench {
namespace {

[[noreturn]] void refuse_plans(const std::string& why) { throw std::invalid_argument(why); }

EnginePlan plan_of(const EngineSettings& settings, const PlanChoice& choice) {
  return choice.is_automatic() ? automatic_plan(settings.plans, settings.simulate)
                               : engine_plan(choice.plan, settings.simulate);
}

// What its store needs.
std::string level_of(const EnginePlan& plan) {
  if (plan.is_chosen) return plan.name;  // its replica rests by what its own turns write
  if (plan.answers_hot) return plan.name + (plan.is_simulated ? ", simulated" : "");
  return fmt::format("{}{}", placement_names[static_cast<std::size_t>(plan.placement)],
                     plan.is_simulated ? ", simulated" : "");
}

struct Contender {
  PlanChoice choice;
  std::string name;
  EngineSettings settings;
  CellTapes tapes;
  std::unique_ptr<WireSubject> subject;
  Engine* engine = nullptr;                 // of the automatic one
  std::map<std::string, unsigned> chose{};  // its plans at the ends of turns
  std::uint64_t verified = 0;               // replies of one verification
  ReplyErrors first_errors;
  std::vector<double> ops_per_s;
  std::vector<std::size_t> runs;
  double item_bytes = 0;        // the mean
  std::vector<Demand> demands;  // of each turn
  LoadCounts counts;            // of all of them
};

double median_of(const Contender& c) { return spread_of(c.ops_per_s).median; }

// The constant plan with the largest median. REQUIRES: there is one.
const Contender& best_constant(const std::vector<Contender>& all) {
  const Contender* best = nullptr;
  for (const Contender& c : all) {
    if (!c.choice.is_automatic() && (best == nullptr || median_of(c) > median_of(*best))) best = &c;
  }
  return *best;
}

std::string cell_name(const EngineSettings& settings) { return fmt::format("{} plans", workload_names(settings)); }

// What `stats planner` would say, and why the device may not have been there.
Json planner_json(const SteeringStats& s, const DeviceStats& device) {
  Json json = Json::object();
  s.for_each([&json](std::string_view name, const auto& value) { json[std::string(name)] = value; });
  json.update({{"batch_min", device.queries_min},
               {"round_trip_us", device.costs.device_ns / 1000},
               {"uploads", device.replica.uploads},
               {"overflows", device.replica.overflows},
               {"returns_warm", device.replica.returns_warm},
               {"returns_whole", device.replica.returns_whole}});
  return json;
}

// Of all workers, but for a probe.
std::string chosen_plan(const tandem::PlanChoice& choice) {
  return choice.level == UpkeepLevel::none ? "host alone" : std::string(SteeringStats::name_of(choice.even));
}

// What it measures is told apart from what it has to find out first: returns of a replica, and a trial of what it does
// not know.
void let_choose(Contender& c) {
  constexpr unsigned turns = 20;
  for (unsigned i = 0; i < turns; ++i) static_cast<void>(c.subject->take({c.settings.seconds, c.settings.ops, 0, 0}));
}

void take_turn_of(Contender& c, const workload::Spec& spec, unsigned round, unsigned rounds, Json& document) {
  Measured m = c.subject->take({c.settings.seconds, c.settings.ops, 0, 0});
  const bool first = round == 0, last = round + 1 == rounds;
  if (first) m.errors.add(c.first_errors);
  if (last) m.errors.add(c.subject->verify());
  Json result = turn_json(m.turn);
  add_counts(m, result);
  add_wire(m, c.tapes.threads(), {}, result);
  add_hot(m, 0, result);
  if (c.engine != nullptr) {
    const SteeringStats stats = c.engine->steering()->stats();
    ++c.chose[chosen_plan(stats.choice)];
    result["planner"] = planner_json(stats, c.engine->device_stats().front());
  }
  result["errors"] = errors_json(m.errors);
  if (first || last) result["verified"] = c.verified * (first && last ? 2 : 1);
  c.demands.push_back(demand_of(m, c.tapes.threads(), c.item_bytes));
  c.counts.gets += m.gets;
  c.counts.sets += m.sets;
  c.counts.bytes += m.request_bytes + m.reply_bytes;
  c.ops_per_s.push_back(m.turn.ops_per_s);
  c.runs.push_back(document["runs"].size());
  EngineSettings shown = c.settings;
  shown.batches = {c.tapes.batch_queries};
  document["runs"].push_back({{"kind", "engine"},
                              {"cell", cell_name(c.settings)},
                              {"subject", c.name},
                              {"round", round},
                              {"command", command_line(c.settings)},
                              {"seed", c.settings.seed},
                              {"settings", settings_json(shown, {spec}, true)},
                              {"result", std::move(result)}});
}

Json summary_of(const std::vector<Contender>& all, Json& document) {
  const std::string cell = cell_name(all.front().settings);
  const Contender& best = best_constant(all);
  Json summary{{"cell", cell},
               {"workload", workload_names(all.front().settings)},
               {"best", best.name},
               {"subjects", Json::array()},
               {"comparisons", Json::array()}};
  for (const Contender& c : all) {
    summary["subjects"].push_back({{"subject", c.name}, {"ops_per_s", spread_json(c.ops_per_s)}, {"runs", c.runs}});
    if (c.engine != nullptr) summary["subjects"].back()["chose"] = c.chose;
    if (&c == &best) continue;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < c.ops_per_s.size(); ++i) ratios.push_back(c.ops_per_s[i] / best.ops_per_s[i]);
    Json comparison{{"cell", cell},      {"metric", "ops_per_s"},        {"subject", c.name},
                    {"base", best.name}, {"ratio", spread_json(ratios)}, {"rounds", ratios.size()},
                    {"better", "more"}};
    summary["comparisons"].push_back(comparison);
    document["comparisons"].push_back(std::move(comparison));
  }
  return summary;
}

// Of each resource the median of the turns.
Demand median_demand(const Contender& c) {
  Demand medians{};
  for (std::size_t r = 0; r < resource_count; ++r) {
    std::vector<double> values;
    for (const Demand& d : c.demands) values.push_back(d[r]);
    medians[r] = spread_of(values).median;
  }
  return medians;
}

// A sample of the first thread's keys, as a profiler of its own would take it.
std::vector<std::uint32_t> sample_of(const CellTapes& tapes) {
  constexpr std::size_t sampled_max = 16 * 1024;
  constexpr std::uint64_t odd = 0x9e37'79b9'7f4a'7c15;
  std::vector<std::uint32_t> sampled;
  for (const WireOp op : tapes.of_thread.front().front()->ops()) {
    if (sampled.size() == sampled_max) break;
    sampled.push_back(static_cast<std::uint32_t>((op.key() * odd) >> 32));
  }
  return sampled;
}

// Of the first one's turns.
Profile profile_of_first(const std::vector<Contender>& all, const Engine& engine) {
  std::vector<std::uint32_t> sampled = sample_of(all.front().tapes);
  const EngineStats stats = engine.stats();
  return profile_of({}, all.front().counts, sampled, static_cast<double>(stats.items),
                    static_cast<double>(stats.item_bytes + stats.index_bytes));
}

}  // namespace

void validate_plans(const EngineSettings& settings) {
  const EngineSettings usual;
  if (!settings.subjects.empty() && settings.subjects != std::vector<std::string>{"wire"})
    refuse_plans("plans take turns with each other: --subjects wire");
  if (settings.plan != usual.plan || !settings.threads.empty() || settings.batches != usual.batches)
    refuse_plans("each of the plans has its own threads and batches");
  if (settings.getk || settings.alternates || settings.rates != usual.rates || settings.cycles_us != usual.cycles_us ||
      !settings.batches_per_us.empty() || !settings.memory_file.empty())
    refuse_plans("plans that take turns have no getk, alternation, rate, cycle or memory file");
  std::set<std::string> names;
  bool has_constant = false, uses_devices = false;
  for (const PlanChoice& choice : settings.plans) {
    has_constant |= !choice.is_automatic();
    uses_devices |= choice.is_automatic() || engine_plan(choice.plan).uses_devices();
    if (!names.insert(choice.is_automatic() ? choice.plan : choice.text()).second)
      refuse_plans(fmt::format("{} is there twice", choice.text()));
  }
  if (!has_constant) refuse_plans("auto is compared with constant plans: name one");
  if ((settings.simulate || settings.steal || settings.devices != 1) && !uses_devices)
    refuse_plans("none of the plans has devices");
}

EngineSettings settings_of(const EngineSettings& settings, const PlanChoice& choice) {
  EngineSettings one = settings;
  one.plans.clear();
  one.subjects = {"wire"};
  one.threads = {choice.threads};
  one.batches = {choice.batch};
  if (choice.is_automatic()) {
    std::uint32_t batch = choice.batch;
    for (const PlanChoice& other : settings.plans) batch = std::max(batch, choice.batch != 0 ? 0 : other.batch);
    if (choice.batch == 0) batch = std::min(batch, net::device_batch_queries);  // a server's flights have no more
    one.batches = {std::min(net::batch_queries, batch), batch};
    one.plan = "cpu";  // a part of it, so that the rest can be checked
  } else {
    one.plan = choice.plan;
  }
  if (choice.is_automatic() || !engine_plan(choice.plan).uses_devices()) {
    one.simulate = one.steal = false;
    one.devices = 1;
  }
  return one;
}

LoadedStore& PlanStores::store_for(const EnginePlan& plan, const workload::Spec& spec) {
  std::unique_ptr<LoadedStore>& store = stores_[level_of(plan)];
  if (store != nullptr && store->holds({spec})) return *store;
  store.reset();  // frees its memory before the next one is made
  if (hooks_.progress) hooks_.progress(fmt::format("{}: storing {} keys ({})", spec.name, spec.keys, level_of(plan)));
  store = std::make_unique<LoadedStore>(std::vector{spec}, settings_, plan, loaders_);
  if (hooks_.loaded) hooks_.loaded(store->engine());
  return *store;
}

Json PlanStores::run(const workload::Spec& spec) {
  const auto say = [&](const std::string& what) {
    if (hooks_.progress) hooks_.progress(fmt::format("{}: {}", spec.name, what));
  };
  std::vector<Contender> all;
  for (const PlanChoice& choice : settings_.plans) {
    const EnginePlan plan = plan_of(settings_, choice);
    LoadedStore& store = store_for(plan, spec);
    Contender& c = all.emplace_back();
    c.choice = choice;
    c.name = choice.text();
    c.settings = settings_of(settings_, choice);
    c.settings.workloads = {spec.name};
    say(fmt::format("drawing the requests of {}", c.name));
    c.tapes = make_tapes(c.settings, {spec}, store, false);
    for (const auto& of_thread : c.tapes.of_thread) {
      for (const auto& tape : of_thread) c.verified += tape->ops().size();
    }
  }
  for (Contender& c : all) {
    const EnginePlan plan = plan_of(settings_, c.choice);
    c.subject = std::make_unique<WireSubject>(store_for(plan, spec).engine(), plan, c.tapes, settings_.sink);
    if (c.choice.is_automatic()) c.engine = &store_for(plan, spec).engine();
    c.settings.plan = c.choice.plan;
    c.settings.simulate = settings_.simulate && plan.uses_devices();
    say(fmt::format("comparing every reply of {}", c.name));
    c.first_errors = c.subject->verify();
    c.subject->settle_hot_keys();
    const EngineStats stats = store_for(plan, spec).engine().stats();
    c.item_bytes = static_cast<double>(stats.item_bytes) / static_cast<double>(std::max<std::uint64_t>(stats.items, 1));
  }
  for (const auto& [level, store] : stores_) store->wait_until_settled(std::chrono::milliseconds(20));
  for (Contender& c : all) {
    if (c.engine == nullptr) continue;
    say(fmt::format("letting {} choose", c.name));
    let_choose(c);
  }
  // Every other round in the reverse order, so that what drifts meets both neighbours alike.
  for (unsigned round = 0; round < settings_.rounds; ++round) {
    say(fmt::format("round {} of {}", round + 1, settings_.rounds));
    for (std::size_t i = 0; i < all.size(); ++i)
      take_turn_of(all[round % 2 == 0 ? i : all.size() - 1 - i], spec, round, settings_.rounds, document_);
  }
  Json summary = summary_of(all, document_);
  if (!hooks_.measured) return summary;
  PlanMeasurement measurement{
      .profile = profile_of_first(all, stores_.at(level_of(plan_of(settings_, all[0].choice)))->engine()),
      .gpu = {},
      .demands = {}};
  for (const Contender& c : all) measurement.demands.push_back(median_demand(c));
  for (const auto& [level, store] : stores_) {
    for (const DeviceStats& device : store->engine().device_stats()) measurement.gpu = device.name;
  }
  hooks_.measured(summary, measurement);
  return summary;
}

std::string plans_heading() {
  return "| workload | plan | M ops/s | of the best constant plan |\n|---|---|---:|---:|\n";
}

std::string plans_rows(const Json& cell) {
  std::string text;
  for (const Json& subject : cell.at("subjects")) {
    std::string ratio = "best";
    for (const Json& c : cell.at("comparisons")) {
      if (c["subject"] != subject["subject"]) continue;
      const Json& r = c["ratio"];
      ratio = fmt::format("{:.2f} ({:.2f}-{:.2f})", r["median"].get<double>(), r["low"].get<double>(),
                          r["high"].get<double>());
    }
    if (subject.contains("chose")) {
      for (const auto& [plan, turns] : subject["chose"].items())
        ratio += fmt::format("; {} turns {}", plan, turns.get<unsigned>());
    }
    const Json& rate = subject["ops_per_s"];
    text += fmt::format("| {} | {} | {:.2f} ({:.2f}-{:.2f}) | {} |\n", cell["workload"].get<std::string>(),
                        subject["subject"].get<std::string>(), rate["median"].get<double>() / 1e6,
                        rate["low"].get<double>() / 1e6, rate["high"].get<double>() / 1e6, ratio);
  }
  return text;
}

std::string plans_means(const Json& cells) {
  if (cells.empty()) return {};
  std::string text = fmt::format("geometric means over {} workloads, M ops/s:", cells.size());
  double best = 0;
  for (const Json& cell : cells) {
    for (const Json& subject : cell["subjects"]) {
      if (subject["subject"] == cell["best"]) best += std::log(subject["ops_per_s"]["median"].get<double>());
    }
  }
  for (std::size_t i = 0; i < cells.front()["subjects"].size(); ++i) {
    double sum = 0;
    for (const Json& cell : cells) sum += std::log(cell["subjects"][i]["ops_per_s"]["median"].get<double>());
    text += fmt::format(" {} {:.2f},", cells.front()["subjects"][i]["subject"].get<std::string>(),
                        std::exp(sum / static_cast<double>(cells.size())) / 1e6);
  }
  return text + fmt::format(" the best constant plan of each {:.2f}\n",
                            std::exp(best / static_cast<double>(cells.size())) / 1e6);
}

}  // namespace tandem::bench
