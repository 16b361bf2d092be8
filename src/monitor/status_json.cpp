#include "monitor/status_json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/ticks.hpp"
#include "codec/url_encode.hpp"

namespace tandem::monitor {
namespace {

using Json = nlohmann::ordered_json;

double rounded(double value) noexcept { return std::round(value * 1000) / 1000; }

Json quantiles(const HistogramTotals& ticks, double unit_ticks) {
  return {{"p50", rounded(ticks.quantile(0.5) * unit_ticks)},
          {"p90", rounded(ticks.quantile(0.9) * unit_ticks)},
          {"p99", rounded(ticks.quantile(0.99) * unit_ticks)},
          {"p99_9", rounded(ticks.quantile(0.999) * unit_ticks)},
          {"max", rounded(static_cast<double>(ticks.max()) * unit_ticks)}};
}

Json commands_json(const History& history) {
  Json out = Json::array();
  const auto recent = history.recent_commands();
  for (std::size_t c = 0; c < command_count; ++c) {
    if (history.latest().latency.ticks[c].count() == 0) continue;
    Json row = {{"name", command_names[c]}, {"per_s", rounded(recent[c].per_s)}};
    row["latency_us"] = quantiles(recent[c].ticks, ns_per_tick() / 1000);
    out.push_back(std::move(row));
  }
  return out;
}

Json tasks_json(const History& history) {
  const auto recent = history.recent_tasks();
  const TasksRan ran = history.recent_ran();
  double cycles = 0;
  for (const TaskCost& cost : recent) cycles += static_cast<double>(cost.cycles);
  Json out = Json::array();
  for (std::size_t t = 0; t < task_count; ++t) {
    const TaskCost& cost = recent[t];
    const double each = cost.queries == 0 ? 0 : static_cast<double>(cost.cycles) / static_cast<double>(cost.queries);
    const double on_device = ran.share(static_cast<Task>(t), Processor::device);
    out.push_back({{"name", task_names[t]},
                   {"processor", processor_names[index_of(on_device > 0.5 ? Processor::device : Processor::cpu)]},
                   {"device_share", rounded(on_device)},
                   {"ns_per_query", rounded(each * ns_per_tick())},
                   {"share", cycles == 0 ? 0 : rounded(static_cast<double>(cost.cycles) / cycles)}});
  }
  return out;
}

// null: there is no hot table.
Json hot_table_json(const History& history) {
  const auto recent = history.recent_hot();
  if (!recent) return nullptr;
  const HotTableStats& table = history.latest().hot->table;
  const double tick_us = ns_per_tick() / 1000;
  return {{"keys", table.keys},
          {"keys_max", table.keys_max},
          {"share", recent->share ? Json(rounded(*recent->share)) : Json(nullptr)},
          {"hot_latency_us", quantiles(recent->latency.hot, tick_us)},
          {"cold_latency_us", quantiles(recent->latency.cold, tick_us)}};
}

// The class with the most memory first; among equal ones, that with the largest slots.
Json classes_json(const EngineStats& engine) {
  std::vector<ClassStats> classes;
  std::ranges::copy_if(engine.classes, std::back_inserter(classes),
                       [](const ClassStats& c) { return c.pages != 0 || c.evictions != 0; });
  std::ranges::sort(classes, std::greater{}, [](const ClassStats& c) { return std::pair(c.pages, c.slot_bytes); });
  Json out = Json::array();
  for (const ClassStats& c : classes) {
    out.push_back({{"slot_bytes", c.slot_bytes},
                   {"memory_bytes", c.pages * page_bytes},
                   {"slots_used", c.slots_used},
                   {"slots", c.slots_total},
                   {"evictions", c.evictions}});
  }
  return out;
}

// The end of `points`: those after number `since`, of `ever` points since the start.
Json points_json(const std::deque<Point>& points, std::uint64_t ever, std::uint64_t since) {
  const std::uint64_t fresh = since <= ever ? ever - since : ever;  // the server may have been restarted
  const std::size_t count = std::min<std::uint64_t>(fresh, points.size());
  Json out = Json::array();
  for (auto p = points.end() - static_cast<std::ptrdiff_t>(count); p != points.end(); ++p) {
    out.push_back({{"time_s", rounded(p->time_s)},
                   {"interval_s", rounded(p->interval_s)},
                   {"gets_per_s", rounded(p->gets_per_s)},
                   {"hits_per_s", rounded(p->hits_per_s)},
                   {"stores_per_s", rounded(p->stores_per_s)},
                   {"others_per_s", rounded(p->others_per_s)},
                   {"evictions_per_s", rounded(p->evictions_per_s)},
                   {"received_bytes_per_s", rounded(p->received_bytes_per_s)},
                   {"sent_bytes_per_s", rounded(p->sent_bytes_per_s)},
                   {"p50_us", rounded(p->p50_us)},
                   {"p99_us", rounded(p->p99_us)},
                   {"p99_9_us", rounded(p->p999_us)},
                   {"items", p->items},
                   {"memory_used_bytes", p->memory_used_bytes},
                   {"connections", p->connections}});
  }
  return out;
}

}  // namespace

std::string status_json(const History& history, const HotKeys& hot, const net::BigKeys& big, std::uint64_t since,
                        std::string_view version) {
  const net::ServerSnapshot& s = history.latest();
  const StoreTotals& c = s.engine.counters;
  Json out = {{"version", version},
              {"uptime_s", s.uptime_s},
              {"threads", s.worker_connections.size()},
              {"sequence", history.points_ever()},
              {"window_s", History::window_intervals}};
  out["totals"] = {{"gets", c.cmd_get},
                   {"hits", c.get_hits},
                   {"stores", c.cmd_set},
                   {"items", s.engine.items},
                   {"evictions", c.evictions},
                   {"reclaimed", c.reclaimed},
                   {"bytes_received", s.net.bytes_read},
                   {"bytes_sent", s.net.bytes_written}};
  out["connections"] = {{"open", s.connections},
                        {"max", s.connections_max},
                        {"accepted", s.total_connections},
                        {"rejected", s.rejected_connections},
                        {"by_worker", s.worker_connections}};
  out["memory"] = {{"limit_bytes", s.engine.memory_limit_bytes}, {"used_bytes", s.engine.memory_used_bytes},
                   {"items_bytes", s.engine.item_bytes},         {"index_bytes", s.engine.index_bytes},
                   {"huge_items", s.engine.huge_items},          {"classes", classes_json(s.engine)}};
  out["tasks"] = tasks_json(history);
  out["commands"] = commands_json(history);
  out["hot_table"] = hot_table_json(history);
  Json keys = Json::array();
  for (const HotKey& k : hot.keys)
    keys.push_back({{"key", codec::url_encoded(k.key)}, {"share", k.share}, {"share_error", k.share_error}});
  out["hot_keys"] = {{"enabled", s.hot_keys_enabled}, {"keys", std::move(keys)}};
  Json large = Json::array();
  for (const net::BigKey& k : big.keys)
    large.push_back({{"key", codec::url_encoded(k.key)}, {"value_bytes", k.value_bytes}});
  out["big_keys"] = {{"exact", big.exact}, {"keys", std::move(large)}};
  const std::uint64_t ever = history.points_ever();
  out["points"] = points_json(history.points(), ever, since);
  out["points_10s"] = points_json(history.coarse_points(), ever / History::window_intervals,
                                  since <= ever ? since / History::window_intervals : since);
  return out.dump();
}

std::optional<std::uint64_t> since_of(std::string_view query_string) {
  constexpr std::string_view name = "since=";
  while (!query_string.empty()) {
    const std::string_view part = query_string.substr(0, query_string.find('&'));
    query_string.remove_prefix(std::min(query_string.size(), part.size() + 1));
    if (!part.starts_with(name)) continue;
    std::uint64_t number = 0;
    const std::string_view text = part.substr(name.size());
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
  }
  return 0;
}

}  // namespace tandem::monitor
