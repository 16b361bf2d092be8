// The memory guarantee: resident memory stays under the budget plus a small fixed part, and freed memory is returned to
// the system.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "heap/heap_fixture.hpp"

namespace tandem {
namespace {

// Large values that are overwritten, one by one, stay in the memory that they have.
TEST(HeapMemory, OverwrittenLargeItemsTakeNoNewMemory) {
  for (const std::uint64_t bytes : {20'000u, 100'000u, 400'000u, 600'000u, 2'200'000u, 9'000'000u}) {
    TestHeap t(512 * mib, {.item_bytes_max = 16 * mib});
    TestWorker w(t);
    Location l = w.make(bytes);
    for (std::uint64_t stored = 0; stored < 200 * mib; stored += bytes) {
      const Location next = w.make(bytes);
      ASSERT_NE(next, no_location);
      w.retire(l);
      l = next;
      ASSERT_LE(t.budget.used_bytes() + t.budget.kept_bytes(), 4 * bytes + 4 * mib) << bytes;
    }
  }
}

}  // namespace
}  // namespace tandem

#if !defined(TANDEM_SANITIZED)  // the sanitizers' shadow is resident, too
namespace tandem {
namespace {

// Beside the budget: the worker's lists, the test's own vectors, and what malloc keeps.
constexpr std::uint64_t fixed_bytes = 4 * mib;

std::uint64_t resident_bytes() {
  unsigned long total = 0;
  unsigned long resident = 0;
  std::FILE* statm = std::fopen("/proc/self/statm", "r");
  if (statm == nullptr || std::fscanf(statm, "%lu %lu", &total, &resident) != 2) return 0;
  std::fclose(statm);
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

struct Case {
  const char* name;
  std::uint64_t budget_bytes, item_bytes_low, item_bytes_high;
  bool huge_pages;
};

struct HeapMemoryTest : testing::TestWithParam<Case> {};

TEST_P(HeapMemoryTest, ResidentStaysUnderTheBudget) {
  const Case& c = GetParam();
  TestRandom random(7);
  std::vector<Location> live;
  live.reserve(c.budget_bytes / 32);
  std::memset(live.data(), 1, live.capacity() * sizeof(Location));  // resident before we look
  const std::uint64_t before = resident_bytes();
  ASSERT_GT(before, 0u);
  {
    TestHeap t(c.budget_bytes, {.item_bytes_max = 16 * mib, .huge_pages = c.huge_pages});
    TestWorker w(t);
    const auto top_up = [&] {
      for (int misses = 0; misses < 3;) {
        const std::uint64_t bytes = random.size_between(c.item_bytes_low, c.item_bytes_high);
        const Location l = w.allocate(bytes);
        if (l == no_location) {
          ++misses;
          continue;
        }
        Item* item = t.heap.format(l, "", 0, bytes - sizeof(Item), 0, 0, false);
        std::memset(item->value(), 0x5a, bytes - sizeof(Item));
        live.push_back(l);
      }
    };
    for (int round = 0; round < 5; ++round) {
      top_up();
      const std::uint64_t full = resident_bytes();
      ASSERT_LE(full, before + c.budget_bytes + fixed_bytes);
      ASSERT_GT(full, before + c.budget_bytes / 2);  // it was used, so the bound is tested
      for (std::size_t i = live.size() / 3; i-- > 0;) {
        const std::size_t victim = random.below(live.size());
        w.retire(live[victim]);
        live[victim] = live.back();
        live.pop_back();
      }
      w.flush();
    }
    for (const Location l : live) w.retire(l);
    w.flush();
    for (PageId p = 1; p < t.heap.page_end(); ++p) {
      ASSERT_TRUE(!t.heap.close_page(p) || t.heap.finish_page(p, huge_class));
    }
    EXPECT_EQ(t.budget.used_bytes(), 0u);
    EXPECT_LE(resident_bytes(), before + fixed_bytes + t.budget.kept_bytes());
    for (std::uint32_t turn = 1; turn <= 3; ++turn) t.heap.return_unneeded(turn * PagePool::kept_s);
    EXPECT_EQ(t.budget.kept_bytes(), 0u);
    EXPECT_LE(resident_bytes(), before + fixed_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, HeapMemoryTest,
                         testing::Values(Case{"SmallItems", 64 * mib, 32, 64, true},
                                         Case{"MixedItems", 64 * mib, 32, 100'000, true},
                                         Case{"HugeItems", 128 * mib, 600'000, 9 * mib, true},
                                         Case{"MixedItemsWithoutHugePages", 64 * mib, 32, 100'000, false}),
                         [](const auto& cases) { return cases.param.name; });

}  // namespace
}  // namespace tandem
#endif
