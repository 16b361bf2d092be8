#include "bench/compare/cells.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::bench {
namespace {

std::vector<std::string> names_of(const std::vector<Cell>& cells) {
  std::vector<std::string> names;
  for (const Cell& cell : cells) names.push_back(cell.name);
  return names;
}

const Cell& cell_of(const std::vector<Cell>& cells, std::string_view name) {
  return *std::ranges::find(cells, name, &Cell::name);
}

TEST(Cells, Named) {
  DataSet data;
  data.keys = 5;
  const std::vector<Cell> cells = named_cells(data);
  const Cell& meta = cell_of(cells, "meta-mget50");
  EXPECT_EQ(meta.protocol, "meta");
  EXPECT_EQ(meta.multiget, 50U);
  EXPECT_EQ(meta.goal, 1.8);
  EXPECT_EQ(meta.data, data);
  const Cell& sets = cell_of(cells, "set50-p16");
  EXPECT_EQ(sets.get_share, 0.5);
  EXPECT_EQ(sets.goal, 1.82);
  EXPECT_EQ(cell_of(cells, "text-c1000").connections, 1000U);
  EXPECT_TRUE(cell_of(cells, "udp-p64").udp);
  EXPECT_FALSE(cell_of(cells, "binary-p16").goal);
}

TEST(Cells, LargeValues) {
  DataSet data;
  data.key_bytes = "20";
  const std::vector<Cell> cells = named_cells(data);
  std::uint64_t most = 0;
  for (const auto& [size, bytes] : {std::pair<std::string, std::uint64_t>{"64k", 65'536},
                                    {"512k", 524'288},
                                    {"1m", 1'048'576},
                                    {"2m", 2'097'152},
                                    {"8m", 8'388'608}}) {
    const Cell& get = cell_of(cells, "get-" + size);
    const Cell& set = cell_of(cells, "set-" + size);
    EXPECT_EQ(get.get_share, 1);
    EXPECT_EQ(set.get_share, 0);
    EXPECT_EQ(get.data, set.data) << "the servers would start anew";
    EXPECT_EQ(get.data.value_bytes, std::to_string(bytes));
    EXPECT_EQ(get.data.key_bytes, "20");
    EXPECT_GE(get.data.keys, 16U);
    most = std::max(most, get.data.keys * bytes);
    EXPECT_GE(get.data.item_bytes_max(), bytes + 300);
    EXPECT_EQ(get.data.item_bytes_max() % (512 << 10), 0U) << "memcached refuses it";
    EXPECT_EQ(describe(set), "text, 0 % GET, values of " + size.substr(0, size.size() - 1) +
                                 (size.back() == 'k' ? " KiB" : " MiB") + ", one request in flight");
  }
  EXPECT_LE(most, std::uint64_t{256} << 20) << "a quarter of what each server has";
  EXPECT_EQ(data.item_bytes_max(), item_bytes_default);
}

TEST(Cells, AreChosenByPattern) {
  const std::vector<Cell> cells = named_cells({});
  EXPECT_EQ(names_of(choose_cells(cells, "udp-*,text-p1")),
            (std::vector<std::string>{"text-p1", "udp-p1", "udp-p16", "udp-p64"}));
  EXPECT_EQ(choose_cells(cells, "*").size(), cells.size());
  EXPECT_THROW(choose_cells(cells, "text-p1,nothing"), std::invalid_argument);
  EXPECT_THROW(choose_cells(cells, ""), std::invalid_argument);
}

TEST(Cells, Product) {
  CellLists lists;
  EXPECT_TRUE(lists.empty());
  lists.connections = {1, 50};
  lists.pipelines = {16};
  lists.protocols = {"text", "udp-meta"};
  EXPECT_FALSE(lists.empty());
  const std::vector<Cell> cells = product(lists, {});
  EXPECT_EQ(names_of(cells),
            (std::vector<std::string>{"text-c1-p16", "text-c50-p16", "udp-meta-c1-p16", "udp-meta-c50-p16"}));
  EXPECT_EQ(cells[3].connections, 50U);
  EXPECT_EQ(cells[3].pipeline, 16U);
  EXPECT_EQ(cells[3].protocol, "meta");
  EXPECT_TRUE(cells[3].udp);
  EXPECT_FALSE(cells[3].goal);
}

TEST(Cells, ProductOfDataSets) {
  CellLists lists;
  lists.value_bytes = {"64", "1024"};
  lists.get_shares = {0.5, 1};
  EXPECT_EQ(names_of(product(lists, {})),
            (std::vector<std::string>{"text-get50-v64", "text-get100-v64", "text-get50-v1024", "text-get100-v1024"}));
  EXPECT_EQ(product(lists, {})[2].data.value_bytes, "1024");
}

TEST(Cells, ProductRefusesWhatItCannotDo) {
  CellLists lists;
  lists.protocols = {"http"};
  EXPECT_THROW(product(lists, {}), std::invalid_argument);
  lists.protocols = {"text", "text"};
  EXPECT_THROW(product(lists, {}), std::invalid_argument);
}

TEST(Cells, SuitWhatAPeerSpeaks) {
  const std::vector<Cell> cells = named_cells({});
  Peer peer;
  EXPECT_TRUE(cell_of(cells, "meta-p1").suits(peer));
  EXPECT_FALSE(cell_of(cells, "udp-p1").suits(peer));
  peer.udp = true;
  EXPECT_TRUE(cell_of(cells, "udp-p1").suits(peer));
  const Peer redis{"redis", Dialect::resp, true, false, {}};
  EXPECT_TRUE(cell_of(cells, "set50-p16").suits(redis));
  for (const char* name : {"meta-p1", "binary-p1", "udp-p1"}) EXPECT_FALSE(cell_of(cells, name).suits(redis));
  const Peer floor{"floor", Dialect::canned, true, false, {}};
  EXPECT_TRUE(cell_of(cells, "meta-p16").suits(floor));
  EXPECT_TRUE(cell_of(cells, "binary-p16").suits(floor));
  EXPECT_FALSE(cell_of(cells, "udp-p16").suits(floor));
  const Peer udp_floor{"floor", Dialect::canned, false, true, {}};
  EXPECT_FALSE(cell_of(cells, "text-p16").suits(udp_floor));
  EXPECT_TRUE(cell_of(cells, "udp-p16").suits(udp_floor));
}

}  // namespace
}  // namespace tandem::bench
