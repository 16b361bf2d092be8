#include "operate/telemetry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <ranges>
#include <type_traits>

#include "base/ticks.hpp"
#include "codec/url_encode.hpp"
#include "net/tls_context.hpp"
#include "operate/stat_line.hpp"

namespace tandem::net {
namespace {

// A walk for big keys examines at most so many slots.
constexpr std::uint64_t slots_looked_at_max = 128 * 1024;
constexpr int telling_rest = 10;  // a reply that took t is reused for so many t
constexpr int walk_rest = 50;     // the result of a walk that took t is reused for so many t

constexpr std::pair<std::string_view, double> quantiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}};

// Larger values first, then by key, so that equal answers look the same.
bool is_bigger(const BigKey& a, const BigKey& b) {
  return a.value_bytes != b.value_bytes ? a.value_bytes > b.value_bytes : a.key < b.key;
}

void put_device(StatSink& sink, std::string_view prefix, const DeviceStats& d) {
  const auto stat = [&](std::string_view name, const auto& value) {
    put(sink, fmt::format("{}{}", prefix, name), value);
  };
  const auto tenths = [&stat](std::string_view name, double value) { stat(name, fmt::format("{:.1f}", value)); };
  stat("name", d.name);
  stat("number", d.number);
  stat("backend", d.backend);
  if (!d.lost_reason.empty()) stat("lost", d.lost_reason);
  tenths("round_trip_us", d.costs.device_ns / 1000);
  tenths("round_trip_query_ns", d.costs.device_query_ns);
  tenths("host_query_ns", d.costs.host_query_ns);
  stat("launches", d.launches);
  stat("batches", d.batches);
  stat("queries", d.queries);
  const auto launches = static_cast<double>(std::max<std::uint64_t>(d.launches, 1));
  tenths("queries_per_launch", static_cast<double>(d.queries) / launches);
  tenths("kernel_us_per_launch", static_cast<double>(d.device_ns) / 1000 / launches);
  tenths("cycle_us_per_launch", static_cast<double>(d.cycle_ns) / 1000 / launches);
  stat("refused_batches", d.refused_batches);
  stat("failed_batches", d.failed_batches);
  if (d.replica.images_on || d.replica.images_given_up) {
    stat("values", d.replica.images_on ? "on" : "no memory");
    stat("values_bytes", d.replica.image_bytes);
    stat("values_granules_sent", d.replica.granules);
    stat("values_mark_clears", d.replica.mark_clears);
  }
  stat("index", d.has_index ? "device" : "replica");
  if (d.has_index) {
    stat("index_cells", d.cells);
    stat("index_resident_keys", d.resident);
  }
  stat("replica_state", name_of(d.replica.state));
  if (d.replica.state == ReplicaState::absent) stat("replica_absence", name_of(d.replica.absence));
  stat("replica_rests", d.rests);
  stat("replica_returns_warm", d.replica.returns_warm);
  stat("replica_returns_whole", d.replica.returns_whole);
  stat("replica_return_bytes", d.replica.return_bytes);
  tenths("replica_dirty_percent", static_cast<double>(d.replica.dirty_permille) / 10);
  stat("replica_map_bytes", d.replica.map_bytes);
  if (d.replica.map_lacks_bytes != 0) stat("replica_map_lacks_bytes", d.replica.map_lacks_bytes);
  stat("replica_lag", d.replica.lag);
  stat("uploads", d.replica.uploads);
  stat("uploaded_bytes", d.replica.uploaded_bytes);
  stat("drains", d.replica.drains);
  stat("drains_by_workers", d.replica.relieved);
  stat("log_records", d.replica.records);
  stat("log_repeats", d.replica.repeats);
  stat("log_images", d.replica.rewrites);
  stat("log_overflows", d.replica.overflows);
  stat("cells_sent", d.replica.cells);
  stat("busy", d.replica.busy);
  stat("failures", d.replica.failures);
  if (d.power_mw) tenths("power_watts", *d.power_mw / 1e3);
  stat("memory_total_bytes", d.memory_bytes);
  stat("replica_bytes", d.replica.device_bytes);
  stat("pinned_bytes", d.replica.pinned_bytes);
  stat("log_bytes", d.replica.log_bytes);
}

