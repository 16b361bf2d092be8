#include "bench/compare/memory.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>

#include "bench/load/socket.hpp"
#include "bench/workload/keys.hpp"
#include "monitor/stats_text.hpp"

namespace tandem::bench {
namespace {

using workload::KeySpace;
using workload::Sizes;
using workload::Spec;

constexpr int answer_timeout_s = 60;
constexpr std::uint64_t keys_read_back = 1000;

// One connection to a server that is being filled.
class FillConnection {
 public:
  FillConnection(std::string name, std::uint16_t port)
      : name_(std::move(name)), socket_(load::connect_stream(load::resolve(fmt::format("127.0.0.1:{}", port), false))) {
    const timeval limit{answer_timeout_s, 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }

  void send_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) fail("takes no more requests");
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  // Waits until everything sent before was processed.
  monitor::Stats stats() const {
    send_all("stats\r\n");
    std::string reply;
    for (;;) {
      receive(reply);
      monitor::Stats stats;
      if (reply.size() > monitor::stats_bytes_max) fail("does not answer `stats` as memcached does");
      switch (monitor::parse_stats(reply, stats)) {
        case monitor::StatsEnd::more:
          continue;
        case monitor::StatsEnd::done:
          return stats;
        case monitor::StatsEnd::refused:
          fail("does not answer `stats` as memcached does");
      }
    }
  }

  // The reply to a get of one key, from "VALUE" or "END" on, to the end of "END\r\n".
  std::string ask(std::string_view request, std::size_t value_bytes) const {
    send_all(request);
    std::string reply;
    while (!reply.ends_with("END\r\n") || (reply.starts_with("VALUE ") && reply.size() < value_bytes + 7))
      receive(reply);
    return reply;
  }

  [[noreturn]] void fail(std::string_view what) const { throw MemoryError(fmt::format("{} {}", name_, what)); }

 private:
  // Appends the next received bytes.
  void receive(std::string& reply) const {
    char bytes[64 * 1024];
    ssize_t got;
    do got = recv(socket_.get(), bytes, sizeof bytes, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0) fail("does not answer");
    if (got == 0) fail("closed the connection");
    reply.append(bytes, static_cast<std::size_t>(got));
  }

