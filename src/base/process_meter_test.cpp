#include "base/process_meter.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace tandem {
namespace {

TEST(ProcessMeter, CpuTimeFollowsWhatAProcessBurns) {
  const ProcessMeter self(getpid());
  ASSERT_TRUE(self.is_valid());
  const std::uint64_t before = self.use().cpu_ns, own_before = own_cpu_ns();
  while (own_cpu_ns() - own_before < 20'000'000) continue;
  EXPECT_GE(self.use().cpu_ns - before, 20'000'000U);
}

TEST(ProcessMeter, ASleepIsCounted) {
  const ProcessMeter self(getpid());
  const std::uint64_t before = self.use().sleeps;
  for (int i = 0; i < 5; ++i) usleep(1000);
  EXPECT_GE(self.use().sleeps, before + 5);
}

TEST(ProcessMeter, TouchedMemoryIsResident) {
  const ProcessMeter self(getpid());
  const auto before = self.memory();
  ASSERT_TRUE(before);
  constexpr std::size_t bytes = 64 << 20;
  std::vector<char> touched(bytes, 1);
  const auto after = self.memory();
  ASSERT_TRUE(after);
  EXPECT_GE(after->resident_bytes, before->resident_bytes + bytes / 2);
  EXPECT_GE(after->resident_max_bytes, after->resident_bytes / 2);
  EXPECT_EQ(touched[bytes - 1], 1);
}

TEST(ProcessMeter, AProcessThatHasEndedIsNotThere) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  const ProcessMeter meter(child);
  EXPECT_TRUE(meter.is_valid());
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(meter.use().cpu_ns, 0U);
  EXPECT_FALSE(meter.memory());
  EXPECT_FALSE(ProcessMeter(child).is_valid());
  EXPECT_FALSE(ProcessMeter(0).is_valid());
}

TEST(ProcessMeter, ReadsTheKernelsFiles) {
  const std::string proc = testing::TempDir() + "process_meter_proc";
  const std::string folder = proc + '/' + std::to_string(getpid());
  for (const char* task : {"/task/1", "/task/2"}) {
    std::filesystem::create_directories(folder + task);
    std::ofstream(folder + task + "/status")
        << "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n";
  }
  std::ofstream(folder + "/status") << "Name:\tx\nVmHWM:\t   2000 kB\nVmRSS:\t   1000 kB\n";
  const ProcessMeter meter(getpid(), proc);
  EXPECT_EQ(meter.use().sleeps, 14U);
  ASSERT_TRUE(meter.memory());
  EXPECT_EQ(meter.memory()->resident_bytes, 1000U * 1024);
  EXPECT_EQ(meter.memory()->resident_max_bytes, 2000U * 1024);
  EXPECT_FALSE(meter.memory()->own_bytes);
  std::ofstream(folder + "/smaps_rollup") << "5500-7fff [rollup]\nRss:  1000 kB\nPss:   600 kB\nPss_Anon: 1 kB\n";
  EXPECT_EQ(meter.memory()->own_bytes, 600U * 1024);
  std::filesystem::remove_all(proc);
}

}  // namespace
}  // namespace tandem