void put_hot_table(StatSink& sink, const HotKeyStats& hot, std::uint64_t queries) {
  const auto stat = [&sink](std::string_view name, const auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, double>) {
      put(sink, fmt::format("gpu:hot_{}", name), fmt::format("{:.6f}", value));
    } else {
      put(sink, fmt::format("gpu:hot_{}", name), value);
    }
  };
  stat("keys", hot.table.keys);
  stat("keys_max", hot.table.keys_max);
  stat("queries", queries);
  stat("promoted", hot.table.promoted);
  stat("cleaned", hot.table.cleaned);
  stat("replayed", hot.table.replayed);
  stat("slots_held", hot.table.held);
  hot.router.for_each([&stat](std::string_view name, const auto& value) { stat(name, value); });
  const double us = ns_per_tick() / 1e3;
  for (const auto& [name, ticks] : {std::pair("hot", &hot.latency.hot), std::pair("cold", &hot.latency.cold)}) {
    for (const auto& [quantile, share] : {std::pair("p50", 0.5), std::pair("p99", 0.99)})
      put(sink, fmt::format("gpu:{}_{}_us", name, quantile), fmt::format("{:.1f}", ticks->quantile(share) * us));
  }
}

}  // namespace

LatencyTotals Telemetry::all_latencies() const {
  LatencyTotals totals;
  for (const auto& worker : *workers_) totals.add(worker->latency());
  return totals;
}

ServerSnapshot Telemetry::snapshot() const {
  ServerSnapshot s;
  s.engine = state_.engine.stats();
  s.task_costs = state_.engine.task_costs();
  s.ran = state_.engine.tasks_ran();
  s.hot = state_.engine.hot_key_stats();
  s.connections = state_.connections.load(std::memory_order_relaxed);
  s.connections_max = state_.options.connections_max;
  s.total_connections = state_.total_connections.get();
  s.rejected_connections = state_.rejected_connections.get();
  s.accept_failures = state_.accept_failures.get();
  s.flushes = state_.flushes.load(std::memory_order_relaxed);
  for (const Credentials* credentials : {state_.sasl.get(), state_.auth_file.get()})
    s.auth_errors += credentials == nullptr ? 0 : credentials->failures();
  if (state_.options.xdp != nullptr) s.xdp = state_.options.xdp->facts();
  if (state_.tls != nullptr) s.certificate_not_after = state_.tls->not_after();
  if (s.engine.has_file) s.restart_items = state_.engine.restart() ? state_.engine.restart()->items : 0;
  if (!state_.options.control_path.empty()) s.config_version = state_.config.version();
  s.uptime_s = state_.engine.shared().clock.uptime_s();
  for (const auto& worker : *workers_) {
    s.net.add(worker->counters());
    s.worker_connections.push_back(worker->connection_count());
  }
  s.hot_keys_enabled = state_.options.hot_keys;
  s.devices = state_.engine.device_stats();
  if (const Steering* const steering = state_.engine.steering()) s.planner = steering->stats();
  const std::lock_guard lock(mutex_);
  s.latency = all_latencies();
  s.latency.subtract(latency_base_);
  s.tasks = state_.engine.task_latencies();
  for (std::size_t t = 0; t < task_count; ++t) s.tasks[t].subtract(tasks_base_[t]);
  return s;
}

HotKeys Telemetry::hot_keys(std::size_t count_max) const {
  const std::uint32_t now_s = state_.engine.shared().clock.now_s();
  std::vector<HotKeyCounter::Snapshot> sketches;
  for (const auto& worker : *workers_) {
    if (HotKeyCounter* counter = worker->hot_keys()) sketches.push_back(counter->read(now_s));
  }
  return merge_hot_keys(sketches, count_max);
}

BigKeys Telemetry::big_keys(std::size_t count_max) {
  const std::lock_guard lock(walk_mutex_);
  const auto begin = std::chrono::steady_clock::now();
  if (begin >= walk_holds_until_) {
    walk();
    const auto end = std::chrono::steady_clock::now();
    walk_holds_until_ = end + walk_rest * (end - begin);
  }
  BigKeys out = walked_;
  if (out.keys.size() > count_max) out.keys.resize(count_max);
  return out;
}