  std::string name_;
  net::Fd socket_;
};

Spec spec_of(ItemShape shape) {
  Spec spec;
  spec.keys = 1;
  spec.key_bytes = Sizes::fixed(shape.key_bytes);
  spec.value_bytes = Sizes::fixed(shape.value_bytes);
  return spec;
}

// Requests that store the keys first .. first + count - 1.
std::string stores_of(const KeySpace& keys, ItemShape shape, std::uint64_t first, std::uint64_t count) {
  const std::string tail = fmt::format(" 0 0 {} noreply\r\n", shape.value_bytes);
  const std::size_t each = 4 + shape.key_bytes + tail.size() + shape.value_bytes + 2;
  std::string requests(each * count, '\0');
  char* out = requests.data();
  for (std::uint64_t key = first; key < first + count; ++key) {
    out = std::ranges::copy(std::string_view("set "), out).out;
    out = keys.write_key(key, out);
    out = std::ranges::copy(tail, out).out;
    out = keys.write_value(key, out);
    out = std::ranges::copy(std::string_view("\r\n"), out).out;
  }
  return requests;
}

struct Filled {
  std::uint64_t items = 0, stored = 0, evictions = 0;
  std::uint64_t read_back = 0, misses = 0;
  std::uint64_t empty_resident_bytes = 0, resident_bytes = 0;
};

// Counts the latest keys that are still present, and checks their values.
void read_back(const FillConnection& connection, const KeySpace& keys, ItemShape shape, Filled& filled) {
  std::string key_bytes(shape.key_bytes, '\0');
  const std::uint64_t first = filled.stored - std::min(filled.stored, keys_read_back);
  for (std::uint64_t key = first; key < filled.stored; ++key) {
    keys.write_key(key, key_bytes.data());
    const std::string reply = connection.ask(fmt::format("get {}\r\n", key_bytes), shape.value_bytes);
    ++filled.read_back;
    if (reply == "END\r\n") {
      ++filled.misses;
      continue;
    }
    const std::string head = fmt::format("VALUE {} 0 {}\r\n", key_bytes, shape.value_bytes);
    if (reply.size() != head.size() + shape.value_bytes + 7 || !reply.starts_with(head) ||
        !keys.is_value(key, std::string_view(reply).substr(head.size(), shape.value_bytes)))
      connection.fail(fmt::format("gave a wrong value for the key {}", key_bytes));
  }
}

Filled fill(RunningPeer& server, ItemShape shape, std::uint64_t limit_bytes) {
  const FillConnection connection(server.peer().name, server.port());
  const KeySpace keys(spec_of(shape));
  Filled filled;
  connection.stats();  // cost of a first connection
  filled.empty_resident_bytes = server.child().resident_bytes();
  // Steps of an eighth of a per cent of the limit. A first eviction may come from a passing shortage while an index
  // grows. The server is full when two per cent more bring hardly more items.
  constexpr std::uint64_t window_steps = 16;
  const std::uint64_t item_bytes = shape.key_bytes + shape.value_bytes + std::uint64_t{24};
  const std::uint64_t step = std::clamp<std::uint64_t>(limit_bytes / 800 / item_bytes, 1, 65'536);
  const std::uint64_t most = 20 * (limit_bytes / (shape.key_bytes + shape.value_bytes) + step);
  const auto number = [](const monitor::Stats& stats, std::string_view name) {
    return static_cast<std::uint64_t>(monitor::number_of(stats, name));
  };
  for (std::uint64_t steps = 1, items_before = 0;; ++steps) {
    connection.send_all(stores_of(keys, shape, filled.stored, step));
    filled.stored += step;
    const monitor::Stats stats = connection.stats();
    const std::uint64_t items = number(stats, "curr_items");
    filled.evictions = number(stats, "evictions");
    if (items <= filled.items && filled.evictions == 0) break;  // it takes no more items
    filled.items = std::max(filled.items, items);
    if (filled.stored > most) {
      if (filled.evictions == 0) connection.fail("never evicts");
      break;
    }
    if (steps % window_steps != 0) continue;
    if (filled.evictions != 0 && filled.items - items_before < step * window_steps / 8) break;
    items_before = filled.items;
  }
  filled.resident_bytes = server.child().resident_bytes();
  read_back(connection, keys, shape, filled);
  return filled;
}

Json run_of(const MemoryOptions& options, const RunningPeer& server, ItemShape shape, const Filled& filled) {
  const std::uint64_t limit_bytes = options.limit_mib << 20;
  const auto items = static_cast<double>(filled.items);
  const double gained_bytes =
      static_cast<double>(filled.resident_bytes) - static_cast<double>(filled.empty_resident_bytes);
  Json memory = {{"items", filled.items},
                 {"items_per_gib", items * static_cast<double>(1 << 30) / static_cast<double>(limit_bytes)},
                 {"limit_bytes", limit_bytes},
                 {"resident_bytes", filled.resident_bytes},
                 {"resident_bytes_empty", filled.empty_resident_bytes},
                 {"item_bytes", shape.key_bytes + shape.value_bytes},
                 {"evictions", filled.evictions}};
  if (filled.items != 0) {
    memory["bytes_per_item"] = gained_bytes / items;
    memory["overhead_bytes_per_item"] = gained_bytes / items - shape.key_bytes - shape.value_bytes;
  }
  return {{"kind", "memory"},
          {"cell", fmt::format("memory-{}/{}", shape.key_bytes, shape.value_bytes)},
          {"subject", server.peer().name},
          {"round", 0},
          {"command", server.command()},
          {"settings",
           {{"key_bytes", std::to_string(shape.key_bytes)},
            {"value_bytes", std::to_string(shape.value_bytes)},
            {"memory_mib", options.limit_mib},
            {"threads", options.threads}}},
          {"result",
           {{"sets", filled.stored},
            {"gets", filled.read_back},
            {"hits", filled.read_back - filled.misses},
            {"misses", filled.misses},
            {"memory", std::move(memory)}}}};
}

std::uint32_t size_in(std::string_view digits) {
  std::uint32_t n = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc{} || stop != digits.data() + digits.size()) throw std::invalid_argument("no number");
  return n;
}

}  // namespace

std::vector<ItemShape> parse_shapes(std::string_view text) {
  std::vector<ItemShape> parsed;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    at = end + 1;
    const std::size_t slash = std::min(part.find('/'), part.size());
    try {
      const ItemShape shape{size_in(part.substr(0, slash)), size_in(part.substr(std::min(slash + 1, part.size())))};
      validate(spec_of(shape));
      if (shape.value_bytes > 1 << 20) throw std::invalid_argument("too large");
      parsed.push_back(shape);
    } catch (const std::invalid_argument&) {
      throw std::invalid_argument(
          fmt::format("expected bytes of keys (8 to 250) and values (0 to 1048576), such as 16/64, not \"{}\"", part));
    }
  }
  return parsed;
}

