#include "bench/engine/cell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/ticks.hpp"
#include "bench/common/statistics.hpp"
#include "bench/engine/misses.hpp"
#include "bench/engine/subject.hpp"

namespace tandem::bench {
namespace {

std::string workload_names(const EngineSettings& settings) {
  std::string name = fmt::format("{}", fmt::join(settings.workloads, "/"));
  if (settings.theta) name += fmt::format(" theta {:g}", *settings.theta);
  if (settings.alternates) name += fmt::format(" every {:g} ms", settings.alternate_every_s * 1e3);
  return name;
}

std::string cell_of(const EngineSettings& settings) {
  std::string cell =
      fmt::format("{} b{} t{}", workload_names(settings), settings.batches.front(), settings.threads.front());
  if (settings.sink != SinkKind::copy) cell += fmt::format(" {}", to_string(settings.sink));
  if (settings.miss_share != 0) cell += fmt::format(" m{:g}", settings.miss_share);
  if (const double rate = settings.rates.front(); rate != 0) cell += fmt::format(" r{:g}", rate);
  return settings.cycles_us.front() == 0 ? cell : fmt::format("{} c{}", cell, settings.cycles_us.front());
}

std::string sizes_text(const workload::Sizes& sizes) { return workload::to_string(sizes); }

Json settings_json(const EngineSettings& settings, const std::vector<workload::Spec>& specs, bool on_wire,
                   bool getk = false) {
  const workload::Spec& spec = specs.front();
  Json json{{"workload", workload_names(settings)}};
  if (on_wire) json["protocol"] = std::string(to_string(settings.protocol));
  if (on_wire) json["sink"] = std::string(to_string(settings.sink));
  if (getk) json["getk"] = true;
  json["threads"] = settings.threads.front();
  json["batch"] = settings.batches.front();
  if (settings.index != EngineSettings{}.index) json["index"] = settings.index;
  if (on_wire) json["plan"] = settings.plan;
  if (on_wire && settings.simulate) json["simulated"] = true;
  if (on_wire && settings.devices != 1) json["devices"] = settings.devices;
  if (on_wire && settings.steal) json["steal"] = true;
  if (on_wire && settings.rest) json["rest"] = true;
  if (on_wire && settings.cycles_us.front() != 0) json["cycle_us"] = settings.cycles_us.front();
  if (on_wire && settings.rates.front() != 0) json["rate"] = settings.rates.front();
  if (on_wire && settings.miss_share != 0) json["miss_share"] = settings.miss_share;
  json["keys"] = spec.keys;
  json["key_bytes"] = sizes_text(spec.key_bytes);
  json["value_bytes"] = sizes_text(spec.value_bytes);
  if (!settings.alternates) {
    json["get_share"] = spec.mix[workload::OpKind::get] + spec.mix[workload::OpKind::read_modify_write] / 2;
    json["popularity"] = std::string(to_string(spec.popularity));
    if (spec.popularity == workload::Popularity::zipf || spec.popularity == workload::Popularity::latest)
      json["theta"] = spec.theta;
  } else {
    json["alternate_every_us"] = settings.alternate_every_s * 1e6;
  }
  if (!settings.memory_file.empty()) json["memory_file"] = true;
  return json;
}

Json errors_json(const ReplyErrors& errors) {
  return {{"wrong_values", errors.wrong_values},
          {"wrong_replies", errors.wrong_replies},
          {"unexpected_misses", errors.unexpected_misses},
          {"timeouts", 0},
          {"connection", 0},
          {"first", errors.first}};
}

Json latency_json(const HistogramTotals& ticks) {
  const double us = ns_per_tick() / 1e3;
  Json json{{"count", ticks.count()},
            {"mean", static_cast<double>(ticks.sum()) * us / static_cast<double>(ticks.count())}};
  for (const auto& [name, share] :
       {std::pair{"p50", 0.5}, std::pair{"p90", 0.9}, std::pair{"p95", 0.95}, std::pair{"p99", 0.99}})
    json[name] = ticks.quantile(share) * us;
  json["max"] = static_cast<double>(ticks.max()) * us;
  return json;
}

// Cost per query of each task, and its share of their sum; nothing when a turn was so short that a task was never
// timed.
Json tasks_json(const Measured& m, const MissCounts& misses) {
  std::array<double, task_count> ns{};
  double sum = 0;
  for (std::size_t t = 0; t < task_count; ++t) {
    const auto task = static_cast<Task>(t);
    if (m.tasks[t].queries == 0 && (task == Task::insert || task == Task::remove)) continue;  // no query used it
    if (m.tasks[t].queries == 0) return Json::array();
    ns[t] = static_cast<double>(m.tasks[t].cycles) * ns_per_tick() / static_cast<double>(m.tasks[t].queries);
    sum += ns[t];
  }
  Json tasks = Json::array();
  for (std::size_t t = 0; t < task_count; ++t) {
    Json task{{"task", std::string(task_names[t])},
              {"processor",
               processor_names[index_of(m.ran.share(static_cast<Task>(t), Processor::device) > 0.5 ? Processor::device
                                                                                                   : Processor::cpu)]},
              {"ns_per_query", ns[t]},
              {"share", sum > 0 ? ns[t] / sum : 0}};
    if (const auto per_query = misses.of(static_cast<Task>(t))) task["cache_misses_per_query"] = *per_query;
    tasks.push_back(std::move(task));
  }
  return tasks;
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

CellTapes make_tapes(const EngineSettings& settings, const std::vector<workload::Spec>& specs, const LoadedStore& store,
                     bool getk) {
  const unsigned threads = settings.threads.front();
  CellTapes tapes;
  tapes.of_thread.resize(threads);
  tapes.batch_queries = settings.batches.front();
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
      tapes.of_thread[t].push_back(std::make_unique<Tape>(spec, store.keys_of(spec).space, settings.protocol, t,
                                                          threads, tapes.batch_queries, limits, getk));
    }
  });
  return tapes;
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

Json spread_json(const std::vector<double>& values) {
  const Spread s = spread_of(values);
  return {{"median", s.median}, {"low", s.low}, {"high", s.high}};
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
      Json result{{"seconds", m.turn.seconds},
                  {"ops", m.turn.ops},
                  {"ops_per_s", m.turn.ops_per_s},
                  {"cpu_share", m.turn.cpu_share}};
      if (answers) {
        result["gets"] = m.gets;
        result["hits"] = m.hits;
        result["misses"] = m.gets >= m.hits ? m.gets - m.hits : 0;
        result["sets"] = m.sets;
        if (on_wire) {
          result["bytes_sent"] = m.request_bytes;
          result["bytes_received"] = m.reply_bytes;
          result["batches"] = m.batches;
          if (m.batches != 0)
            result["batch_us"] = m.turn.seconds * 1e6 * tapes.threads() / static_cast<double>(m.batches);
          if (m.latency.count() != 0) result["latency_us"] = latency_json(m.latency);
        }
        result["errors"] = errors_json(m.errors);
        if (round == 0 || last) result["verified"] = verified * (round == 0 && last ? 2 : 1);
        if (getk && (round == 0 || last)) {
          result["other_keys"] = m.errors.other_keys;
          other_keys += m.errors.other_keys;
        }
        if (on_wire) {
          if (Json tasks = tasks_json(m, name == subject_wire ? misses : MissCounts{}); !tasks.empty())
            result["tasks"] = std::move(tasks);
        }
        if (on_wire && m.device) {
          result["device"] = {{"searched", m.device->searched},
                              {"launches", m.device->launches},
                              {"batches", m.device->batches},
                              {"refused_batches", m.device->refused_batches},
                              {"us", static_cast<double>(m.device->device_ns) / 1e3},
                              {"answered", m.device->answered},
                              {"left",
                               {{"item", m.device->left_item},
                                {"length", m.device->left_length},
                                {"room", m.device->left_room},
                                {"other", m.device->left_other}}}};
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
