#include <Vhead_table.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "rtl/simulation.hpp"

namespace tandem::rtl {
namespace {

struct Head {
  uint32_t leaf;
  uint32_t count;
  uint32_t first;
  bool operator==(const Head&) const = default;
};

struct Table {
  std::vector<uint32_t> indices;
  std::vector<Head> heads;
};

// Leaves of requests 0, 1, ... that are next to each other where they are equal.
using Batch = std::vector<uint32_t>;

void set_block(Simulation<Vhead_table>& sim, const Batch& batch, size_t at) {
  uint32_t mask = 0;
  for (uint32_t i = 0; i < 2 && at + i < batch.size(); i++) {
    mask |= 1U << i;
    set_field(sim->in_leaves, i, 16, batch[at + i]);
    set_field(sim->in_indices, i, 16, static_cast<uint32_t>(at + i));
    set_field(sim->in_keys, i, 32, batch[at + i] * 3);
  }
  sim->in_mask = static_cast<uint8_t>(mask);
  sim->in_last = at + 2 >= batch.size();
}

void take_block(Simulation<Vhead_table>& sim, Table& table, const Batch& batch) {
  for (uint32_t i = 0; i < 2; i++) {
    if ((sim->out_heads >> i & 1U) != 0) {
      table.heads.push_back(
          {field(sim->out_head_leaves, i, 16), field(sim->out_head_counts, i, 16), field(sim->out_head_firsts, i, 16)});
    }
    if ((sim->out_mask >> i & 1U) == 0) continue;
    const uint32_t index = field(sim->out_indices, i, 16);
    table.indices.push_back(index);
    ASSERT_LT(index, batch.size());
    EXPECT_EQ(field(sim->out_leaves, i, 16), batch[index]);
    EXPECT_EQ(field(sim->out_keys, i, 32), batch[index] * 3);
  }
}

std::vector<Table> tables_of(const std::vector<Batch>& batches, uint32_t stalls_percent, uint64_t* cycles = nullptr) {
  Simulation<Vhead_table> sim;
  Random random(3);
  std::vector<Table> done;
  Table open;
  size_t batch = 0;
  size_t at = 0;
  while (done.size() < batches.size() && sim.cycles() < 1'000'000) {
    sim->in_valid = batch < batches.size() && random() % 100 >= stalls_percent;
    if (sim->in_valid) set_block(sim, batches[batch], at);
    sim->out_ready = random() % 100 >= stalls_percent;
    sim.settle();
    if (sim->out_valid && sim->out_ready) {
      take_block(sim, open, batches[done.size()]);
      if (sim->out_last) done.push_back(std::exchange(open, {}));
    }
    if (sim->in_valid && sim->in_ready) {
      at += 2;
      if (sim->in_last) {
        batch += 1;
        at = 0;
      }
    }
    sim.tick();
  }
  if (cycles != nullptr) *cycles = sim.cycles();
  return done;
}

void expect_tables(const std::vector<Batch>& batches, uint32_t stalls_percent) {
  const auto tables = tables_of(batches, stalls_percent);
  ASSERT_EQ(tables.size(), batches.size());
  for (size_t b = 0; b < batches.size(); b++) {
    std::vector<Head> heads;
    for (uint32_t i = 0; i < batches[b].size(); i++) {
      if (heads.empty() || heads.back().leaf != batches[b][i]) heads.push_back({batches[b][i], 0, i});
      heads.back().count += 1;
    }
    EXPECT_TRUE(tables[b].heads == heads) << "batch " << b;
    ASSERT_EQ(tables[b].indices.size(), batches[b].size());
    for (uint32_t i = 0; i < batches[b].size(); i++) EXPECT_EQ(tables[b].indices[i], i);
  }
}

// Runs of leaves of random lengths.
std::vector<Batch> random_batches(uint32_t count, uint32_t run_max) {
  Random random(run_max);
  std::vector<Batch> batches(count);
  for (auto& batch : batches) {
    const size_t size = random() % 60;
    uint32_t leaf = 0;
    while (batch.size() < size) {
      leaf += 1 + random() % 3;
      batch.insert(batch.end(), std::min<size_t>(1 + random() % run_max, size - batch.size()), leaf);
    }
  }
  return batches;
}

TEST(HeadTable, CountsAndPlacesAreExact) {
  for (const uint32_t run_max : {1U, 2U, 5U, 100U}) expect_tables(random_batches(50, run_max), 0);
}

TEST(HeadTable, StallsLoseNothing) {
  for (const uint32_t run_max : {1U, 3U, 100U}) expect_tables(random_batches(50, run_max), 50);
}

TEST(HeadTable, EmptyBatchesAndEqualLeavesOfNeighbouringBatches) {
  expect_tables({{}, {5}, {5}, {}, {5, 5}, {5, 6}, {6, 6, 6}, {}, {}}, 0);
}

TEST(HeadTable, TwoRequestsACycleAndOneCycleABatch) {
  std::vector<Batch> batches(10, Batch(100));
  for (auto& batch : batches) {
    for (uint32_t i = 0; i < 100; i++) batch[i] = i;
  }
  uint64_t cycles = 0;
  tables_of(batches, 0, &cycles);
  EXPECT_EQ(cycles, 10 * (100 / 2 + 1) + 1);
}

}  // namespace
}  // namespace tandem::rtl
