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