// REQUIRES: walk_mutex_ is held.
void Telemetry::walk() {
  const Heap& heap = state_.engine.shared().heap;
  const std::uint32_t now_s = state_.engine.shared().clock.now_s();
  const std::uint64_t flush_cas = state_.engine.shared().flush_cas.load(std::memory_order_acquire);
  walked_ = {};
  std::vector<BigKey>& found = walked_.keys;  // a heap with the smallest on top once it is full

  const std::uint32_t classes = heap.class_count();
  std::vector<std::vector<PageId>> pages(classes + 1);  // huge ones last
  for (PageId page = 1; page < heap.page_end(); ++page) {
    if (!heap.has_items(page)) continue;
    pages[std::min<std::uint32_t>(heap.class_of(page_location(page)), classes)].push_back(page);
  }

  const auto look = [&](Location, const Item* item) {
    ++walked_.items_looked_at;
    if (is_over(ItemVersion::of(item), now_s, flush_cas)) return;
    const std::uint64_t value_bytes = heap.value_bytes(item);
    if (found.size() == keys_told_max) {
      if (value_bytes <= found.front().value_bytes) return;
      std::ranges::pop_heap(found, is_bigger);
      found.pop_back();
    }
    found.push_back({.key = std::string(item->key()), .value_bytes = value_bytes});
    std::ranges::push_heap(found, is_bigger);
  };
  std::uint64_t slots_left = slots_looked_at_max;
  for (std::uint32_t c = classes + 1; c-- > 0;) {
    if (pages[c].empty()) continue;
    const bool huge = c == classes;
    // Values of this class and smaller ones are smaller than those found.
    if (!huge && found.size() == keys_told_max &&
        found.front().value_bytes >= heap.slot_bytes(static_cast<SizeClass>(c)))
      break;
    const std::uint64_t slots_per_page = huge ? 1 : heap.classes()[static_cast<SizeClass>(c)].slots_per_page;
    const std::uint64_t affordable = slots_left / slots_per_page;
    if (affordable < pages[c].size()) walked_.exact = false;
    if (affordable == 0) break;
    // Too many: some, evenly spread.
    const std::uint64_t step = (pages[c].size() + affordable - 1) / affordable;
    for (std::size_t i = 0; i < pages[c].size(); i += step) {
      context_->epoch.enter();
      heap.visit_page(pages[c][i], look);
      context_->epoch.exit();
      slots_left -= std::min(slots_left, slots_per_page);
    }
  }
  std::ranges::sort(found, is_bigger);
}

void Telemetry::reset() {
  {
    const std::lock_guard lock(mutex_);
    latency_base_ = all_latencies();
    tasks_base_ = state_.engine.task_latencies();
  }
  for (const auto& worker : *workers_) {
    if (HotKeyCounter* counter = worker->hot_keys()) counter->clear();
  }
  const auto forget = [](Told& told) {
    const std::lock_guard lock(told.mutex);
    told.holds_until = {};
  };
  forget(latency_told_);
  forget(histograms_told_);
  for (Told& told : hot_keys_told_) forget(told);
}

template <class F>
void Telemetry::tell(Told& told, StatSink& sink, F make) {
  class Lines final : public StatSink {
   public:
    explicit Lines(Told& told) : told_(told) {}
    void stat(std::string_view name, std::string_view value) override { told_.lines.emplace_back(name, value); }

   private:
    Told& told_;
  };
  const std::lock_guard lock(told.mutex);
  const auto begin = std::chrono::steady_clock::now();
  if (begin >= told.holds_until) {
    told.lines.clear();
    Lines lines(told);
    make(lines);
    const auto end = std::chrono::steady_clock::now();
    told.holds_until = end + telling_rest * (end - begin);
  }
  for (const auto& [name, value] : told.lines) sink.stat(name, value);
}

