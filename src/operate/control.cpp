#include "operate/control.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <numeric>
#include <string>
#include <string_view>

#include "net/log.hpp"
#include "net/xdp/xdp.hpp"
#include "operate/stat_line.hpp"

namespace tandem::net {
namespace {

std::string seconds_text(const timeval& t) { return fmt::format("{}.{:06}", t.tv_sec, t.tv_usec); }

std::string_view on_off(bool on) { return on ? "on" : "off"; }
// The protocols that a client may begin with.
std::string_view dialect_text(const ProtocolOptions& options) {
  if (options.takes_text() && options.takes_binary()) return "auto-negotiate";
  return options.takes_text() ? "ascii" : "binary";
}

// memcached's names. A connection that has not sent anything yet has one of its own.
std::string_view state_text(const Connection& c) {
  switch (c.state.load(std::memory_order_relaxed)) {
    case ConnectionState::reading:
      return c.pass.load(std::memory_order_relaxed) == 0 ? "conn_new_cmd" : "conn_read";
    case ConnectionState::executing:
      return "conn_parse_cmd";
    case ConnectionState::keeping:
    case ConnectionState::filling:
      return "conn_nread";
    case ConnectionState::dropping:
      return "conn_swallow";
    case ConnectionState::blocked:
      return "conn_mwrite";
    case ConnectionState::streaming:
      return "conn_watch";
    case ConnectionState::closed:
      return "conn_closing";
  }
  return "conn_closed";
}

// Descriptors that the process has open; 0: they cannot be counted.
std::uint64_t count_descriptors() noexcept {
  std::error_code error;
  std::uint64_t count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end; it.increment(error))
    ++count;
  return error || count == 0 ? 0 : count - 1;  // the directory's own
}

// Counters of the store, by memcached's names and in its order.
using NamedCounter = std::pair<std::string_view, std::uint64_t StoreTotals::*>;
#define TD_X(name) \
  NamedCounter { #name, &StoreTotals::name }
constexpr NamedCounter command_counters[] = {
    TD_X(get_hits),        TD_X(get_misses),     TD_X(get_expired), TD_X(get_flushed), TD_X(delete_misses),
    TD_X(delete_hits),     TD_X(incr_misses),    TD_X(incr_hits),   TD_X(decr_misses), TD_X(decr_hits),
    TD_X(cas_misses),      TD_X(cas_hits),       TD_X(cas_badval),  TD_X(touch_hits),  TD_X(touch_misses),
    TD_X(store_too_large), TD_X(store_no_memory)};
constexpr NamedCounter item_counters[] = {TD_X(total_items), TD_X(expired_unfetched), TD_X(evicted_unfetched),
                                          TD_X(evictions), TD_X(reclaimed)};
constexpr NamedCounter move_counters[] = {TD_X(slab_reassign_rescues), TD_X(slab_reassign_evictions_nomem)};
constexpr NamedCounter maintainer_counters[] = {TD_X(evicted_active), TD_X(direct_reclaims)};
#undef TD_X

void put_counters(StatSink& sink, const StoreTotals& totals, std::span<const NamedCounter> counters) {
  for (const auto& [name, counter] : counters) put(sink, name, totals.*counter);
}

}  // namespace

void Control::observe(const std::vector<std::unique_ptr<Worker>>& workers, const Acceptor& acceptor, int tcp_port,
                      int udp_port) noexcept {
  workers_ = &workers;
  reserved_fds_ = count_descriptors();
  telemetry_.observe(workers);
  acceptor_ = &acceptor;
  tcp_port_ = tcp_port;
  udp_port_ = udp_port;
}

void Control::flush_all(std::uint32_t at_s) {
  state_.flushes.fetch_add(1, std::memory_order_relaxed);
  state_.engine.flush_all(at_s);
}

void Control::set_verbosity(unsigned level) {
  const int verbosity = static_cast<int>(std::min(level, 3u));
  state_.verbosity.store(verbosity, std::memory_order_relaxed);
  set_log_verbosity(verbosity);
}

bool Control::stats(std::string_view group, StatSink& sink) {
  if (group.empty()) {
    general(sink);
  } else if (group == "settings") {
    settings(sink);
  } else if (group == "items") {
    items(sink);
  } else if (group == "slabs") {
    slabs(sink);
  } else if (group == "conns") {
    connections(sink);
  } else if (group == "tandem") {
    own(sink);
  } else if (group == "reset") {
    reset();
  } else {
    return telemetry_.stats(group, sink);
  }
  return true;
}

Control::Totals Control::totals() const noexcept {
  Totals t;
  for (const auto& worker : *workers_) t.net.add(worker->counters());
  t.total_connections = state_.total_connections.get();
  t.rejected_connections = state_.rejected_connections.get();
  t.listen_disabled = state_.listen_disabled.get();
  t.listen_disabled_us = state_.listen_disabled_us.get();
  t.flushes = state_.flushes.load(std::memory_order_relaxed);
  t.log = state_.events.counts();
  for (const Credentials* credentials : {state_.sasl.get(), state_.auth_file.get()}) {
    if (credentials == nullptr) continue;
    t.auth_cmds += credentials->attempts();
    t.auth_errors += credentials->failures();
  }
  return t;
}

void Control::reset() {
  state_.engine.reset_stats();
  state_.prefixes.clear();
  telemetry_.reset();
  const std::lock_guard lock(mutex_);
  reset_base_ = totals();
}

void Control::Totals::subtract(const Totals& base) noexcept {
  net.subtract(base.net);
  total_connections -= base.total_connections;
  rejected_connections -= base.rejected_connections;
  listen_disabled -= base.listen_disabled;
  listen_disabled_us -= base.listen_disabled_us;
  flushes -= base.flushes;
  log.worker_dropped -= base.log.worker_dropped;
  log.worker_written -= base.log.worker_written;
  log.watcher_skipped -= base.log.watcher_skipped;
  log.watcher_sent -= base.log.watcher_sent;
  auth_cmds -= base.auth_cmds;
  auth_errors -= base.auth_errors;
}

void Control::general(StatSink& sink) {
  const EngineStats engine = state_.engine.stats();
  Totals now = totals();
  {
    const std::lock_guard lock(mutex_);
    now.subtract(reset_base_);
  }
  process_stats(sink, now);
  buffer_stats(sink, now);
  command_stats(sink, now, engine.counters);
  put(sink, "bytes_read", now.net.bytes_read);
  put(sink, "bytes_written", now.net.bytes_written);
  put(sink, "limit_maxbytes", engine.memory_limit_bytes);
  put(sink, "accepting_conns", acceptor_->is_accepting() ? 1 : 0);
  put(sink, "listen_disabled_num", now.listen_disabled);
  put(sink, "time_in_listen_disabled_us", now.listen_disabled_us);
  put(sink, "threads", workers_->size());
  put(sink, "conn_yields", now.net.conn_yields);
  put(sink, "hash_power_level", std::bit_width(engine.index_cells) - (engine.index_cells != 0 ? 1 : 0));
  put(sink, "hash_bytes", engine.index_bytes);
  put(sink, "hash_is_expanding", state_.engine.shared().index.wants_growth() ? 1 : 0);
  const CrawlerStats crawler = state_.engine.crawler().stats();
  if (crawler.enabled) {
    put(sink, "lru_crawler_running", crawler.running ? 1 : 0);
    put(sink, "lru_crawler_starts", crawler.starts);
  }
  if (state_.engine.options().reassign) {
    put_counters(sink, engine.counters, move_counters);
    put(sink, "slab_reassign_running", engine.is_moving_pages ? 1 : 0);
    put(sink, "slabs_moved", engine.pages_moved);
  }
  if (state_.options.lru_maintainer) put(sink, "lru_maintainer_juggles", engine.maintenance_turns);
  put(sink, "malloc_fails", 0);  // a process that cannot have the few bytes it needs beside -m ends
  put(sink, "log_worker_dropped", now.log.worker_dropped);
  put(sink, "log_worker_written", now.log.worker_written);
  put(sink, "log_watcher_skipped", now.log.watcher_skipped);
  put(sink, "log_watcher_sent", now.log.watcher_sent);
  put(sink, "log_watchers", state_.events.watcher_count());
  put(sink, "bytes", engine.item_bytes);
  put(sink, "curr_items", engine.items);
  put(sink, "slab_global_page_pool", engine.pages_idle);
  put_counters(sink, engine.counters, item_counters);
  if (state_.options.lru_maintainer) put_counters(sink, engine.counters, maintainer_counters);
  put(sink, "crawler_reclaimed", std::accumulate(crawler.reclaimed.begin(), crawler.reclaimed.end(), std::uint64_t{0}));
  put(sink, "crawler_items_checked", std::accumulate(crawler.checked.begin(), crawler.checked.end(), std::uint64_t{0}));
  tls(sink, now);
  if (!state_.engine.options().memory_file.empty()) restart_stats(sink);
}

void Control::process_stats(StatSink& sink, const Totals& now) const {
  const Clock& clock = state_.engine.shared().clock;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  put(sink, "pid", getpid());
  put(sink, "uptime", clock.uptime_s());
  put(sink, "time", clock.unix_s());
  put(sink, "version", state_.protocol.version);
  put(sink, "pointer_size", 8 * sizeof(void*));
  put(sink, "rusage_user", seconds_text(usage.ru_utime));
  put(sink, "rusage_system", seconds_text(usage.ru_stime));
  put(sink, "max_connections", state_.options.connections_max);
  const std::uint32_t open = state_.connections.load(std::memory_order_relaxed);
  put(sink, "curr_connections", open);
  put(sink, "total_connections", now.total_connections);
  if (state_.options.maxconns_fast) put(sink, "rejected_connections", now.rejected_connections);
  put(sink, "connection_structures", open);
}

// Replies are written into one buffer of each worker. The statistics count the buffers of replies that wait for their
// clients; an unused buffer is freed, so none is free.
void Control::buffer_stats(StatSink& sink, const Totals& now) const {
  Worker::Buffers all{};
  for (const auto& worker : *workers_) {
    const Worker::Buffers one = worker->buffers();
    all.inputs += one.inputs;
    all.input_bytes += one.input_bytes;
    all.outputs += one.outputs;
  }
  put(sink, "response_obj_oom", now.net.response_obj_oom);
  put(sink, "response_obj_count", all.outputs);
  put(sink, "response_obj_bytes", state_.unsent.used_bytes());
  put(sink, "read_buf_count", all.inputs);
  put(sink, "read_buf_bytes", all.input_bytes);
  put(sink, "read_buf_bytes_free", 0);
  put(sink, "read_buf_oom", now.net.read_buf_oom);
  if (reserved_fds_ != 0) put(sink, "reserved_fds", reserved_fds_);
}

void Control::command_stats(StatSink& sink, const Totals& now, const StoreTotals& store) const {
  put(sink, "cmd_get", store.cmd_get);
  put(sink, "cmd_set", store.cmd_set);
  put(sink, "cmd_flush", now.flushes);
  put(sink, "cmd_touch", store.cmd_touch);
  put(sink, "cmd_meta", now.net.cmd_meta);
  put_counters(sink, store, command_counters);
  put(sink, "auth_cmds", now.auth_cmds);
  put(sink, "auth_errors", now.auth_errors);
  if (state_.options.idle_timeout_s != 0) put(sink, "idle_kicks", now.net.idle_kicks);
}

// Tandem's lines, after memcached's, for a server with a memory file.
void Control::restart_stats(StatSink& sink) const {
  const std::optional<RestartReport>& restart = state_.engine.restart();
  put(sink, "restart", !restart ? "none" : restart->was_killed ? "killed" : "closed");
  if (!restart) return;
  put(sink, "restart_items", restart->items);
  put(sink, "restart_expired", restart->expired);
  put(sink, "restart_damaged", restart->damaged);
  put(sink, "restart_no_room", restart->no_room);
  put(sink, "restart_seconds", fmt::format("{:.3f}", restart->seconds));
}

void Control::settings(StatSink& sink) const {
  const ServerOptions& server = state_.options;
  const EngineOptions& engine = state_.engine.options();
  std::string interfaces;
  for (const std::string& address : server.listen) interfaces += (interfaces.empty() ? "" : ",") + address;
  const bool local = !server.unix_path.empty();
  put(sink, "maxbytes", state_.engine.memory_limit_bytes());
  put(sink, "maxconns", server.connections_max);
  put(sink, "tcpport", tcp_port_);
  put(sink, "udpport", udp_port_);
  put(sink, "inter", interfaces.empty() || local ? "NULL" : interfaces);
  put(sink, "verbosity", state_.verbosity.load(std::memory_order_relaxed));
  put(sink, "oldest", 0);
  put(sink, "evictions", on_off(engine.evict));
  put(sink, "domain_socket", local ? server.unix_path : "NULL");
  put(sink, "umask", fmt::format("{:o}", server.unix_mask));
  put(sink, "shutdown_command", yes_no(server.shutdown_enabled));
  put(sink, "growth_factor", fmt::format("{:.2f}", engine.growth_factor));
  put(sink, "chunk_size", engine.slot_bytes_min - sizeof(Item));  // of key, value and flags, as -n counts
  put(sink, "num_threads", server.threads);
  put(sink, "num_threads_per_udp", server.threads);
  put(sink, "stat_key_prefix", std::string(1, state_.prefixes.delimiter()));
  put(sink, "detail_enabled", yes_no((state_.events.flags() & EventLog::detail_flag) != 0));
  put(sink, "reqs_per_event", server.requests_per_event);
  put(sink, "cas_enabled", yes_no(engine.cas));
  put(sink, "tcp_backlog", server.backlog);
  put(sink, "binding_protocol", dialect_text(state_.protocol));
  put(sink, "auth_enabled_sasl", yes_no(server.sasl));
  put(sink, "auth_enabled_ascii", server.auth_file.empty() ? "no" : server.auth_file);
  put(sink, "item_size_max", engine.item_bytes_max);
  put(sink, "maxconns_fast", yes_no(server.maxconns_fast));
  put(sink, "hashpower_init", engine.index_power);
  put(sink, "slab_reassign", yes_no(engine.reassign));
  put(sink, "slab_automove", state_.engine.automove());
  put(sink, "slab_chunk_max", page_bytes);
  put(sink, "dump_enabled", yes_no(server.dump_enabled));
  put(sink, "watcher_logbuf_size", std::uint64_t{server.watcher_log_kib} * 1024);
  put(sink, "worker_logbuf_size", std::uint64_t{server.worker_log_kib} * 1024);
  const CrawlerStats crawler = state_.engine.crawler().stats();
  put(sink, "lru_crawler", yes_no(crawler.enabled));
  put(sink, "lru_crawler_sleep", crawler.sleep_us);
  put(sink, "lru_crawler_tocrawl", crawler.items_per_run);
  put(sink, "flush_enabled", yes_no(server.flush_enabled));
  put(sink, "hash_algorithm", "xxh3");
  put(sink, "idle_timeout", server.idle_timeout_s);
  put(sink, "read_buf_mem_limit", std::uint64_t{server.input_limit_mib} << 20);
  put(sink, "track_sizes", yes_no(state_.track_sizes.load(std::memory_order_relaxed)));
  if (!server.control_path.empty()) {
    put(sink, "tandem_control", server.control_path);
    put(sink, "tandem_control_tcp", yes_no(server.control_tcp));
  }
  tls_settings(sink);
  put(sink, "memory_file", engine.memory_file.empty() ? "(null)" : engine.memory_file);
}

// In the order of their descriptors, as memcached's.
void Control::connections(StatSink& sink) const {
  struct Told {
    int fd;
    bool udp;
    std::string address, listener;  // listener: empty for a listening socket
    std::string_view state;
    std::uint32_t idle_s;
  };
  const std::uint32_t now_s = state_.engine.shared().clock.now_s();
  const std::uint32_t uptime_s = state_.engine.shared().clock.uptime_s();
  std::vector<Told> all;
  for (const int fd : acceptor_->listening_fds())
    all.push_back({fd, false, local_text(fd), {}, "conn_listening", uptime_s});
  for (const auto& worker : *workers_) {
    for (const auto& port : worker->udp_ports())
      all.push_back({port->fd(), true, port->address(), {}, "conn_read", uptime_s});
    worker->for_each_connection([&](const Connection& c) {
      const std::uint32_t active_s = c.last_active_s.load(std::memory_order_relaxed);
      all.push_back(
          {c.fd, false, peer_text(c.peer), local_text(c.fd), state_text(c), now_s - std::min(active_s, now_s)});
    });
  }
  std::ranges::sort(all, {}, &Told::fd);
  for (const Told& t : all) {
    const auto stat = [&](std::string_view name, const auto& value) {
      put(sink, fmt::format("{}:{}", t.fd, name), value);
    };
    if (t.udp) stat("UDP", "UDP");
    stat("addr", t.address);
    if (!t.listener.empty()) stat("listen_addr", t.listener);
    stat("state", t.state);
    stat("secs_since_last_cmd", t.idle_s);
  }
}

// Tandem's version, and each task's cost from the sampled batches.
void Control::own(StatSink& sink) const {
  put(sink, "version", state_.options.version);
  const std::array<TaskCost, task_count> costs = state_.engine.task_costs();
  for (std::size_t t = 0; t < task_count; ++t) {
    put(sink, fmt::format("{}:cycles", task_names[t]), costs[t].cycles);
    put(sink, fmt::format("{}:queries", task_names[t]), costs[t].queries);
    const double each =
        costs[t].queries == 0 ? 0 : static_cast<double>(costs[t].cycles) / static_cast<double>(costs[t].queries);
    put(sink, fmt::format("{}:cycles_per_query", task_names[t]), fmt::format("{:.1f}", each));
  }
  for (std::size_t w = 0; w < workers_->size(); ++w)
    put(sink, fmt::format("worker:{}:connections", w), (*workers_)[w]->connection_count());
  const Totals now = totals();
  put(sink, "passes", now.net.passes);
  put(sink, "blocked", now.net.blocked);
  put(sink, "closed_for_room", now.net.closed_for_room);
  put(sink, "detail_uncounted", state_.prefixes.uncounted());
  put(sink, "unsent_bytes", state_.unsent.used_bytes());
  put(sink, "pinned_bytes", state_.pinned.used_bytes());
  put(sink, "filling_bytes", state_.filling.used_bytes());
  put(sink, "udp_requests", now.net.udp_requests);
  put(sink, "udp_requests_dropped", now.net.udp_requests_dropped);
  put(sink, "udp_replies_dropped", now.net.udp_replies_dropped);
  if (!state_.options.control_path.empty()) {
    put(sink, "config_keys", state_.config.size());
    put(sink, "config_version", state_.config.version());
  }
  put(sink, "range_reads", now.net.range_reads);
  put(sink, "range_items", now.net.range_items);
  put(sink, "range_removes", now.net.range_removes);
  put(sink, "range_removed", now.net.range_removed);
  put(sink, "items_arranged", state_.engine.counters().items_arranged);
  if (state_.options.xdp == nullptr) return;
  const Xdp::Facts& xdp = state_.options.xdp->facts();
  put(sink, "xdp_interface", xdp.interface);
  put(sink, "xdp_mode", xdp.native ? "native" : "generic");
  put(sink, "xdp_zero_copy", yes_no(xdp.zero_copy));
  put(sink, "xdp_queues", xdp.queues);
  put(sink, "xdp_frames", now.net.xdp_frames);
  put(sink, "xdp_wrong_frames", now.net.xdp_wrong_frames);
  put(sink, "xdp_wrong_sums", now.net.xdp_wrong_sums);
}

}  // namespace tandem::net
