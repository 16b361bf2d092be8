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

Json alternation_json(const Measured& m) {
  Json timeline = Json::array();
  for (std::size_t i = 0; i + 1 < m.timeline.size(); ++i) {  // the last bucket is incomplete
    timeline.push_back({{"t", static_cast<double>(i + 1) * m.bucket_s},
                        {"ops_per_s", static_cast<double>(m.timeline[i]) / m.bucket_s}});
  }
  return timeline;
}

Json latency_timeline_json(const Measured& m, double every_s) {
  Json timeline = timeline_json(m.latency_timeline, every_s);
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const LatencyTimeline::Stretch& s = m.latency_timeline[i];
    if (s.requests != 0) timeline[i]["max"] = static_cast<double>(s.ticks_max) * ns_per_tick() / 1e3;
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
  limits.getk = getk;
  on_each_thread(threads, [&](unsigned t) {
    for (const workload::Spec& spec : specs) {
      for (const std::uint32_t batch : settings.batches)
        tapes.of_thread[t].push_back(
            std::make_unique<Tape>(spec, store.keys_of(spec).space, settings.protocol, t, threads, batch, limits));
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

namespace {

class CellRun {
 public:
  CellRun(const EngineSettings& settings, const std::vector<workload::Spec>& specs, LoadedStore& store, Json& document,
          const EngineHooks& hooks)
      : settings_(settings), specs_(specs), store_(store), document_(document), hooks_(hooks) {
    say("drawing the requests");
    tapes_ = make_tapes(settings, specs, store, false);
    if (settings.getk) getk_tapes_ = make_tapes(settings, specs, store, true);
    subjects_ = make_subjects(settings, specs, store, tapes_, getk_tapes_ ? &*getk_tapes_ : nullptr);
    for (const auto& of_thread : tapes_.of_thread) {
      for (const auto& tape : of_thread) requests_ += tape->ops().size();
    }
  }

  Json run() {
    store_.wait_until_settled();
    for (const auto& subject : subjects_) {
      rounds_.names.emplace_back(subject->name());
      if (settings_.from_start) continue;
      say(fmt::format("comparing every reply of {}", subject->name()));
      first_errors_[rounds_.names.back()] = subject->verify();
      subject->settle_hot_keys();
    }
    store_.wait_until_settled();
    if (settings_.cache_misses && !engine_plan(settings_.plan).dispatches) {
      auto* const wire = dynamic_cast<WireSubject*>(
          std::ranges::find_if(subjects_, [](const auto& s) { return s->name() == subject_wire; })->get());
      misses_ = count_misses(*wire, document_);
    }
    for (unsigned round = 0; round < settings_.rounds; ++round) {
      say(fmt::format("round {} of {}", round + 1, settings_.rounds));
      for (const auto& subject : subjects_) take_turn(*subject, round);
    }
    Json summary = summarize();
    add_comparisons(cell_, rounds_, document_, summary);
    return summary;
  }

 private:
  static bool is_wire(std::string_view name) { return name == subject_wire || name == subject_wire_getk; }
  static bool is_getk(std::string_view name) { return name == subject_wire_getk || name == subject_embedded_getk; }

  void say(const std::string& what) const {
    if (hooks_.progress) hooks_.progress(fmt::format("{}: {}", cell_, what));
  }

  void take_turn(Subject& subject, unsigned round) {
    const std::string name(subject.name());
    const auto turn_ended = name == subject_wire && hooks_.turn ? hooks_.turn(store_.engine(), round) : nullptr;
    Measured m = subject.take(length_);
    const Json beside = turn_ended ? turn_ended() : Json();
    const bool first = round == 0 && !settings_.from_start, last = round + 1 == settings_.rounds;
    if (first) m.errors.add(first_errors_[name]);
    if (last) m.errors.add(subject.verify());
    Json result = turn_json(m.turn);
    if (is_wire(name) || is_getk(name) || name == subject_embedded) add_answers(name, m, first, last, result);
    if (is_wire(name) && settings_.alternates) {
      Json phases = Json::array();
      for (std::size_t i = 0; i < specs_.size(); ++i)
        phases.push_back({{"workload", specs_[i].name}, {"ops", m.ops_of_workload[i]}});
      result["phases"] = std::move(phases);
      result["timeline"] = alternation_json(m);
    }
    if (beside.is_object()) result.update(beside);
    rounds_.ops_per_s[name].push_back(m.turn.ops_per_s);
    rounds_.runs[name].push_back(document_["runs"].size());
    document_["runs"].push_back({{"kind", "engine"},
                                 {"cell", cell_},
                                 {"subject", name},
                                 {"round", round},
                                 {"command", command_line(settings_)},
                                 {"seed", settings_.seed},
                                 {"settings", settings_json(settings_, specs_, is_wire(name), is_getk(name))},
                                 {"result", std::move(result)}});
  }

  void add_answers(const std::string& name, const Measured& m, bool first, bool last, Json& result) {
    add_counts(m, result);
    if (is_wire(name)) add_wire(m, tapes_.threads(), name == subject_wire ? misses_ : MissCounts{}, result);
    result["errors"] = errors_json(m.errors);
    if (first || last) result["verified"] = requests_ * (first && last ? 2 : 1);
    if (is_getk(name) && (first || last)) {
      result["other_keys"] = m.errors.other_keys;
      other_keys_ += m.errors.other_keys;
    }
    if (name == subject_wire && !misses_.groups.empty()) result["cache_misses"] = misses_.groups;
    if (is_wire(name)) add_hot(m, settings_.timeline_every_s, result);
    if (is_wire(name) && !m.latency_timeline.empty())
      result["timeline"] = latency_timeline_json(m, settings_.timeline_every_s);
  }

  Json summarize() const {
    Json summary{{"cell", cell_},
                 {"workload", workload_names(settings_)},
                 {"threads", settings_.threads.front()},
                 {"rate", settings_.rates.front()},
                 {"batch", settings_.batches.front()},
                 {"subjects", Json::array()},
                 {"comparisons", Json::array()}};
    if (settings_.getk) summary["other_keys"] = other_keys_;
    for (const std::string& name : rounds_.names) {
      const std::vector<std::size_t>& runs = rounds_.runs.at(name);
      Json subject{{"subject", name}, {"ops_per_s", spread_json(rounds_.ops_per_s.at(name))}, {"runs", runs}};
      if (is_wire(name)) {
        subject["tasks"] = median_tasks(document_, runs);
        subject["latency_us"] = latency_spreads(document_, runs);
        double ns = 0;
        for (const Json& task : subject["tasks"]) ns += task["ns_per_query"].get<double>();
        const double ns_by_rate = settings_.threads.front() * 1e9 / subject["ops_per_s"]["median"].get<double>();
        if (ns > 0) subject["tasks_of_rate"] = ns / ns_by_rate;
      }
      summary["subjects"].push_back(std::move(subject));
    }
    return summary;
  }

  const EngineSettings& settings_;
  const std::vector<workload::Spec>& specs_;
  LoadedStore& store_;
  Json& document_;
  const EngineHooks& hooks_;
  const std::string cell_ = cell_of(settings_);
  const TurnLength length_{settings_.seconds, settings_.ops, settings_.rates.front(), settings_.timeline_every_s};
  CellTapes tapes_;
  std::optional<CellTapes> getk_tapes_;
  std::vector<std::unique_ptr<Subject>> subjects_;
  std::uint64_t requests_ = 0;  // of all tapes
  Rounds rounds_;
  // Each subject's wrong answers in the full verification before the first round. They count in the first run.
  std::map<std::string, ReplyErrors> first_errors_;
  std::uint64_t other_keys_ = 0;
  MissCounts misses_;
};

}  // namespace

Json run_cell(const EngineSettings& settings, const std::vector<workload::Spec>& specs, LoadedStore& store,
              Json& document, const EngineHooks& hooks) {
  return CellRun(settings, specs, store, document, hooks).run();
}

}  // namespace tandem::bench