void measure_memory(const MemoryOptions& options, Json& document) {
  for (const ItemShape shape : options.shapes) {
    for (const Peer& peer : options.peers) {
      if (options.log) options.log(fmt::format("{}/{} bytes: {}", shape.key_bytes, shape.value_bytes, peer.name));
      PeerValues values;
      values.port = free_port();
      values.memory_mib = options.limit_mib;
      values.threads = options.threads;
      RunningPeer server(peer, values, {}, options.start_timeout_s);
      try {
        const Filled filled = fill(server, shape, options.limit_mib << 20);
        document["runs"].push_back(run_of(options, server, shape, filled));
      } catch (const MemoryError&) {
        // A connection may break before its server's end is known, on a busy machine by seconds.
        for (int tries = 0; tries < 150; ++tries) {
          if (const auto why = server.why_ended()) throw MemoryError(*why);
          wait_readable(-1, std::chrono::milliseconds(20));
        }
        throw;
      }
    }
  }
}

std::string memory_table(const Json& document) {
  std::vector<const Json*> runs;
  std::map<std::string, const Json*> last_of_cell;
  for (const Json& run : document["runs"]) {
    if (run.value("kind", "") != "memory") continue;
    runs.push_back(&run);
    last_of_cell[run["cell"]] = &run;
  }
  if (runs.empty()) return "";
  const std::string& last = last_of_cell.begin()->second->at("subject").get_ref<const std::string&>();
  std::string out = fmt::format(
      "| key/value | server | items | bytes per item | overhead, bytes | resident, MiB | of the limit | {} holds |\n"
      "|---|---|---:|---:|---:|---:|---:|---:|\n",
      last);
  for (const Json* run : runs) {
    const Json& memory = run->at("result").at("memory");
    const auto items = memory["items"].get<double>();
    const auto resident_bytes = memory["resident_bytes"].get<double>();
    const Json* const other = last_of_cell[run->at("cell")];
    const auto other_items = other->at("result").at("memory").at("items").get<double>();
    out += fmt::format("| {}/{} | {} | {:.0f} | {:.1f} | {:.1f} | {:.0f} | {:.1f} % | {} |\n",
                       run->at("settings").at("key_bytes").get<std::string>(),
                       run->at("settings").at("value_bytes").get<std::string>(), run->at("subject").get<std::string>(),
                       items, memory.value("bytes_per_item", 0.0), memory.value("overhead_bytes_per_item", 0.0),
                       resident_bytes / (1 << 20), resident_bytes / memory["limit_bytes"].get<double>() * 100,
                       run == other || items == 0 ? "" : fmt::format("{:.2f} x", other_items / items));
  }
  return out;
}

}  // namespace tandem::bench
