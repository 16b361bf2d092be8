#include <Vsorter.h>
#include <Vwide_sorter.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <iterator>
#include <utility>
#include <vector>

#include "rtl/simulation.hpp"

namespace tandem::rtl {
namespace {

struct Record {
  uint32_t key;
  uint32_t payload;
  bool operator==(const Record&) const = default;
};
using Batch = std::vector<Record>;

struct Sorted {
  std::vector<Batch> batches;
  std::vector<uint64_t> ends;  // cycle of each batch's last block
  uint64_t first_out = 0;
};

struct Stalls {
  uint32_t in_percent = 0;
  uint32_t out_percent = 0;
};

template <class Model, uint32_t width>
class Sorter {
 public:
  static constexpr uint32_t w = width;

  // Feeds all batches one behind the other.
  Sorted sort(const std::vector<Batch>& batches, Stalls stalls = {}) {
    Random random(7);
    Sorted sorted;
    Batch out;
    size_t batch = 0;
    size_t at = 0;
    sim_.reset();
    const uint64_t limit = 1'000'000;
    while (sorted.batches.size() < batches.size() && sim_.cycles() < limit) {
      const bool gives = batch < batches.size() && random() % 100 >= stalls.in_percent;
      sim_->in_valid = gives;
      if (gives) set_block(batches[batch], at);
      sim_->out_ready = random() % 100 >= stalls.out_percent;
      sim_.settle();
      if (sim_->out_valid && sim_->out_ready) take_block(out, sorted);
      if (gives && sim_->in_ready) {
        at += w;
        if (at >= batches[batch].size()) {
          batch += 1;
          at = 0;
        }
      }
      sim_.tick();
    }
    return sorted;
  }

 private:
  void set_block(const Batch& batch, size_t at) {
    uint32_t mask = 0;
    for (uint32_t i = 0; i < w && at + i < batch.size(); i++) {
      mask |= 1U << i;
      set_field(sim_->in_keys, i, 32, batch[at + i].key);
      set_field(sim_->in_payloads, i, 16, batch[at + i].payload);
    }
    sim_->in_mask = static_cast<uint8_t>(mask);
    sim_->in_last = at + w >= batch.size();
  }

  void take_block(Batch& out, Sorted& sorted) {
    if (sorted.batches.empty() && out.empty()) sorted.first_out = sim_.cycles();
    for (uint32_t i = 0; i < w; i++) {
      if ((sim_->out_mask >> i & 1U) == 0) continue;
      out.push_back({field(sim_->out_keys, i, 32), field(sim_->out_payloads, i, 16)});
    }
    if (!sim_->out_last) return;
    sorted.batches.push_back(std::move(out));
    out.clear();
    sorted.ends.push_back(sim_.cycles());
  }

