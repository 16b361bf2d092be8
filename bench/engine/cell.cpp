#include "bench/engine/cell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/ticks.hpp"
#include "bench/common/statistics.hpp"
#include "bench/engine/misses.hpp"
#include "bench/engine/run_json.hpp"
#include "bench/engine/subject.hpp"

namespace tandem::bench {
namespace {

std::string cell_of(const EngineSettings& settings) {
  std::string cell =
      fmt::format("{} b{} t{}", workload_names(settings), settings.batches.front(), settings.threads.front());
  if (settings.sink != SinkKind::copy) cell += fmt::format(" {}", to_string(settings.sink));
  if (settings.miss_share != 0) cell += fmt::format(" m{:g}", settings.miss_share);
  if (const double rate = settings.rates.front(); rate != 0) cell += fmt::format(" r{:g}", rate);
  return settings.cycles_us.front() == 0 ? cell : fmt::format("{} c{}", cell, settings.cycles_us.front());
}

Json timeline_json(const Measured& m) {
  Json timeline = Json::array();
  for (std::size_t i = 0; i + 1 < m.timeline.size(); ++i) {  // the last bucket is incomplete
    timeline.push_back({{"t", static_cast<double>(i + 1) * m.bucket_s},
                        {"ops_per_s", static_cast<double>(m.timeline[i]) / m.bucket_s}});
  }
  return timeline;
}

// Stretches in which requests were received.
Json latency_timeline_json(const Measured& m, double every_s) {
  const double us = ns_per_tick() / 1e3;
  Json timeline = Json::array();
  for (std::size_t i = 0; i < m.latency_timeline.size(); ++i) {
    const LatencyTimeline::Stretch& s = m.latency_timeline[i];
    Json one{{"t", static_cast<double>(i + 1) * every_s}, {"ops_per_s", static_cast<double>(s.requests) / every_s}};
    if (s.requests != 0) {
      one["mean"] = static_cast<double>(s.ticks) * us / static_cast<double>(s.requests);
      one["max"] = static_cast<double>(s.ticks_max) * us;
    }
    timeline.push_back(std::move(one));
  }
  return timeline;
}

std::vector<std::unique_ptr<Subject>> make_subjects(const EngineSettings& settings,
                                                    const std::vector<workload::Spec>& specs, LoadedStore& store,
                                                    const CellTapes& tapes, const CellTapes* getk_tapes) {
  const auto wants = [&](std::string_view name) {
    return settings.subjects.empty() || std::ranges::find(settings.subjects, name) != settings.subjects.end();
  };
  std::vector<std::unique_ptr<Subject>> subjects;
  const workload::KeySpace& space = store.keys_of(specs.front()).space;
  // The loops only support initial keys, of one size.
  const bool has_ceiling =
      !settings.alternates && store.has_fixed_sizes() && specs.front().mix[workload::OpKind::insert] <= 0;
  if (has_ceiling && wants("two-lines"))
    subjects.push_back(std::make_unique<CeilingSubject>(store.ceiling(), false, space, tapes));
  subjects.push_back(std::make_unique<WireSubject>(store.engine(), engine_plan(settings.plan, settings.simulate), tapes,
                                                   settings.sink));
  if (getk_tapes != nullptr)
    subjects.push_back(std::make_unique<WireSubject>(store.engine(), engine_plan(settings.plan, settings.simulate),
                                                     *getk_tapes, settings.sink));
  if (!settings.alternates && wants("embedded")) {
    subjects.push_back(std::make_unique<EmbeddedSubject>(store.embedded(), space, tapes));
    if (getk_tapes != nullptr)
      subjects.push_back(std::make_unique<EmbeddedSubject>(store.embedded(), space, *getk_tapes));
  }
  if (has_ceiling && wants("copy"))
    subjects.push_back(std::make_unique<CeilingSubject>(store.ceiling(), true, space, tapes));
  return subjects;
}

// The measurements of one cell's rounds, by subject.
struct Rounds {
  std::vector<std::string> names;  // in the order of their turns
  std::map<std::string, std::vector<double>> ops_per_s;
  std::map<std::string, std::vector<std::size_t>> runs;  // indices in the document
};

void add_comparisons(const std::string& cell, const Rounds& rounds, Json& document, Json& summary) {
  static constexpr std::pair<std::string_view, std::string_view> pairs[] = {
      {subject_wire, subject_two_lines}, {subject_wire, subject_copy},      {subject_embedded, subject_two_lines},
      {subject_embedded, subject_copy},  {subject_wire_getk, subject_wire}, {subject_embedded_getk, subject_embedded}};
  for (const auto& [subject, base] : pairs) {
    const auto mine = rounds.ops_per_s.find(std::string(subject)), theirs = rounds.ops_per_s.find(std::string(base));
    if (mine == rounds.ops_per_s.end() || theirs == rounds.ops_per_s.end()) continue;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < mine->second.size(); ++i) ratios.push_back(mine->second[i] / theirs->second[i]);
    Json comparison{{"cell", cell},    {"metric", "ops_per_s"},        {"subject", subject},
                    {"base", base},    {"ratio", spread_json(ratios)}, {"rounds", ratios.size()},
                    {"better", "more"}};
    summary["comparisons"].push_back(comparison);
    document["comparisons"].push_back(std::move(comparison));
  }
}

// The tasks' costs over all rounds.
Json median_tasks(const Json& document, const std::vector<std::size_t>& runs) {
  std::map<std::string, std::vector<double>> ns;
  std::vector<std::string> order;
  for (const std::size_t run : runs) {
    const Json& result = document["runs"][run]["result"];
    if (!result.contains("tasks")) continue;
    for (const Json& task : result["tasks"]) {
      const std::string name = task["task"];
      if (!ns.contains(name)) order.push_back(name);
      ns[name].push_back(task["ns_per_query"]);
    }
  }
  Json tasks = Json::array();
  double sum = 0;
  for (const std::string& name : order) sum += spread_of(ns[name]).median;
  for (const std::string& name : order) {
    const double median = spread_of(ns[name]).median;
    tasks.push_back({{"task", name}, {"ns_per_query", median}, {"share", median / sum}});
  }
  return tasks;
}

// Of each round's percentile.
Json latency_spreads(const Json& document, const std::vector<std::size_t>& runs) {
  Json spreads = Json::object();
  for (const char* const percentile : {"mean", "p50", "p95", "p99"}) {
    std::vector<double> us;
    for (const std::size_t run : runs) {
      if (const Json& result = document["runs"][run]["result"]; result.contains("latency_us"))
        us.push_back(result["latency_us"][percentile]);
    }
    if (!us.empty()) spreads[percentile] = spread_json(us);
  }
  return spreads;
}

}  // namespace

