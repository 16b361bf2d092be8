#include "heap/page_pool.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#include "heap/heap_fixture.hpp"

namespace tandem {
namespace {

bool is_zero(const char* at, std::uint64_t bytes) { return at[0] == 0 && std::memcmp(at, at + 1, bytes - 1) == 0; }

// Of the page's 4 KiB parts, those in memory.
std::size_t resident_parts(const PagePool& pool, PageId page) {
  unsigned char parts[page_bytes / 4096];
  if (mincore(pool.table().page(page), page_bytes, parts) != 0) return 0;
  return static_cast<std::size_t>(
      std::count_if(parts, parts + sizeof parts, [](unsigned char p) { return (p & 1) != 0; }));
}

// By the pages of a frame: 1 without huge pages, 2 with.
struct PagePoolTest : testing::TestWithParam<bool> {
  PagePoolTest() : budget(64 * mib), pool(budget, GetParam()) {}
  void spoil(PageId page, std::uint32_t pages = 1) { std::memset(pool.table().page(page), 0xee, pages * page_bytes); }
  // What the pool says of a page that it has just given out is true.
  bool is_as_told(PageId page) const {
    return pool.table().info(page).dirty || is_zero(pool.table().page(page), page_bytes);
  }
  std::uint64_t frame_cost() const { return pool.pages_per_frame() * PagePool::page_cost_bytes; }

