#include "monitor/metrics.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "base/ticks.hpp"
#include "monitor/families.hpp"

namespace tandem::monitor {
namespace {

using prometheus::ClientMetric;

// From a microsecond to ten seconds: 1, 2.5, 5 of each power of ten.
constexpr std::array bounds_s = {1e-6, 2.5e-6, 5e-6,   1e-5, 2.5e-5, 5e-5,   1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3,
                                 5e-3, 1e-2,   2.5e-2, 5e-2, 1e-1,   2.5e-1, 5e-1, 1.0,    2.5,  5.0,  10.0};

ClientMetric::Histogram histogram_of(const HistogramTotals& ticks) {
  const double tick_s = ns_per_tick() / 1e9;
  ClientMetric::Histogram out;
  out.sample_count = ticks.count();
  out.sample_sum = static_cast<double>(ticks.sum()) * tick_s;
  for (const double bound_s : bounds_s) {
    ClientMetric::Bucket bucket;
    bucket.cumulative_count = ticks.count_up_to(bound_s / tick_s);
    bucket.upper_bound = bound_s;
    out.bucket.push_back(bucket);
  }
  return out;
}

void put_commands(Families& f, const StoreTotals& c) {
  f.counter("tandem_commands_total", "Commands on one key, by what they found. A get of several keys counts each.");
  const auto put = [&f](const char* command, const char* result, std::uint64_t value) {
    f.put(value, {{"command", command}, {"result", result}});
  };
  put("get", "hit", c.get_hits);
  put("get", "miss", c.get_misses);
  put("delete", "hit", c.delete_hits);
  put("delete", "miss", c.delete_misses);
  put("incr", "hit", c.incr_hits);
  put("incr", "miss", c.incr_misses);
  put("decr", "hit", c.decr_hits);
  put("decr", "miss", c.decr_misses);
  put("touch", "hit", c.touch_hits);
  put("touch", "miss", c.touch_misses);
  put("cas", "hit", c.cas_hits);
  put("cas", "miss", c.cas_misses);
  put("cas", "badval", c.cas_badval);
  f.counter("tandem_stores_total", "Commands that store: set, add, replace, append, prepend, cas, ms.");
  f.put(c.cmd_set);
  f.counter("tandem_sets_overwritten_total",
            "Of these, sets that another one of their key overwrote before they wrote.");
  f.put(c.set_overwritten);
  f.counter("tandem_store_errors_total", "Stores that were refused.");
  f.put(c.store_too_large, {{"reason", "too_large"}});
  f.put(c.store_no_memory, {{"reason", "no_memory"}});
}

// Of a server that has one.
void put_memory_file(Families& f, const net::ServerSnapshot& s) {
  if (!s.engine.has_file) return;
  f.gauge("tandem_restart_items", "Items that were taken over from the memory file at the start.");
  f.put(s.restart_items.value_or(0));
  f.gauge("tandem_memory_file_failed",
          "1: something of the memory file could not be written, and its items were dropped.");
  f.put(s.engine.is_file_failed ? 1 : 0);
  f.counter("tandem_memory_file_refusals_total",
            "Times that the file system had no room for a page of the memory file.");
  f.put(s.engine.file_refusals);
}

void put_items(Families& f, const EngineStats& e) {
  f.gauge("tandem_items", "Items in the store, expired ones that were not met yet included.");
  f.put(e.items);
  f.gauge("tandem_items_bytes", "Bytes of the slots that items take.");
  f.put(e.item_bytes);
  f.counter("tandem_items_stored_total", "Items stored, replaced ones included.");
  f.put(e.counters.total_items);
  f.counter("tandem_evictions_total", "Items dropped for room before they expired.");
  f.put(e.counters.evictions);
  f.counter("tandem_evictions_unfetched_total", "Of these, items that nobody had asked for.");
  f.put(e.counters.evicted_unfetched);
  f.counter("tandem_reclaimed_total", "Items given back because they had expired or were flushed.");
  f.put(e.counters.reclaimed);

  f.gauge("tandem_memory_limit_bytes", "The limit of heap and index together (-m).");
  f.put(e.memory_limit_bytes);
  f.gauge("tandem_memory_used_bytes", "Of the limit in use.");
  f.put(e.memory_used_bytes);
  f.gauge("tandem_index_bytes", "Bytes of the index.");
  f.put(e.index_bytes);
  const auto by_class = [&f, &e](auto value_of) {
    for (const ClassStats& c : e.classes) {
      if (c.pages != 0 || c.evictions != 0) f.put(value_of(c), {{"class", fmt::format("{}", c.slot_bytes)}});
    }
  };
  f.gauge("tandem_memory_bytes", "Bytes of pages by size class, which is named by its slots' bytes.");
  by_class([](const ClassStats& c) { return c.pages * page_bytes; });
  f.gauge("tandem_class_items", "Slots in use by size class.");
  by_class([](const ClassStats& c) { return c.slots_used; });
  f.counter("tandem_class_evictions_total", "Items dropped for room by size class.");
  by_class([](const ClassStats& c) { return c.evictions; });
}

void put_range_reads(Families& f, const net::ServerSnapshot& s) {
  f.counter("tandem_range_reads_total", "Range reads (mr).");
  f.put(s.net.range_reads);
  f.counter("tandem_range_items_total", "Items that range reads found.");
  f.put(s.net.range_items);
  f.counter("tandem_range_removes_total", "Ranges whose keys were removed (mx).");
  f.put(s.net.range_removes);
  f.counter("tandem_range_removed_items_total", "Items that these removed.");
  f.put(s.net.range_removed);
  f.counter("tandem_items_arranged_total", "Small items that were rewritten in the order of their keys.");
  f.put(s.engine.counters.items_arranged);
}

void put_datagrams(Families& f, const net::ServerSnapshot& s) {
  f.counter("tandem_udp_datagrams_total", "Datagrams received, of sockets and of AF_XDP.");
  f.put(s.net.udp_requests);
  f.counter(
      "tandem_udp_dropped_total",
      "Requests that are no frame of one datagram or too many for a batch, and replies that were too long or found "
      "the socket full.");
  f.put(s.net.udp_requests_dropped, {{"what", "request"}});
  f.put(s.net.udp_replies_dropped, {{"what", "reply"}});
  if (!s.xdp) return;
  f.gauge("tandem_xdp_info", "The interface whose packets AF_XDP sockets get, and how.");
  f.put(1, {{"interface", s.xdp->interface},
            {"mode", s.xdp->native ? "native" : "generic"},
            {"zero_copy", s.xdp->zero_copy ? "yes" : "no"}});
  f.counter("tandem_xdp_frames_total", "Packets given to AF_XDP sockets.");
  f.put(s.net.xdp_frames);
  f.counter("tandem_xdp_wrong_frames_total", "Of these: dropped for their headers, or for a checksum.");
  f.put(s.net.xdp_wrong_frames, {{"reason", "headers"}});
  f.put(s.net.xdp_wrong_sums, {{"reason", "checksum"}});
}

void put_network(Families& f, const net::ServerSnapshot& s) {
  f.gauge("tandem_connections", "Open connections.");
  f.put(s.connections);
  f.gauge("tandem_connections_max", "The most at a time (-c).");
  f.put(s.connections_max);
  f.counter("tandem_connections_accepted_total", "Connections accepted.");
  f.put(s.total_connections);
  f.counter("tandem_connections_rejected_total", "Connections refused because there were too many.");
  f.put(s.rejected_connections);
  f.gauge("tandem_worker_connections", "Open connections by worker thread.");
  for (std::size_t w = 0; w < s.worker_connections.size(); ++w)
    f.put(s.worker_connections[w], {{"worker", fmt::format("{}", w)}});
  f.counter("tandem_accept_failures_total", "Times that a client found no descriptor or memory for its connection.");
  f.put(s.accept_failures);
  f.counter("tandem_auth_errors_total", "Attempts to authenticate that failed.");
  f.put(s.auth_errors);
  if (s.certificate_not_after) {
    f.counter("tandem_tls_handshake_errors_total", "Connections that ended before their TLS handshake did.");
    f.put(s.net.ssl_handshake_errors);
    f.gauge("tandem_tls_certificate_not_after_seconds", "Unix time at which the certificate's validity ends.");
    f.put(*s.certificate_not_after);
  }
  if (s.config_version) {
    f.gauge("tandem_config_version", "Version of the fleet's list of nodes (config get cluster); 0: there is none.");
    f.put(*s.config_version);
  }
  f.counter("tandem_network_bytes_total", "Bytes from and to clients.");
  f.put(s.net.bytes_read, {{"direction", "received"}});
  f.put(s.net.bytes_written, {{"direction", "sent"}});
  put_datagrams(f, s);
  put_range_reads(f, s);
}

void put_latencies(Families& f, const net::ServerSnapshot& s) {
  f.histogram("tandem_command_duration_seconds",
              "From a command's receipt to the return of the send with its reply. Estimated from sampled passes; all "
              "slow batches are in it.");
  for (std::size_t c = 0; c < command_count; ++c) {
    if (s.latency.ticks[c].count() != 0)
      f.put(histogram_of(s.latency.ticks[c]), {{"command", std::string(command_names[c])}});
  }
  f.counter("tandem_task_seconds_total", "Time in each task of the pipeline, estimated from samples.");
  const double tick_s = ns_per_tick() / 1e9;
  for (std::size_t t = 0; t < task_count; ++t)
    f.put(static_cast<double>(s.task_costs[t].cycles) * tick_s * Sampler::mean, {{"task", std::string(task_names[t])}});
  f.counter("tandem_task_queries_total", "Queries that the time was spent on, estimated alike.");
  for (std::size_t t = 0; t < task_count; ++t)
    f.put(s.task_costs[t].queries * Sampler::mean, {{"task", std::string(task_names[t])}});
  const auto of_each_processor = [&](auto value) {
    for (std::size_t t = 0; t < task_count; ++t) {
      for (std::size_t p = 0; p < processor_count; ++p) {
        f.put(value(static_cast<Task>(t), static_cast<Processor>(p)),
              {{"task", std::string(task_names[t])}, {"processor", std::string(processor_names[p])}});
      }
    }
  };
  f.counter("tandem_task_processor_queries_total", "Queries of all batches for which the processor ran the task.");
  of_each_processor([&](Task t, Processor p) { return s.ran.of(t, p); });
  f.gauge("tandem_task_processor", "The processor's share of the task's queries.");
  of_each_processor([&](Task t, Processor p) { return s.ran.share(t, p); });
}

// of_each(value): a value of each GPU's DeviceStats, with labels.
template <class OfEach>
void put_replicas(Families& f, OfEach of_each) {
  f.gauge("tandem_gpu_replica_lag_cells", "Changes that the replica of the index does not have yet.");
  of_each([](const DeviceStats& d) { return d.replica.lag; });
  f.counter("tandem_gpu_replica_cells_total", "Changed cells that were sent.");
  of_each([](const DeviceStats& d) { return d.replica.cells; });
  f.counter("tandem_gpu_replica_uploads_total", "Times that the whole index was sent.");
  of_each([](const DeviceStats& d) { return d.replica.uploads; });
  f.counter("tandem_gpu_replica_rests_total", "Times that the replica was let rest, as too much was written.");
  of_each([](const DeviceStats& d) { return d.rests; });
  f.counter("tandem_gpu_replica_returns_total", "Returns from rests: warm, by what had changed, or whole.");
  of_each([](const DeviceStats& d) { return d.replica.returns_warm; }, {{"by", "changes"}});
  of_each([](const DeviceStats& d) { return d.replica.returns_whole; }, {{"by", "upload"}});
  f.counter("tandem_gpu_replica_return_bytes_total", "Of changes, sent in returns from rests.");
  of_each([](const DeviceStats& d) { return d.replica.return_bytes; });
  f.counter("tandem_gpu_replica_overflows_total", "Times that the log of changes overflowed.");
  of_each([](const DeviceStats& d) { return d.replica.overflows; });
}

void put_planner(Families& f, const net::ServerSnapshot& s) {
  if (!s.planner) return;
  const PlanChoice& choice = s.planner->choice;
  f.gauge("tandem_planner_choice", "1: the plan of most workers, the level of upkeep, and why.");
  f.put(1, {{"plan", std::string(SteeringStats::name_of(choice.even))},
            {"level", std::string(upkeep_level_names[static_cast<std::size_t>(choice.level)])},
            {"reason", std::string(plan_reason_names[static_cast<std::size_t>(choice.reason)])}});
  f.counter("tandem_planner_probes_total", "Comparisons of two plans.");
  f.put(s.planner->counts.probes);
  f.counter("tandem_planner_probe_loss_seconds_total", "Time of workers that they cost.");
  f.put(static_cast<double>(s.planner->counts.probe_loss_ns) / 1e9);
}

void put_hot_table(Families& f, const net::ServerSnapshot& s) {
  f.gauge("tandem_hot_keys", "Keys that the host answers, though a GPU has the index (preset kvcg).");
  f.put(s.hot->table.keys);
  f.counter("tandem_hot_queries_total", "Queries of hot keys, answered without a GPU.");
  f.put(s.engine.counters.hot_queries);
  f.counter("tandem_hot_key_changes_total", "Keys that turned hot or cold, and changes of hot keys told to a GPU.");
  f.put(s.hot->table.promoted, {{"change", "hot"}});
  f.put(s.hot->table.cleaned, {{"change", "cold"}});
  f.put(s.hot->table.replayed, {{"change", "replayed"}});
  f.counter("tandem_hot_models_total", "Models of which keys are hot that were adopted.");
  f.put(s.hot->router.model);
  f.histogram("tandem_hot_duration_seconds", "As tandem_command_duration_seconds, by whether a GPU was waited for.");
  f.put(histogram_of(s.hot->latency.hot), {{"keys", "hot"}});
  f.put(histogram_of(s.hot->latency.cold), {{"keys", "cold"}});
}

void put_left_to_host(Families& f, const StoreTotals& c) {
  f.counter("tandem_gpu_stolen_queries_total", "Queries that workers kept as the GPUs did not keep up (--gpu-steal).");
  f.put(c.device_stolen);
  f.counter("tandem_gpu_misses_rechecked_total", "Misses of the GPUs' that the host looked into.");
  f.put(c.device_rechecks);
  f.counter("tandem_gpu_lines_left_total", "Lines that a GPU left to the host, by reason.");
  f.put(c.device_left_other, {{"reason", "other"}});
  f.put(c.device_left_item, {{"reason", "item"}});
  f.put(c.device_left_length, {{"reason", "length"}});
  f.put(c.device_left_room, {{"reason", "room"}});
  f.put(c.device_left_headers, {{"reason", "headers"}});
  f.put(c.device_left_checksum, {{"reason", "checksum"}});
}

// Each family has a value for each GPU.
void put_devices(Families& f, const net::ServerSnapshot& s) {
  const std::vector<DeviceStats>& devices = s.devices;
  if (devices.empty()) return;
  const auto of_each_with = [&](auto has, auto value, const Labels& more = {}) {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (!has(devices[i])) continue;
      Labels labels = more;
      labels.push_back({"gpu", fmt::format("{}", i)});
      f.put(value(devices[i]), std::move(labels));
    }
  };
  const auto of_each = [&](auto value, const Labels& more = {}) {
    of_each_with([](const DeviceStats&) { return true; }, value, more);
  };
  f.gauge("tandem_gpu_used", "1 while batches may be handed over: all GPUs serve.");
  f.put(std::ranges::all_of(devices, [](const DeviceStats& d) { return d.serves; }) ? 1 : 0);
  f.gauge("tandem_gpu_serves", "1 while the GPU's replica can be searched.");
  for (std::size_t i = 0; i < devices.size(); ++i)
    f.put(devices[i].serves ? 1 : 0, {{"gpu", fmt::format("{}", i)}, {"name", devices[i].name}});
  f.gauge("tandem_gpu_batch_queries_min", "Smallest batch that the GPU answers sooner than the host; absent: none is.");
  of_each_with([](const DeviceStats& d) { return d.queries_min != RoundTrip::never; },
               [](const DeviceStats& d) { return d.queries_min; });
  f.counter("tandem_gpu_launches_total", "Searches that were launched.");
  of_each([](const DeviceStats& d) { return d.launches; });
  f.counter("tandem_gpu_batches_total",
            "Batches, or the GPU's parts of them, that were handed over, by what became of them.");
  of_each([](const DeviceStats& d) { return d.searched_batches; }, {{"result", "searched"}});
  of_each([](const DeviceStats& d) { return d.refused_batches; }, {{"result", "refused"}});
  of_each([](const DeviceStats& d) { return d.failed_batches; }, {{"result", "failed"}});
  f.counter("tandem_gpu_queries_total", "Queries of the launches.");
  of_each([](const DeviceStats& d) { return d.queries; });
  f.counter("tandem_gpu_kernel_seconds_total", "Time of the launches on the GPU.");
  of_each([](const DeviceStats& d) { return static_cast<double>(d.device_ns) / 1e9; });
  f.counter("tandem_gpu_cycle_seconds_total", "From the hand-over of a launch's first batch to its end, summed.");
  of_each([](const DeviceStats& d) { return static_cast<double>(d.cycle_ns) / 1e9; });
  put_left_to_host(f, s.engine.counters);
  if (std::ranges::any_of(devices, [](const DeviceStats& d) { return d.replica.images_on; })) {
    f.counter("tandem_gpu_value_hits_total", "Hits that were answered with a GPU's copy of the item.");
    f.put(s.engine.counters.device_images);
    f.counter("tandem_gpu_requests_answered_total", "Requests that a GPU answered whole, from their bytes.");
    f.put(s.engine.counters.device_requests);
    f.counter("tandem_gpu_value_bytes_sent_total", "Of items, to the GPU.");
    of_each([](const DeviceStats& d) { return d.replica.granules * granule_bytes; });
  }
  put_replicas(f, of_each);
  const auto has_power = [](const DeviceStats& d) { return d.power_mw.has_value(); };
  if (std::ranges::any_of(devices, has_power)) {
    f.gauge("tandem_gpu_power_watts", "What the GPU's board draws.");
    of_each_with(has_power, [](const DeviceStats& d) { return *d.power_mw / 1e3; });
  }
  f.gauge("tandem_gpu_memory_bytes", "Memory that the replica takes, by place.");
  of_each([](const DeviceStats& d) { return d.replica.device_bytes; }, {{"place", "gpu"}});
  of_each([](const DeviceStats& d) { return d.replica.pinned_bytes; }, {{"place", "pinned"}});
}

void put_hot_keys(Families& f, const net::ServerSnapshot& s, const HotKeys& hot) {
  if (!s.hot_keys_enabled) return;
  f.gauge("tandem_hot_key_share",
          "Share of requests that ask for the hottest keys, by rank; `stats hotkeys` and the page name them.");
  for (std::size_t i = 0; i < hot_key_ranks; ++i)
    f.put(i < hot.keys.size() ? hot.keys[i].share : 0, {{"rank", fmt::format("{}", i + 1)}});
}

// 0: they cannot be counted.
std::uint64_t open_files() {
  std::error_code error;
  std::uint64_t count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end; it.increment(error))
    ++count;
  return error || count == 0 ? 0 : count - 1;  // the folder's own
}