CellTapes make_tapes(const EngineSettings& settings, const std::vector<workload::Spec>& specs, const LoadedStore& store,
                     bool getk) {
  const unsigned threads = settings.threads.front();
  CellTapes tapes;
  tapes.of_thread.resize(threads);
  tapes.batch_queries = std::ranges::max(settings.batches);
  tapes.getk = getk;
  tapes.may_evict = store.may_evict();
  tapes.evicted_share = store.evicted_share();
  tapes.has_fixed_sizes = store.has_fixed_sizes();
  tapes.alternate_every_s = settings.alternates ? settings.alternate_every_s : 0;
  Tape::Limits limits = settings.tape;
  if (settings.ops != 0) limits.ops = std::min(limits.ops, settings.ops);
  limits.bytes /= specs.size();
  limits.connection_queries = settings.in_flight;
  limits.miss_share = settings.miss_share;
  on_each_thread(threads, [&](unsigned t) {
    for (const workload::Spec& spec : specs) {
      for (const std::uint32_t batch : settings.batches)
        tapes.of_thread[t].push_back(std::make_unique<Tape>(spec, store.keys_of(spec).space, settings.protocol, t,
                                                            threads, batch, limits, getk));
    }
  });
  return tapes;
}

Json load_run(const EngineSettings& settings, const workload::Spec& spec, const LoadedStore::Load& load,
              unsigned threads) {
  EngineSettings one = settings;
  one.threads = {threads};
  one.batches = {1024};
  Json json = settings_json(one, {spec}, true);
  json["workload"] = "load " + spec.name;
  json["get_share"] = 0.0;
  json.erase("popularity");
  json.erase("theta");
  return {{"kind", "engine"},
          {"cell", fmt::format("load {} t{}", spec.name, threads)},
          {"subject", subject_wire},
          {"round", 0},
          {"command", command_line(settings)},
          {"seed", settings.seed},
          {"settings", std::move(json)},
          {"result",
           {{"seconds", load.turn.seconds},
            {"ops", load.turn.ops},
            {"ops_per_s", load.turn.ops_per_s},
            {"gets", 0},
            {"sets", load.turn.ops},
            {"bytes_sent", load.request_bytes},
            {"errors", errors_json({})}}}};
}