  MemoryBudget budget;
  PagePool pool;
};

TEST_P(PagePoolTest, FramesAreAsAsked) { EXPECT_EQ(pool.pages_per_frame(), GetParam() ? 2u : 1u); }

TEST_P(PagePoolTest, PagesAreDistinctZeroAndChargedUpToTheBudget) {
  std::set<PageId> pages;
  for (PageId p = pool.take_page(); p != 0; p = pool.take_page()) {
    ASSERT_TRUE(pages.insert(p).second);
    ASSERT_LT(p, pool.page_end());
    ASSERT_TRUE(is_zero(pool.table().page(p), page_bytes));
    ASSERT_FALSE(pool.table().info(p).dirty);
    spoil(p);
    ASSERT_LE(budget.used_bytes(), budget.limit_bytes());
  }
  EXPECT_EQ(pages.size(), budget.limit_bytes() / frame_cost() * pool.pages_per_frame());
  for (const PageId p : pages) pool.give_page(p);
  EXPECT_EQ(budget.used_bytes(), 0u);
  // And again.
  std::size_t again = 0;
  for (PageId p = pool.take_page(); p != 0; p = pool.take_page(), ++again) {
    ASSERT_TRUE(pool.table().info(p).dirty);
  }
  EXPECT_EQ(again, pages.size());
}

TEST_P(PagePoolTest, FirstPageOfFramesIsAligned) {
  const PageId p = pool.take_page();
  const auto at = reinterpret_cast<std::uintptr_t>(pool.table().page(p));
  EXPECT_EQ(at % (pool.pages_per_frame() * page_bytes), 0u);
}

TEST_P(PagePoolTest, HalvesOfFramesWaitForEachOther) {
  const PageId first = pool.take_page();
  const PageId second = pool.take_page();
  EXPECT_EQ(second, first + 1);
  spoil(first);
  spoil(second);
  const std::uint64_t used = budget.used_bytes();
  pool.give_page(first);
  if (pool.pages_per_frame() == 2) {
    EXPECT_EQ(budget.used_bytes(), used);
    pool.give_page(second);
    EXPECT_EQ(budget.used_bytes(), 0u);
  } else {
    EXPECT_EQ(budget.used_bytes(), used / 2);
  }
}

TEST_P(PagePoolTest, PageThatWaitsIsDirtyForItsNextUser) {
  const PageId first = pool.take_page();
  pool.take_page();
  EXPECT_FALSE(pool.table().info(first).dirty);
  spoil(first);
  pool.give_page(first);
  EXPECT_EQ(pool.take_page(), first);
  EXPECT_TRUE(pool.table().info(first).dirty);
}

TEST_P(PagePoolTest, FreedRunStaysResidentForTheNextOne) {
  const PageId run = pool.take_run(8);
  spoil(run, 8);
  pool.give_run(run, 8);
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_EQ(budget.kept_bytes(), 8 / pool.pages_per_frame() * frame_cost());
  EXPECT_EQ(pool.pages_idle(), 8u);
  for (PageId p = run; p < run + 8; ++p) EXPECT_EQ(resident_parts(pool, p), page_bytes / 4096) << p;
  // A shorter one lies in it, and a page, too.
  const PageId shorter = pool.take_run(4);
  EXPECT_GE(shorter, run);
  EXPECT_LE(shorter + 4, run + 8);
  const PageId page = pool.take_page();
  EXPECT_GE(page, run);
  EXPECT_LT(page, run + 8);
  pool.give_run(shorter, 4);
  pool.give_page(page);
  EXPECT_EQ(pool.take_run(8), run);
  EXPECT_EQ(budget.kept_bytes(), 0u);
}

TEST_P(PagePoolTest, KeptMemoryIsReturnedForARunElsewhere) {
  // All of the budget is kept, in pieces with pages in use between them: the run lies on other addresses.
  const PageId first = pool.take_run(24), wall = pool.take_run(2), second = pool.take_run(24);
  ASSERT_NE(second, 0u);
  spoil(first, 24);
  spoil(second, 24);
  pool.give_run(first, 24);
  pool.give_run(second, 24);
  const PageId run = pool.take_run(50);
  ASSERT_NE(run, 0u);
  EXPECT_LE(budget.used_bytes() + budget.kept_bytes(), budget.limit_bytes());
  pool.give_run(wall, 2);
}

TEST_P(PagePoolTest, BudgetTakesWhatIsKept) {
  const PageId run = pool.take_run(60);
  spoil(run, 60);
  pool.give_run(run, 60);
  ASSERT_TRUE(budget.take(50 * mib));
  EXPECT_LE(budget.used_bytes() + budget.kept_bytes(), budget.limit_bytes());
  EXPECT_GT(budget.kept_bytes(), 0u) << "more was returned than needed";
  std::size_t resident = 0;
  for (PageId p = run; p < run + 60; ++p) resident += resident_parts(pool, p);
  EXPECT_LE(resident * 4096, budget.kept_bytes());
  budget.give_back(50 * mib);
}

TEST_P(PagePoolTest, TakingMoreThanThereIsReturnsNothing) {
  pool.give_run(pool.take_run(20), 20);
  const std::uint64_t kept = budget.kept_bytes();
  EXPECT_FALSE(budget.take(65 * mib));
  EXPECT_EQ(pool.take_run(70), 0u);
  EXPECT_EQ(budget.kept_bytes(), kept);
}

TEST_P(PagePoolTest, ClaimAndLowerLimitTakeWhatIsKept) {
  pool.give_run(pool.take_run(40), 40);
  ASSERT_TRUE(budget.claim(40 * mib));
  EXPECT_FALSE(budget.overdrawn());
  budget.give_back(40 * mib);
  ASSERT_NE(budget.kept_bytes(), 0u);
  budget.set_limit(10 * mib);
  EXPECT_LE(budget.kept_bytes(), 10 * mib);
}

TEST_P(PagePoolTest, NothingIsKeptWhileAClaimWaits) {
  const PageId run = pool.take_run(40);
  ASSERT_TRUE(budget.claim(40 * mib));
  ASSERT_TRUE(budget.overdrawn());
  pool.give_run(run, 40);
  EXPECT_FALSE(budget.overdrawn());
  budget.give_back(40 * mib);
}

TEST_P(PagePoolTest, OnlyWhatWasNotNeededIsReturnedAfterATime) {
  std::uint32_t now_s = 100;
  pool.return_unneeded(now_s);
  const PageId run = pool.take_run(16);
  spoil(run, 16);
  pool.give_run(run, 16);
  const std::uint64_t kept = budget.kept_bytes();
  pool.return_unneeded(now_s += PagePool::kept_s);  // kept since a moment
  EXPECT_EQ(budget.kept_bytes(), kept);
  const PageId part = pool.take_run(4);
  pool.give_run(part, 4);
  pool.return_unneeded(now_s += PagePool::kept_s - 1);
  EXPECT_EQ(budget.kept_bytes(), kept);
  pool.return_unneeded(now_s += 1);
  EXPECT_EQ(budget.kept_bytes(), 4 / pool.pages_per_frame() * frame_cost()) << "what was needed stays";
  EXPECT_EQ(pool.take_run(4), part);
  pool.give_run(part, 4);
  pool.return_unneeded(now_s += PagePool::kept_s);
  pool.return_unneeded(now_s += PagePool::kept_s);
  EXPECT_EQ(budget.kept_bytes(), 0u);
  EXPECT_EQ(pool.pages_idle(), 0u);
  for (PageId p = run; p < run + 16; ++p) EXPECT_EQ(resident_parts(pool, p), 0u) << p;
}

TEST_P(PagePoolTest, PagesThatWaitAreForAClaimOnly) {
  while (pool.take_page() != 0) {
  }
  pool.give_page(1);
  ASSERT_TRUE(budget.claim(4 * mib));
  EXPECT_EQ(pool.take_page(), 0u);
  EXPECT_EQ(pool.take_run(1), 0u);
  budget.give_back(4 * mib);
  EXPECT_EQ(pool.take_page(), 1u);
}

TEST_P(PagePoolTest, RunsAreNeighboursAndCharged) {
  for (const std::uint32_t pages : {1u, 2u, 3u, 7u, 40u}) {
    const PageId first = pool.take_run(pages);
    ASSERT_NE(first, 0u);
    EXPECT_LE(first + pages, pool.page_end());
    EXPECT_GE(budget.used_bytes(), pages * page_bytes);
    spoil(first, pages);
    pool.give_run(first, pages);
    EXPECT_EQ(budget.used_bytes(), 0u) << pages;
  }
}

TEST_P(PagePoolTest, OddEndOfARunServesOthers) {
  const PageId run = pool.take_run(3);
  const std::uint64_t used = budget.used_bytes();
  const PageId page = pool.take_page();
  if (pool.pages_per_frame() == 2) {
    EXPECT_TRUE(page + 1 == run || page == run + 3);
    EXPECT_EQ(budget.used_bytes(), used);
  }
  spoil(page);
  spoil(run, 3);
  pool.give_run(run, 3);
  EXPECT_EQ(budget.used_bytes(), frame_cost());
  pool.give_page(page);
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST_P(PagePoolTest, RunsOfOddLengthLeaveNothingUnused) {
  // 21 runs of 3 pages, in 63 of 64 pages at most: they share frames.
  const std::uint64_t fit = budget.limit_bytes() / frame_cost() * pool.pages_per_frame() / 3;
  std::vector<PageId> runs;
  for (PageId run = pool.take_run(3); run != 0; run = pool.take_run(3)) runs.push_back(run);
  EXPECT_EQ(runs.size(), fit);
  for (const PageId run : runs) spoil(run, 3);
  for (const PageId run : runs) pool.give_run(run, 3);
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST_P(PagePoolTest, LastPageOfARunIsChargedInParts) {
  const std::uint64_t overhead = pool.pages_per_frame() * PagePool::page_overhead_bytes;
  for (const std::uint32_t pages : {1u, 2u, 3u, 4u}) {
    const std::uint64_t used = (pages - 1) * page_bytes + 100'000,
                        charged = (pages - 1) * page_bytes + 2 * run_part_bytes;
    const PageId run = pool.take_run(pages, 100'000);
    ASSERT_NE(run, 0u);
    EXPECT_EQ(pool.run_bytes(run, pages), charged);
    EXPECT_GE(budget.used_bytes(), charged);
    EXPECT_LE(budget.used_bytes(), charged + (pages + 1) / 2 * 2 * overhead);
    std::memset(pool.table().page(run), 0xee, used);
    std::size_t resident = 0;
    for (PageId p = run; p < run + (pages + 1) / 2 * 2; ++p) resident += resident_parts(pool, p);
    EXPECT_GE(resident * 4096, used);
    EXPECT_LE(resident * 4096, charged) << pages;
    pool.give_run(run, pages);
    EXPECT_EQ(budget.used_bytes(), 0u);
    EXPECT_LE(resident * 4096, budget.kept_bytes());
  }
}

TEST_P(PagePoolTest, AsManyRunsFitAsTheirBytes) {
  // 1.125 MiB each: of whole pages 31 would fit.
  std::vector<PageId> runs;
  for (PageId run = pool.take_run(2, 100'000); run != 0; run = pool.take_run(2, 100'000)) {
    std::memset(pool.table().page(run), static_cast<int>(runs.size()), page_bytes + 100'000);
    runs.push_back(run);
  }
  EXPECT_GE(runs.size(), 55u);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const char* const at = pool.table().page(runs[i]);
    EXPECT_EQ(at[0], static_cast<char>(i));
    EXPECT_EQ(std::memcmp(at, at + 1, page_bytes + 100'000 - 1), 0) << "runs overlap";
  }
  for (const PageId run : runs) pool.give_run(run, 2);
  EXPECT_EQ(budget.used_bytes(), 0u);
}

// Otherwise small pages would back whatever takes the frame over.
TEST_P(PagePoolTest, WholeFrameTakesNoSmallPagesOver) {
  for (const bool is_run : {true, false}) {
    const PageId short_run = pool.take_run(2, 100'000);
    std::memset(pool.table().page(short_run), 0xee, page_bytes + 100'000);
    pool.give_run(short_run, 2);
    const PageId page = is_run ? pool.take_run(2) : pool.take_page();
    ASSERT_TRUE(page == short_run || page == short_run + 1);
    EXPECT_EQ(resident_parts(pool, page) != 0, pool.pages_per_frame() == 1);
    if (is_run) {
      pool.give_run(page, 2);
    } else {
      pool.give_page(page);
    }
  }
}

TEST_P(PagePoolTest, KeptEndOfARunServesAnyUse) {
  // Each kind of run or page takes over what another one left, and is charged for itself alone.
  struct Use {
    std::uint32_t pages;
    std::uint64_t last_bytes;
  };
  TestRandom random(3);
  std::uint64_t resident_max = 0;
  for (int i = 0; i < 400; ++i) {
    const Use use{1 + static_cast<std::uint32_t>(random.below(4)), 1 + random.below(page_bytes)};
    const bool is_page = random.below(4) == 0;
    const PageId first = is_page ? pool.take_page() : pool.take_run(use.pages, use.last_bytes);
    ASSERT_NE(first, 0u);
    const std::uint64_t bytes = is_page ? page_bytes : pool.run_bytes(first, use.pages);
    ASSERT_GE(bytes, is_page ? page_bytes : (use.pages - 1) * page_bytes + use.last_bytes);
    std::memset(pool.table().page(first), 0xee, bytes);
    std::uint64_t resident = 0;
    for (PageId p = 1; p < pool.table().page_limit && i % 16 == 0; ++p) resident += resident_parts(pool, p) * 4096;
    ASSERT_LE(resident, budget.used_bytes() + budget.kept_bytes());
    resident_max = std::max(resident_max, resident);
    if (is_page) {
      pool.give_page(first);
    } else {
      pool.give_run(first, use.pages);
    }
    ASSERT_EQ(budget.used_bytes(), 0u);
  }
  EXPECT_GT(resident_max, page_bytes);
  for (std::uint32_t turn = 1; turn <= 3; ++turn) pool.return_unneeded(turn * PagePool::kept_s);
  EXPECT_EQ(budget.kept_bytes(), 0u);
}

TEST_P(PagePoolTest, RunLargerThanTheBudgetIsRefusedAndNothingIsKept) {
  EXPECT_EQ(pool.take_run(65), 0u);
  EXPECT_EQ(pool.take_run(1u << 20), 0u);
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_NE(pool.take_run(60), 0u);
  EXPECT_EQ(pool.take_run(60), 0u);
}

TEST_P(PagePoolTest, RunsAreFoundHoweverPagesLie) {
  // Single pages everywhere, half of them returned in every pattern that a clock of seven makes. Half the budget is
  // still one run.
  std::vector<PageId> pages;
  for (PageId p = pool.take_page(); p != 0; p = pool.take_page()) pages.push_back(p);
  for (std::size_t i = 0; i < pages.size(); i += 4) {
    for (std::size_t k = i; k < std::min(i + 2, pages.size()); ++k) pool.give_page(pages[k]);
  }
  const PageId run = pool.take_run(30);
  ASSERT_NE(run, 0u);
  spoil(run, 30);
  for (std::size_t i = 2; i < pages.size(); i += 4) EXPECT_TRUE(is_as_told(pages[i]));
}

TEST_P(PagePoolTest, LonePageCompletesAFrame) {
  EXPECT_EQ(pool.lone_page(), 0u);
  const PageId first = pool.take_page();
  const PageId second = pool.take_page();
  pool.table().set_tag(first, PageState::open, 0);
  pool.table().set_tag(second, PageState::free, 0);
  pool.give_page(second);
  EXPECT_EQ(pool.lone_page(), pool.pages_per_frame() == 2 ? first : 0u);
  EXPECT_EQ(pool.lone_page(), 0u);  // not twice in a row
}

TEST_P(PagePoolTest, ThreadsShareIt) {
  std::vector<std::thread> threads;
  std::atomic<bool> wrong{false};
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::pair<PageId, std::uint32_t>> mine;
      const char mark = static_cast<char>(t + 1);
      for (unsigned i = 0; i < 300; ++i) {
        const std::uint32_t pages = 1 + (i * 7 + t) % 5;
        if (mine.size() < 4) {
          if (const PageId p = pool.take_run(pages); p != 0) {
            for (std::uint32_t k = 0; k < pages; ++k) {
              char* at = pool.table().page(p + k);
              if (!pool.table().info(p + k).dirty && (at[0] != 0 || at[page_bytes - 1] != 0)) wrong = true;
              at[0] = at[page_bytes - 1] = mark;
            }
            mine.emplace_back(p, pages);
            continue;
          }
        }
        if (mine.empty()) continue;
        const auto [first, count] = mine[i % mine.size()];
        mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(i % mine.size()));
        for (std::uint32_t k = 0; k < count; ++k) {
          const char* at = pool.table().page(first + k);
          if (at[0] != mark || at[page_bytes - 1] != mark) wrong = true;
        }
        pool.give_run(first, count);
      }
      for (const auto& [first, count] : mine) pool.give_run(first, count);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_FALSE(wrong);
  EXPECT_EQ(budget.used_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Frames, PagePoolTest, testing::Bool(),
                         [](const auto& frames) { return frames.param ? "TwoPages" : "OnePage"; });

TEST(PagePool, SmallBudgetsUseSinglePages) {
  MemoryBudget budget(8 * mib);
  const PagePool pool(budget, true);
  EXPECT_EQ(pool.pages_per_frame(), 1u);
}

// Where the range is hardly larger than the budget, short frames would use up its addresses.
TEST(PagePool, RunsOfLargeBudgetsTakeWholePages) {
  MemoryBudget budget(std::uint64_t{100} << 30);
  PagePool pool(budget, true);
  const PageId run = pool.take_run(1, page_bytes / 2 + 100);
  ASSERT_NE(run, 0u);
  EXPECT_EQ(pool.run_bytes(run, 1), page_bytes);
  EXPECT_NE(pool.take_run(1, page_bytes / 2 + 100), 0u);
  EXPECT_LE(budget.used_bytes(), 2 * PagePool::page_cost_bytes);
}

TEST(PagePool, BudgetBelowAPageGivesNone) {
  MemoryBudget budget(mib / 2);
  PagePool pool(budget, true);
  EXPECT_EQ(pool.take_page(), 0u);
  EXPECT_EQ(pool.take_run(2), 0u);
}

TEST(PagePool, VeryLargeBudgetsAreCappedByTheRange) {
  MemoryBudget budget(std::uint64_t{1} << 50);
  PagePool pool(budget, true);
  EXPECT_LE(pool.table().page_limit, PageId{1} << 17);
  EXPECT_NE(pool.take_page(), 0u);
}

#if !defined(TANDEM_SANITIZED)  // the sanitizers map terabytes themselves
TEST(PagePoolDeathTest, TightAddressSpaceIsEnough) {
  // In a child: the limit stays with the process. 300 MiB beside what is mapped now, for a budget of 64 MiB, which
  // would reserve 8 GiB.
  EXPECT_EXIT(
      {
        std::uint64_t mapped_pages = 0;
        std::FILE* statm = std::fopen("/proc/self/statm", "r");
        if (statm == nullptr || std::fscanf(statm, "%lu", &mapped_pages) != 1) std::exit(2);
        std::fclose(statm);
        rlimit limit{};
        limit.rlim_cur = limit.rlim_max = mapped_pages * 4096 + 300 * mib;
        setrlimit(RLIMIT_AS, &limit);
        MemoryBudget budget(64 * mib);
        PagePool pool(budget, true);
        std::size_t pages = 0;
        while (pool.take_page() != 0) ++pages;
        bool refused = false;
        try {
          MemoryBudget too_much(std::uint64_t{1} << 30);
          const PagePool none(too_much, true);
        } catch (const std::system_error&) {
          refused = true;
        }
        std::exit(pages == 62 && refused ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace tandem