bool Telemetry::stats(std::string_view group, StatSink& sink) {
  std::size_t count = keys_told_default;
  if (const std::size_t space = group.find(' '); space != std::string_view::npos) {
    const std::string_view number = group.substr(space + 1);
    std::from_chars(number.data(), number.data() + number.size(), count);  // the parser has checked it
    count = std::min(count, keys_told_max);
    group = group.substr(0, space);
  }
  if (group == "latency") {
    tell(latency_told_, sink, [this](StatSink& to) { stats_latency(to); });
  } else if (group == "histograms") {
    tell(histograms_told_, sink, [this](StatSink& to) { stats_histograms(to); });
  } else if (group == "gpu") {
    stats_device(sink);
  } else if (group == "planner") {
    stats_planner(sink);
  } else if (group == "hotkeys") {
    tell(hot_keys_told_[count], sink, [this, count](StatSink& to) { stats_hot_keys(count, to); });
  } else if (group == "bigkeys") {
    stats_big_keys(count, sink);
  } else {
    return false;
  }
  return true;
}

// Commands in microseconds, tasks in nanoseconds per query.
void Telemetry::stats_latency(StatSink& sink) const {
  const ServerSnapshot s = snapshot();
  const auto lines = [&sink](std::string_view kind, std::string_view name, const HistogramTotals& h,
                             std::string_view unit, double unit_ticks) {
    const auto stat = [&](std::string_view what, double ticks) {
      put(sink, fmt::format("{}:{}:{}_{}", kind, name, what, unit), fmt::format("{:.1f}", ticks * unit_ticks));
    };
    put(sink, fmt::format("{}:{}:count", kind, name), h.count());
    if (h.count() == 0) return;
    for (const auto& [what, share] : quantiles) stat(what, h.quantile(share));
    stat("max", static_cast<double>(h.max()));
  };
  const double tick_ns = ns_per_tick();
  for (std::size_t c = 0; c < command_count; ++c) {
    if (s.latency.ticks[c].count() != 0) lines("command", command_names[c], s.latency.ticks[c], "us", tick_ns / 1000);
  }
  for (std::size_t t = 0; t < task_count; ++t) lines("task", task_names[t], s.tasks[t], "ns", tick_ns);
}

// Of commands and tasks that were sampled: nanoseconds and how often, of each bucket that is not empty. The difference
// of two replies is what happened in between.
void Telemetry::stats_histograms(StatSink& sink) const {
  const ServerSnapshot s = snapshot();
  const double tick_ns = ns_per_tick();
  const auto line = [&](std::string_view kind, std::string_view name, const HistogramTotals& h) {
    std::string buckets;
    h.visit([&](double ticks, std::uint64_t count) {
      fmt::format_to(std::back_inserter(buckets), "{}{:.1f}:{}", buckets.empty() ? "" : " ", ticks * tick_ns, count);
    });
    if (!buckets.empty()) put(sink, fmt::format("{}:{}:ns", kind, name), buckets);
  };
  for (std::size_t c = 0; c < command_count; ++c) line("command", command_names[c], s.latency.ticks[c]);
  for (std::size_t t = 0; t < task_count; ++t) line("task", task_names[t], s.tasks[t]);
}

void Telemetry::stats_planner(StatSink& sink) const {
  const auto stat = [&sink](std::string_view name, const auto& value) {
    put(sink, fmt::format("planner:{}", name), value);
  };
  Steering* const steering = state_.engine.steering();
  stat("chooses", steering != nullptr ? "yes" : "no");
  if (steering == nullptr) return;
  steering->stats().for_each([&stat](std::string_view name, const auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, double>) {
      stat(name, fmt::format("{:.1f}", value));
    } else {
      stat(name, value);
    }
  });
}

