#include "bench/common/perf_counters.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace tandem::bench {
namespace {

TEST(PerfCounters, WithoutThemNothingIsCountedAndTheReasonIsSaid) {
  const struct {
    int error;
    const char* part;
  } failures[] = {{EACCES, "perf_event_paranoid"}, {EPERM, "not allowed"}, {ENOENT, "virtual machines"},
                  {EOPNOTSUPP, "not there"},       {ENOSYS, "kernel"},     {EMFILE, "Too many open files"}};
  for (const auto& failure : failures) {
    const PerfCounters counters([&](const perf_event_attr&, int) {
      errno = failure.error;
      return -1;
    });
    EXPECT_FALSE(counters.is_available());
    EXPECT_NE(counters.why().find(failure.part), std::string::npos) << counters.why();
    PerfReading sum;
    {
      const PerfSection section(counters, sum);
    }
    for (const auto& count : sum.counts) EXPECT_FALSE(count);
  }
  EXPECT_NE(perf::explain(EACCES, "4").find("perf_event_paranoid is 4"), std::string::npos);
}

// A group's leader is opened alone, its members after it; the values read belong to the events that could be opened.
TEST(PerfCounters, AnEventThatIsMissingLeavesTheOthers) {
  std::vector<int> groups;
  int leader = -1;
  const PerfCounters counters([&](const perf_event_attr& attributes, int group) {
    groups.push_back(group);
    EXPECT_EQ(attributes.exclude_kernel, 1U);
    if (attributes.type == PERF_TYPE_HW_CACHE || attributes.config == PERF_COUNT_HW_INSTRUCTIONS) {
      errno = ENOENT;
      return -1;
    }
    const int file = memfd_create("counters", 0);
    if (group == -1) {
      leader = file;
      const std::uint64_t words[] = {2, 100, 50, 1000, 7};  // ran half of the time
      EXPECT_EQ(write(file, words, sizeof words), static_cast<ssize_t>(sizeof words));
      lseek(file, 0, SEEK_SET);
    }
    return file;
  });
  EXPECT_EQ(groups, (std::vector<int>{-1, leader, leader, -1, -1}));
  ASSERT_TRUE(counters.is_available());
  const PerfReading reading = counters.read();
  EXPECT_EQ(reading[PerfEvent::cycles], 2000);
  EXPECT_EQ(reading[PerfEvent::llc_misses], 14);
  EXPECT_FALSE(reading[PerfEvent::instructions]);
  EXPECT_FALSE(reading[PerfEvent::l1d_misses]);
}

TEST(PerfCounters, ScalesByTheShareOfTimeThatAGroupRan) {
  using Words = std::vector<std::uint64_t>;
  EXPECT_EQ(perf::scale(Words{2, 100, 100, 10, 20}, 2), (std::vector<std::optional<double>>{10, 20}));
  EXPECT_EQ(perf::scale(Words{1, 300, 100, 10}, 1), (std::vector<std::optional<double>>{30}));
  EXPECT_EQ(perf::scale(Words{1, 300, 0, 0}, 1), (std::vector<std::optional<double>>{std::nullopt}));
  EXPECT_EQ(perf::scale(Words{1, 300}, 1), (std::vector<std::optional<double>>{std::nullopt}));
  EXPECT_EQ(perf::scale(Words{1, 300, 300, 5}, 2).front(), std::nullopt);
}

TEST(PerfCounters, DifferencesAreOfWhatBothHave) {
  PerfReading earlier, later;
  earlier.counts[0] = 10;
  later.counts[0] = 25;
  later.counts[1] = 5;  // was not scheduled before
  const PerfReading passed = later - earlier;
  EXPECT_EQ(passed[PerfEvent::cycles], 15);
  EXPECT_EQ(passed[PerfEvent::instructions], 5);
  EXPECT_FALSE(passed[PerfEvent::llc_misses]);
}

TEST(PerfCounters, TheRealOnesCountOrSayWhyNot) {
  const PerfCounters counters;
  if (!counters.is_available()) {
    EXPECT_NE(counters.why(), "");
    return;
  }
  constexpr int steps = 1'000'000;
  PerfReading sum;
  for (int round = 0; round < 2; ++round) {
    const PerfSection section(counters, sum);
    volatile int value = 0;
    for (int i = 0; i < steps; ++i) value = value + 1;
  }
  if (sum[PerfEvent::instructions]) {
    EXPECT_GT(*sum[PerfEvent::instructions], 2.0 * steps);
  }
  if (sum[PerfEvent::cycles]) {
    EXPECT_GT(*sum[PerfEvent::cycles], 2.0 * steps / 10);
  }
}

}  // namespace
}  // namespace tandem::bench
