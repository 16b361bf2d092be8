#include "bench/engine/run_json.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/ticks.hpp"

namespace tandem::bench {
namespace {

std::string sizes_text(const workload::Sizes& sizes) { return workload::to_string(sizes); }

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

Json device_json(const Measured::OnDevice& device) {
  return {{"searched", device.searched},
          {"launches", device.launches},
          {"batches", device.batches},
          {"refused_batches", device.refused_batches},
          {"us", static_cast<double>(device.device_ns) / 1e3},
          {"answered", device.answered},
          {"left",
           {{"item", device.left_item},
            {"length", device.left_length},
            {"room", device.left_room},
            {"other", device.left_other}}}};
}

}  // namespace

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

Json timeline_json(const std::vector<LatencyTimeline::Stretch>& stretches, double every_s) {
  const double us = ns_per_tick() / 1e3;
  Json timeline = Json::array();
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const LatencyTimeline::Stretch& s = stretches[i];
    Json one{{"t", static_cast<double>(i + 1) * every_s}, {"ops_per_s", static_cast<double>(s.requests) / every_s}};
    if (s.requests != 0) one["mean"] = static_cast<double>(s.ticks) * us / static_cast<double>(s.requests);
    timeline.push_back(std::move(one));
  }
  return timeline;
}

std::string workload_names(const EngineSettings& settings) {
  std::string name = fmt::format("{}", fmt::join(settings.workloads, "/"));
  if (settings.theta) name += fmt::format(" theta {:g}", *settings.theta);
  if (settings.alternates) name += fmt::format(" every {:g} ms", settings.alternate_every_s * 1e3);
  return name;
}

Json settings_json(const EngineSettings& settings, const std::vector<workload::Spec>& specs, bool on_wire, bool getk) {
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
  if (on_wire && settings.cycles_us.front() != 0) json["cycle_us"] = settings.cycles_us.front();
  if (on_wire && settings.rates.front() != 0) json["rate"] = settings.rates.front();
  if (on_wire && settings.miss_share != 0) json["miss_share"] = settings.miss_share;
  if (settings.shift_ops != 0) {
    json["shift_ops"] = settings.shift_ops;
    json["shift_keys"] = settings.shift_keys;
  }
  if (on_wire && settings.from_start) json["from_start"] = true;
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

Json spread_json(const std::vector<double>& values) {
  const Spread s = spread_of(values);
  return {{"median", s.median}, {"low", s.low}, {"high", s.high}};
}

Json turn_json(const Turn& turn) {
  return {{"seconds", turn.seconds}, {"ops", turn.ops}, {"ops_per_s", turn.ops_per_s}, {"cpu_share", turn.cpu_share}};
}

void add_counts(const Measured& m, Json& result) {
  result["gets"] = m.gets;
  result["hits"] = m.hits;
  result["misses"] = m.gets >= m.hits ? m.gets - m.hits : 0;
  result["sets"] = m.sets;
}

void add_wire(const Measured& m, unsigned threads, const MissCounts& misses, Json& result) {
  result["bytes_sent"] = m.request_bytes;
  result["bytes_received"] = m.reply_bytes;
  result["batches"] = m.batches;
  if (m.batches != 0) result["batch_us"] = m.turn.seconds * 1e6 * threads / static_cast<double>(m.batches);
  if (m.latency.count() != 0) result["latency_us"] = latency_json(m.latency);
  if (Json tasks = tasks_json(m, misses); !tasks.empty()) result["tasks"] = std::move(tasks);
  if (m.device) result["device"] = device_json(*m.device);
}

}  // namespace tandem::bench
