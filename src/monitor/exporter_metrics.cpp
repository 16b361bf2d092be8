#include <fmt/format.h>
#include <sys/resource.h>

#include <ctime>

#include "monitor/families.hpp"
#include "monitor/metrics.hpp"

namespace tandem::monitor {
namespace exporter {  // metrics.cpp has functions of the same names
namespace {

double seconds_of(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; }

void put_process(Families& f, const net::ServerSnapshot& s, std::string_view version) {
  f.gauge("memcached_up", "1: the server answers.");
  f.put(1);
  f.counter("memcached_uptime_seconds", "Since the start.");
  f.put(s.uptime_s);
  f.gauge("memcached_time_seconds", "The server's Unix time.");
  f.put(std::time(nullptr));
  f.gauge("memcached_version", "1; the version is a label.");
  f.put(1, {{"version", std::string(version)}});
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  f.counter("memcached_process_user_cpu_seconds_total", "User time of the process.");
  f.put(seconds_of(usage.ru_utime));
  f.counter("memcached_process_system_cpu_seconds_total", "System time of the process.");
  f.put(seconds_of(usage.ru_stime));
}

void put_network(Families& f, const net::ServerSnapshot& s) {
  f.counter("memcached_read_bytes_total", "Bytes from clients.");
  f.put(s.net.bytes_read);
  f.counter("memcached_written_bytes_total", "Bytes to clients.");
  f.put(s.net.bytes_written);
  f.gauge("memcached_current_connections", "Open connections.");
  f.put(s.connections);
  f.gauge("memcached_max_connections", "The most at a time (-c).");
  f.put(s.connections_max);
  f.counter("memcached_connections_total", "Connections accepted.");
  f.put(s.total_connections);
  f.counter("memcached_connections_rejected_total", "Connections refused because there were too many.");
  f.put(s.rejected_connections);
}

void put_commands(Families& f, const StoreTotals& c) {
  f.counter("memcached_commands_total", "Commands by what they found.");
  const auto put = [&f](const char* command, const char* status, std::uint64_t value) {
    f.put(value, {{"command", command}, {"status", status}});
  };
  put("get", "hit", c.get_hits);
  put("get", "miss", c.get_misses);
  put("delete", "hit", c.delete_hits);
  put("delete", "miss", c.delete_misses);
  put("incr", "hit", c.incr_hits);
  put("incr", "miss", c.incr_misses);
  put("decr", "hit", c.decr_hits);
  put("decr", "miss", c.decr_misses);
  put("cas", "hit", c.cas_hits);
  put("cas", "miss", c.cas_misses);
  put("cas", "badval", c.cas_badval);
  put("touch", "hit", c.touch_hits);
  put("touch", "miss", c.touch_misses);
  put("set", "hit", c.cmd_set);
}

void put_items(Families& f, const EngineStats& e) {
  f.gauge("memcached_current_bytes", "Bytes of the slots that items take.");
  f.put(e.item_bytes);
  f.gauge("memcached_limit_bytes", "The limit of heap and index together (-m).");
  f.put(e.memory_limit_bytes);
  f.gauge("memcached_current_items", "Items in the store.");
  f.put(e.items);
  f.counter("memcached_items_total", "Items stored since the start.");
  f.put(e.counters.total_items);
  f.counter("memcached_items_evicted_total", "Items evicted before they expired.");
  f.put(e.counters.evictions);
  f.counter("memcached_items_reclaimed_total", "Expired or flushed items whose memory was reclaimed.");
  f.put(e.counters.reclaimed);
  f.counter("memcached_item_too_large_total", "Stores refused: larger than -I.");
  f.put(e.counters.store_too_large);
  f.counter("memcached_item_no_memory_total", "Stores refused: no memory.");
  f.put(e.counters.store_no_memory);
  f.gauge("memcached_malloced_bytes", "Bytes of heap pages.");
  f.put(e.memory_used_bytes - e.index_bytes);
}

// `slab` counts classes from 1, like memcached's ids.
void put_slabs(Families& f, const EngineStats& e) {
  const auto of_each = [&f, &e](auto value_of) {
    for (std::size_t i = 0; i < e.classes.size(); ++i) {
      const ClassStats& c = e.classes[i];
      if (c.pages != 0 || c.evictions != 0) f.put(value_of(c), {{"slab", fmt::format("{}", i + 1)}});
    }
  };
  f.gauge("memcached_slab_chunk_size_bytes", "Bytes of a slot, by size class.");
  of_each([](const ClassStats& c) { return c.slot_bytes; });
  f.gauge("memcached_slab_chunks_per_page", "Slots of a page, by size class.");
  of_each([](const ClassStats& c) { return c.slots_per_page; });
  f.gauge("memcached_slab_current_pages", "Pages, by size class.");
  of_each([](const ClassStats& c) { return c.pages; });
  f.gauge("memcached_slab_current_chunks", "Slots, by size class.");
  of_each([](const ClassStats& c) { return c.slots_total; });
  f.gauge("memcached_slab_chunks_used", "Slots in use, by size class.");
  of_each([](const ClassStats& c) { return c.slots_used; });
  f.gauge("memcached_slab_chunks_free", "Free slots, by size class.");
  of_each([](const ClassStats& c) { return c.slots_free; });
  f.gauge("memcached_slab_current_items", "Items, by size class.");
  of_each([](const ClassStats& c) { return c.slots_used; });
  f.counter("memcached_slab_items_evicted_total", "Items evicted, by size class.");
  of_each([](const ClassStats& c) { return c.evictions; });
  f.counter("memcached_slab_items_reclaimed_total", "Expired items reclaimed, by size class.");
  of_each([](const ClassStats& c) { return c.reclaimed_expired; });
  f.counter("memcached_slab_items_outofmemory_total", "Stores refused for want of memory, by size class.");
  of_each([](const ClassStats& c) { return c.out_of_memory; });
}

}  // namespace
}  // namespace exporter

std::string exporter_metrics_text(const net::ServerSnapshot& snapshot, std::string_view version) {
  Families f;
  exporter::put_process(f, snapshot, version);
  exporter::put_network(f, snapshot);
  exporter::put_commands(f, snapshot.engine.counters);
  exporter::put_items(f, snapshot.engine);
  exporter::put_slabs(f, snapshot.engine);
  return f.text();
}

}  // namespace tandem::monitor