  Simulation<Model> sim_;
};

Batch batch_of(size_t size, const std::function<uint32_t(size_t)>& key) {
  Batch batch(size);
  for (size_t i = 0; i < size; i++) batch[i] = {key(i), static_cast<uint32_t>(i)};
  return batch;
}

// Random, few different keys, ascending, descending, equal, the largest.
std::vector<Batch> kinds_of(size_t size, Random& random) {
  return {batch_of(size, [&](size_t) { return random(); }),
          batch_of(size, [&](size_t) { return random() % 5; }),
          batch_of(size, [](size_t i) { return static_cast<uint32_t>(i); }),
          batch_of(size, [](size_t i) { return static_cast<uint32_t>(1'000'000 - i); }),
          batch_of(size, [](size_t) { return 7U; }),
          batch_of(size, [](size_t i) { return 0xffffffffU - static_cast<uint32_t>(i % 2); })};
}

void expect_sorted(const std::vector<Batch>& batches, const Sorted& sorted) {
  ASSERT_EQ(sorted.batches.size(), batches.size());
  for (size_t i = 0; i < batches.size(); i++) {
    Batch expected = batches[i];
    // As payloads are places, this is the stable order.
    std::ranges::sort(expected, {}, [](Record record) { return std::pair(record.key, record.payload); });
    ASSERT_TRUE(sorted.batches[i] == expected) << "batch " << i << " of " << expected.size();
  }
}

template <class S>
class MergeSorter : public testing::Test {
 protected:
  S sorter_;
};
using Sorters = testing::Types<Sorter<Vsorter, 2>, Sorter<Vwide_sorter, 4>>;
TYPED_TEST_SUITE(MergeSorter, Sorters);

TYPED_TEST(MergeSorter, ShortBatches) {
  Random random(1);
  std::vector<Batch> batches;
  for (size_t size = 0; size <= 33; size++) std::ranges::move(kinds_of(size, random), std::back_inserter(batches));
  std::shuffle(batches.begin(), batches.end(), random);
  expect_sorted(batches, this->sorter_.sort(batches));
}

TYPED_TEST(MergeSorter, StallsLoseAndReorderNothing) {
  Random random(2);
  std::vector<Batch> batches;
  for (size_t i = 0; i < 20; i++) std::ranges::move(kinds_of(random() % 128, random), std::back_inserter(batches));
  expect_sorted(batches, this->sorter_.sort(batches, {.out_percent = 60}));
  expect_sorted(batches, this->sorter_.sort(batches, {.in_percent = 60}));
  expect_sorted(batches, this->sorter_.sort(batches, {.in_percent = 30, .out_percent = 30}));
}

TYPED_TEST(MergeSorter, EqualKeysAreInOrderOfPayload) {
  Batch batch = batch_of(100, [](size_t i) { return static_cast<uint32_t>(i / 50); });
  for (auto& record : batch) record.payload = 99 - record.payload;
  const auto sorted = this->sorter_.sort({batch});
  std::ranges::sort(batch,
                    [](Record a, Record b) { return std::pair(a.key, a.payload) < std::pair(b.key, b.payload); });
  ASSERT_EQ(sorted.batches.size(), 1U);
  EXPECT_TRUE(sorted.batches[0] == batch);
}

TEST(MergeSorterFull, BatchesOf8192OfEveryKind) {
  Sorter<Vsorter, 2> sorter;
  Random random(3);
  auto batches = kinds_of(8192, random);
  std::ranges::move(kinds_of(8191, random), std::back_inserter(batches));
  std::ranges::move(kinds_of(4097, random), std::back_inserter(batches));
  expect_sorted(batches, sorter.sort(batches));
}

// Cycles are exact: the model has no other time.
TEST(MergeSorterFull, TwoRecordsACycle) {
  Sorter<Vsorter, 2> sorter;
  Random random(4);
  std::vector<Batch> batches;
  for (int i = 0; i < 4; i++) batches.push_back(kinds_of(8192, random)[0]);
  const auto sorted = sorter.sort(batches);
  expect_sorted(batches, sorted);
  const uint64_t alone = sorted.ends[0] + 1;
  const uint64_t interval = (sorted.ends[3] - sorted.ends[0]) / 3;
  std::cout << "batch of 8192: first block out after " << sorted.first_out << " cycles, last after " << alone << " ("
            << static_cast<double>(alone) / 8192 << " a record); batches in a row: one every " << interval << " ("
            << static_cast<double>(interval) / 8192 << " a record)\n";
  // Half the batch has to be there before the last level begins, and each level adds its latency.
  EXPECT_LE(alone, 8192U + 13 * 5);
  for (size_t i = 1; i < 4; i++) EXPECT_EQ(sorted.ends[i] - sorted.ends[i - 1], 4096U);
}

TEST(MergeSorterFull, NoOrderOfKeysIsSlower) {
  Sorter<Vsorter, 2> sorter;
  Random random(5);
  for (const auto& batch : kinds_of(8192, random)) {
    const auto sorted = sorter.sort({batch, batch, batch});
    expect_sorted({batch, batch, batch}, sorted);
    EXPECT_EQ(sorted.ends[2] - sorted.ends[1], 4096U);
  }
}

}  // namespace
}  // namespace tandem::rtl