void Telemetry::stats_device(StatSink& sink) const {
  const std::vector<DeviceStats> devices = state_.engine.device_stats();
  const auto stat = [&sink](std::string_view name, const auto& value) {
    put(sink, fmt::format("gpu:{}", name), value);
  };
  stat("present", devices.empty() ? "no" : "yes");
  stat("preset", presets()[state_.options.preset].name);
  stat("index_kind", state_.engine.options().index_kind);
  if (devices.empty()) return;
  stat("count", devices.size());
  const Schedulers& schedulers = *state_.engine.schedulers();
  stat("serves", schedulers.serves() ? "yes" : "no");
  // Other presets hand every batch over.
  if (presets()[state_.options.preset].has_threshold) {
    const std::uint32_t queries_min = std::ranges::max(devices | std::views::transform(&DeviceStats::queries_min));
    if (queries_min == RoundTrip::never) {
      stat("queries_min", "never");
    } else {
      stat("queries_min", queries_min);
    }
  }
  const StoreTotals counters = state_.engine.stats().counters;
  NetTotals net;
  for (const auto& worker : *workers_) net.add(worker->counters());
  stat("misses_rechecked", counters.device_rechecks);
  stat("queries_stolen", counters.device_stolen);
  const auto has_images = [](const DeviceStats& d) { return d.replica.images_on || d.replica.images_given_up; };
  if (std::ranges::any_of(devices, has_images)) {
    stat("values_hits", counters.device_images);
    stat("requests_answered", counters.device_requests);
    stat("streams_answered", net.device_streams);
  }
  stat("lines_left_other", counters.device_left_other);
  stat("lines_left_item", counters.device_left_item);
  stat("lines_left_length", counters.device_left_length);
  stat("lines_left_room", counters.device_left_room);
  stat("lines_left_headers", counters.device_left_headers);
  stat("lines_left_checksum", counters.device_left_checksum);
  const TasksRan ran = state_.engine.tasks_ran();
  for (std::size_t t = 0; t < task_count; ++t) {
    for (std::size_t p = 0; p < processor_count; ++p)
      stat(fmt::format("{}:{}_queries", task_names[t], processor_names[p]), ran.queries[t][p]);
  }
  if (const auto hot = state_.engine.hot_key_stats()) put_hot_table(sink, *hot, counters.hot_queries);
  if (devices.size() == 1) return put_device(sink, "gpu:", devices.front());
  const auto sum = [&](std::string_view name, std::uint64_t DeviceStats::* count) {
    std::uint64_t all = 0;
    for (const DeviceStats& d : devices) all += d.*count;
    stat(name, all);
  };
  sum("launches", &DeviceStats::launches);
  sum("batches", &DeviceStats::batches);
  sum("queries", &DeviceStats::queries);
  sum("refused_batches", &DeviceStats::refused_batches);
  sum("failed_batches", &DeviceStats::failed_batches);
  for (std::size_t i = 0; i < devices.size(); ++i) put_device(sink, fmt::format("gpu:{}:", i), devices[i]);
}

void Telemetry::stats_hot_keys(std::size_t count_max, StatSink& sink) const {
  put(sink, "hotkeys:enabled", state_.options.hot_keys ? "yes" : "no");
  if (!state_.options.hot_keys) return;
  const HotKeys hot = hot_keys(count_max);
  put(sink, "hotkeys:half_life_s", fmt::format("{:.0f}", HotKeyCounter::half_life_s));
  put(sink, "hotkeys:samples", fmt::format("{:.0f}", hot.samples));
  for (std::size_t i = 0; i < hot.keys.size(); ++i) {
    put(sink, fmt::format("hotkeys:{}:key", i + 1), codec::url_encoded(hot.keys[i].key));
    put(sink, fmt::format("hotkeys:{}:share", i + 1), fmt::format("{:.6f}", hot.keys[i].share));
    put(sink, fmt::format("hotkeys:{}:share_error", i + 1), fmt::format("{:.6f}", hot.keys[i].share_error));
  }
}

void Telemetry::stats_big_keys(std::size_t count_max, StatSink& sink) {
  const BigKeys big = big_keys(count_max);
  put(sink, "bigkeys:items_looked_at", big.items_looked_at);
  put(sink, "bigkeys:exact", big.exact ? "yes" : "no");
  for (std::size_t i = 0; i < big.keys.size(); ++i) {
    put(sink, fmt::format("bigkeys:{}:key", i + 1), codec::url_encoded(big.keys[i].key));
    put(sink, fmt::format("bigkeys:{}:value_bytes", i + 1), big.keys[i].value_bytes);
  }
}

}  // namespace tandem::net