Json run_cell(const EngineSettings& settings, const std::vector<workload::Spec>& specs, LoadedStore& store,
              Json& document, const EngineHooks& hooks) {
  const std::string cell = cell_of(settings);
  const auto say = [&](const std::string& what) {
    if (hooks.progress) hooks.progress(fmt::format("{}: {}", cell, what));
  };
  say("drawing the requests");
  const CellTapes tapes = make_tapes(settings, specs, store, false);
  std::optional<CellTapes> getk_tapes;
  if (settings.getk) getk_tapes = make_tapes(settings, specs, store, true);
  const std::vector<std::unique_ptr<Subject>> subjects =
      make_subjects(settings, specs, store, tapes, getk_tapes ? &*getk_tapes : nullptr);
  const TurnLength length{settings.seconds, settings.ops, settings.rates.front(), settings.timeline_every_s};
  store.wait_until_settled();
  Rounds rounds;
  // Each subject's wrong answers in the full verification before the first round and after the last one. They count in
  // the first and the last run.
  std::map<std::string, ReplyErrors> first_errors;
  std::uint64_t other_keys = 0;
  std::uint64_t verified = 0;
  for (const auto& of_thread : tapes.of_thread) {
    for (const auto& tape : of_thread) verified += tape->ops().size();
  }
  for (const auto& subject : subjects) {
    rounds.names.emplace_back(subject->name());
    say(fmt::format("comparing every reply of {}", subject->name()));
    first_errors[rounds.names.back()] = subject->verify();
  }
  store.wait_until_settled();
  MissCounts misses;
  if (settings.cache_misses && !engine_plan(settings.plan).dispatches) {
    auto* const wire = dynamic_cast<WireSubject*>(
        std::ranges::find_if(subjects, [](const auto& s) { return s->name() == subject_wire; })->get());
    misses = count_misses(*wire, document);
  }
  for (unsigned round = 0; round < settings.rounds; ++round) {
    say(fmt::format("round {} of {}", round + 1, settings.rounds));
    for (const auto& subject : subjects) {
      const std::string name(subject->name());
      const bool has_hook = name == subject_wire && hooks.turn;
      const auto turn_ended = has_hook ? hooks.turn(store.engine(), round) : nullptr;
      Measured m = subject->take(length);
      const Json beside = turn_ended ? turn_ended() : Json();
      if (round == 0) m.errors.add(first_errors[name]);
      const bool last = round + 1 == settings.rounds;
      const bool on_wire = name == subject_wire || name == subject_wire_getk;
      const bool getk = name == subject_wire_getk || name == subject_embedded_getk;
      const bool answers = on_wire || name == subject_embedded || getk;
      if (last) m.errors.add(subject->verify());
      Json result = turn_json(m.turn);
      if (answers) {
        add_counts(m, result);
        if (on_wire) add_wire(m, tapes.threads(), name == subject_wire ? misses : MissCounts{}, result);
        result["errors"] = errors_json(m.errors);
        if (round == 0 || last) result["verified"] = verified * (round == 0 && last ? 2 : 1);
        if (getk && (round == 0 || last)) {
          result["other_keys"] = m.errors.other_keys;
          other_keys += m.errors.other_keys;
        }
        if (name == subject_wire && !misses.groups.empty()) result["cache_misses"] = misses.groups;
        if (on_wire && !m.latency_timeline.empty())
          result["timeline"] = latency_timeline_json(m, settings.timeline_every_s);
      }
      if (on_wire && settings.alternates) {
        Json phases = Json::array();
        for (std::size_t i = 0; i < specs.size(); ++i)
          phases.push_back({{"workload", specs[i].name}, {"ops", m.ops_of_workload[i]}});
        result["phases"] = std::move(phases);
        result["timeline"] = timeline_json(m);
      }
      if (beside.is_object()) result.update(beside);
      rounds.ops_per_s[name].push_back(m.turn.ops_per_s);
      rounds.runs[name].push_back(document["runs"].size());
      document["runs"].push_back({{"kind", "engine"},
                                  {"cell", cell},
                                  {"subject", name},
                                  {"round", round},
                                  {"command", command_line(settings)},
                                  {"seed", settings.seed},
                                  {"settings", settings_json(settings, specs, on_wire, getk)},
                                  {"result", std::move(result)}});
    }
  }
  Json summary{{"cell", cell},
               {"workload", workload_names(settings)},
               {"threads", settings.threads.front()},
               {"rate", settings.rates.front()},
               {"batch", settings.batches.front()},
               {"subjects", Json::array()},
               {"comparisons", Json::array()}};
  if (settings.getk) summary["other_keys"] = other_keys;
  for (const std::string& name : rounds.names) {
    Json subject{{"subject", name}, {"ops_per_s", spread_json(rounds.ops_per_s[name])}, {"runs", rounds.runs[name]}};
    if (name == subject_wire || name == subject_wire_getk) {
      subject["tasks"] = median_tasks(document, rounds.runs[name]);
      subject["latency_us"] = latency_spreads(document, rounds.runs[name]);
      double ns = 0;
      for (const Json& task : subject["tasks"]) ns += task["ns_per_query"].get<double>();
      const double ns_by_rate = settings.threads.front() * 1e9 / subject["ops_per_s"]["median"].get<double>();
      if (ns > 0) subject["tasks_of_rate"] = ns / ns_by_rate;
    }
    summary["subjects"].push_back(std::move(subject));
  }
  add_comparisons(cell, rounds, document, summary);
  return summary;
}

}  // namespace tandem::bench