void put_process(Families& f, const net::ServerSnapshot& s, std::string_view version, std::string_view commit) {
  f.gauge("tandem_build_info", "1; version and commit are labels.");
  f.put(1, {{"version", std::string(version)}, {"commit", std::string(commit)}});
  f.gauge("tandem_uptime_seconds", "Since the start.");
  f.put(s.uptime_s);
  f.counter("tandem_flushes_total", "flush_all commands.");
  f.put(s.flushes);
  f.gauge("process_start_time_seconds", "Unix time of the start.");
  static const std::time_t started_at = std::time(nullptr) - static_cast<std::time_t>(s.uptime_s);  // never another
  f.put(started_at);
  if (const std::uint64_t files = open_files(); files != 0) {
    f.gauge("process_open_fds", "Open files, connections included.");
    f.put(files);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  f.counter("process_cpu_seconds_total", "User and system time of the process.");
  f.put(seconds(usage.ru_utime) + seconds(usage.ru_stime));
  std::uint64_t all_pages = 0, resident_pages = 0;
  if (std::ifstream("/proc/self/statm") >> all_pages >> resident_pages) {
    f.gauge("process_resident_memory_bytes", "Memory of the process that is in RAM.");
    f.put(resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
  }
}

}  // namespace

std::string metrics_text(const net::ServerSnapshot& snapshot, const HotKeys& hot, std::string_view version,
                         std::string_view commit) {
  Families f;
  put_process(f, snapshot, version, commit);
  put_commands(f, snapshot.engine.counters);
  put_latencies(f, snapshot);
  put_devices(f, snapshot);
  if (snapshot.hot) put_hot_table(f, snapshot);
  put_planner(f, snapshot);
  put_items(f, snapshot.engine);
  put_memory_file(f, snapshot);
  put_network(f, snapshot);
  put_hot_keys(f, snapshot, hot);
  return f.text();
}

}  // namespace tandem::monitor
