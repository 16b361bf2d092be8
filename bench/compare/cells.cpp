#include "bench/compare/cells.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <stdexcept>

#include "bench/workload/sizes.hpp"
#include "bench/workload/spec.hpp"

namespace tandem::bench {
namespace {

struct Shape {
  std::string_view name;
  double goal;
  unsigned connections, pipeline, multiget;
};
constexpr std::array shapes{Shape{"p1", 1.1, 1, 1, 1}, Shape{"c1000", 1.1, 1000, 1, 1}, Shape{"p16", 1.4, 1, 16, 1},
                            Shape{"p128", 2.5, 1, 128, 1}, Shape{"mget50", 1.8, 1, 1, 50}};

struct Mix {
  std::string_view name, protocol;
  double allowance;  // factor on the shape's goal
  double get_share;
};
constexpr std::array mixes{Mix{"text", "text", 1, 0.95}, Mix{"meta", "meta", 1, 0.95}, Mix{"set50", "text", 1.3, 0.5}};

constexpr double udp_goal = 1.2;

struct LargeSize {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array large_sizes{LargeSize{"64k", 64 << 10}, LargeSize{"512k", 512 << 10}, LargeSize{"1m", 1 << 20},
                                 LargeSize{"2m", 2 << 20}, LargeSize{"8m", 8 << 20}};
constexpr std::uint64_t large_data_bytes = 128 << 20;  // of each size

void add_large_cells(std::vector<Cell>& cells, const DataSet& data) {
  for (const LargeSize& size : large_sizes) {
    Cell cell;
    cell.data = data;
    cell.data.value_bytes = std::to_string(size.bytes);
    cell.data.keys = std::min(data.keys, large_data_bytes / size.bytes);
    for (const auto& [name, share] : {std::pair{"get", 1.0}, std::pair{"set", 0.0}}) {
      cell.name = fmt::format("{}-{}", name, size.name);
      cell.get_share = share;
      cells.push_back(cell);
    }
  }
}

template <class T>
std::vector<T> or_default(const std::vector<T>& list, T value) {
  return list.empty() ? std::vector<T>{std::move(value)} : list;
}

std::string name_of(const Cell& cell, const CellLists& lists) {
  const Cell usual;
  std::string name = cell.udp ? (cell.protocol == "text" ? "udp" : "udp-" + cell.protocol) : cell.protocol;
  const auto add = [&](bool is_listed, bool is_usual, const std::string& part) {
    if (is_listed || !is_usual) name += "-" + part;
  };
  add(lists.workloads.size() > 1, cell.data.workload.empty(), cell.data.workload);
  add(lists.connections.size() > 1, cell.connections == usual.connections, fmt::format("c{}", cell.connections));
  add(lists.pipelines.size() > 1, cell.pipeline == usual.pipeline, fmt::format("p{}", cell.pipeline));
  add(lists.multigets.size() > 1, cell.multiget == usual.multiget, fmt::format("mget{}", cell.multiget));
  const bool has_share = cell.data.workload.empty();
  add(has_share && lists.get_shares.size() > 1, !has_share || cell.get_share == usual.get_share,
      fmt::format("get{:g}", 100 * cell.get_share));
  add(lists.value_bytes.size() > 1, true, "v" + cell.data.value_bytes);
  return name;
}

}  // namespace

std::uint64_t DataSet::item_bytes_max() const {
  constexpr std::uint64_t beside_value = 4096;
  const std::uint64_t most = workload.empty() ? workload::parse_value_sizes(value_bytes).most() : 0;  // presets: below
  // memcached takes multiples of its chunks of 512 KiB.
  return (most + beside_value + item_bytes_default - 1) / item_bytes_default * item_bytes_default;
}

bool Cell::suits(const Peer& peer) const {
  if (!(udp ? peer.udp : peer.tcp)) return false;
  if (peer.dialect == Dialect::resp) return protocol == "text";
  // The ready-made replies are hits of one size.
  if (peer.dialect == Dialect::canned) return data.workload.empty();
  return true;
}

std::vector<Cell> named_cells(const DataSet& data) {
  std::vector<Cell> cells;
  for (const Mix& mix : mixes) {
    for (const Shape& shape : shapes) {
      Cell cell;
      cell.name = fmt::format("{}-{}", mix.name, shape.name);
      cell.goal = std::round(shape.goal * mix.allowance * 100) / 100;
      cell.data = data;
      cell.protocol = mix.protocol;
      cell.connections = shape.connections;
      cell.pipeline = shape.pipeline;
      cell.multiget = shape.multiget;
      cell.get_share = mix.get_share;
      cells.push_back(cell);
    }
  }
  for (const unsigned depth : {1U, 16U, 64U}) {
    Cell cell;
    cell.name = fmt::format("udp-p{}", depth);
    cell.goal = udp_goal;
    cell.data = data;
    cell.udp = true;
    cell.pipeline = depth;
    cells.push_back(cell);
  }
  for (const unsigned depth : {1U, 16U, 128U}) {
    Cell cell;
    cell.name = fmt::format("binary-p{}", depth);
    cell.data = data;
    cell.protocol = "binary";
    cell.pipeline = depth;
    cells.push_back(cell);
  }
  add_large_cells(cells, data);
  return cells;
}

std::vector<Cell> choose_cells(const std::vector<Cell>& cells, std::string_view patterns) {
  std::set<std::string> chosen;
  for (std::string_view rest = patterns;;) {
    const std::size_t comma = rest.find(',');
    const std::string pattern(rest.substr(0, comma));
    bool is_any = false;
    for (const Cell& cell : cells) {
      if (fnmatch(pattern.c_str(), cell.name.c_str(), 0) != 0) continue;
      chosen.insert(cell.name);
      is_any = true;
    }
    if (!is_any) throw std::invalid_argument(fmt::format("no cell matches {}; --list names them", pattern));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::vector<Cell> found;
  for (const Cell& cell : cells)
    if (chosen.contains(cell.name)) found.push_back(cell);
  return found;
}

bool CellLists::empty() const noexcept {
  return protocols.empty() && workloads.empty() && value_bytes.empty() && connections.empty() && pipelines.empty() &&
         multigets.empty() && get_shares.empty();
}

std::vector<Cell> product(const CellLists& lists, const DataSet& data) {
  const Cell usual;
  std::vector<Cell> cells{usual};
  // Each list multiplies the cells so far.
  const auto multiply = [&](const auto& values, const auto& apply) {
    std::vector<Cell> next;
    for (const Cell& cell : cells) {
      for (const auto& value : values) {
        next.push_back(cell);
        apply(next.back(), value);
      }
    }
    cells = std::move(next);
  };
  cells.front().data = data;
  // Cells of one data set are adjacent: the servers are restarted for each data set.
  multiply(or_default(lists.workloads, data.workload), [](Cell& cell, const std::string& workload) {
    if (!workload.empty()) static_cast<void>(workload::preset(workload));  // throws for an unknown one
    cell.data.workload = workload;
  });
  multiply(or_default(lists.value_bytes, data.value_bytes),
           [](Cell& cell, const std::string& bytes) { cell.data.value_bytes = bytes; });
  multiply(or_default(lists.protocols, usual.protocol), [](Cell& cell, const std::string& protocol) {
    cell.udp = protocol == "udp" || protocol.starts_with("udp-");
    cell.protocol = protocol == "udp" ? "text" : cell.udp ? protocol.substr(4) : protocol;
    if (cell.protocol != "text" && cell.protocol != "meta" && cell.protocol != "binary")
      throw std::invalid_argument(
          fmt::format("protocols are text, meta, binary, udp, udp-meta and udp-binary, not {}", protocol));
  });
  multiply(or_default(lists.get_shares, usual.get_share), [](Cell& cell, double share) { cell.get_share = share; });
  multiply(or_default(lists.connections, usual.connections),
           [](Cell& cell, unsigned connections) { cell.connections = connections; });
  multiply(or_default(lists.pipelines, usual.pipeline), [](Cell& cell, unsigned depth) { cell.pipeline = depth; });
  multiply(or_default(lists.multigets, usual.multiget), [](Cell& cell, unsigned keys) { cell.multiget = keys; });
  std::set<std::string> names;
  for (Cell& cell : cells) {
    cell.name = name_of(cell, lists);
    if (!names.insert(cell.name).second)
      throw std::invalid_argument(fmt::format("a value is listed twice: there are two cells {}", cell.name));
  }
  return cells;
}

std::string describe(const Cell& cell) {
  std::string text = cell.udp ? cell.protocol + " over UDP" : cell.protocol;
  text += cell.data.workload.empty() ? fmt::format(", {:g} % GET", 100 * cell.get_share) : ", " + cell.data.workload;
  if (cell.data.workload.empty()) {
    const workload::Sizes sizes = workload::parse_value_sizes(cell.data.value_bytes);
    const bool is_large = sizes.model == workload::SizeModel::fixed && sizes.low >= (64 << 10) && sizes.low % 1024 == 0;
    if (is_large && sizes.low % (1 << 20) == 0) {
      text += fmt::format(", values of {} MiB", sizes.low >> 20);
    } else if (is_large) {
      text += fmt::format(", values of {} KiB", sizes.low >> 10);
    }
  }
  if (cell.connections > 1) text += fmt::format(", {} connections", cell.connections);
  text += cell.pipeline > 1 ? fmt::format(", {} requests in flight", cell.pipeline) : ", one request in flight";
  if (cell.multiget > 1) text += fmt::format(", {} keys a get", cell.multiget);
  return text;
}

}  // namespace tandem::bench
