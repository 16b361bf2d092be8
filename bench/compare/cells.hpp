// The loads of a comparison: named ones with their goals, or the product of lists.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/compare/peers.hpp"

namespace tandem::bench {

// The content of the servers before the load.
struct DataSet {
  std::string workload;  // a preset; empty: a share of gets over keys of a size
  std::string key_bytes = "16", value_bytes = "64";
  std::uint64_t keys = 1'000'000;

  // What a server must store: the largest value with its header and key, if that is above memcached's own limit.
  std::uint64_t item_bytes_max() const;
  bool operator==(const DataSet&) const = default;
};

struct Cell {
  std::string name;
  // Maximum of Tandem's CPU time as a multiple of the floor's.
  std::optional<double> goal;
  DataSet data;
  std::string protocol = "text";
  bool udp = false;
  unsigned connections = 1, pipeline = 1, multiget = 1;
  double get_share = 0.95;  // not of a preset

  // Peers of another dialect are compared with memcached's text protocol, with the same operations.
  bool suits(const Peer& peer) const;
};

std::vector<Cell> named_cells(const DataSet& data);

// Selects cells by name: comma-separated shell patterns. Throws std::invalid_argument when a pattern matches none.
std::vector<Cell> choose_cells(const std::vector<Cell>& cells, std::string_view patterns);

// Empty lists: the cell's default.
struct CellLists {
  std::vector<std::string> protocols, workloads, value_bytes;
  std::vector<unsigned> connections, pipelines, multigets;
  std::vector<double> get_shares;

  bool empty() const noexcept;
};

// All combinations, named after what varies or is not a default: "text-c50-p16". Throws std::invalid_argument.
std::vector<Cell> product(const CellLists& lists, const DataSet& data);

// "95 % GET, 16 requests in flight", for users.
std::string describe(const Cell& cell);

}  // namespace tandem::bench
