#include "options/control_group.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string_view>

#include "options/options.hpp"

namespace tandem::cli {
namespace {

// A folder in place of the system's root.
class ControlGroup : public testing::Test {
 protected:
  ControlGroup() {
    root_ = (std::filesystem::temp_directory_path() / "tandem_group_test_XXXXXX").string();
    EXPECT_NE(mkdtemp(root_.data()), nullptr);
  }
  ~ControlGroup() override { std::filesystem::remove_all(root_); }

  void put(const std::string& file, std::string_view text) {
    const std::filesystem::path path = root_ + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  ProcessLimits limits(unsigned affinity = 16) const { return read_limits(root_, affinity); }

  std::string root_;
};

TEST_F(ControlGroup, WithoutAnyTheMaskIsAll) {
  EXPECT_EQ(limits().processors, 16u);
  EXPECT_EQ(limits().memory_bytes, ProcessLimits::unlimited);
  EXPECT_EQ(limits(0).processors, 1u);
}

TEST_F(ControlGroup, OfAContainerThatSeesItsOwnGroupAsTheRoot) {
  put("proc/self/cgroup", "0::/");
  put("sys/fs/cgroup/memory.max", "536870912");
  put("sys/fs/cgroup/cpu.max", "150000 100000");
  EXPECT_EQ(limits().memory_bytes, 536870912u);
  EXPECT_EQ(limits().processors, 2u);  // one and a half
  EXPECT_EQ(limits(1).processors, 1u);
}

TEST_F(ControlGroup, TheLeastOfAllAboveCounts) {
  put("proc/self/cgroup", "0::/system.slice/tandem.service");
  put("sys/fs/cgroup/system.slice/tandem.service/memory.max", "max");
  put("sys/fs/cgroup/system.slice/tandem.service/cpu.max", "max 100000");
  put("sys/fs/cgroup/system.slice/memory.max", "2147483648");
  put("sys/fs/cgroup/system.slice/cpu.max", "300000 100000");
  EXPECT_EQ(limits().memory_bytes, 2147483648u);
  EXPECT_EQ(limits().processors, 3u);
}

TEST_F(ControlGroup, OfVersionOne) {
  put("proc/self/cgroup", "5:name=systemd:/\n4:memory:/docker/x\n1:cpu,cpuacct:/docker/x\n0::/");
  // The host's groups are not mounted; the mount is the container's own group.
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_EQ(limits().memory_bytes, 1073741824u);
  EXPECT_EQ(limits().processors, 1u);
}

TEST_F(ControlGroup, OfVersionOneWithoutLimits) {
  put("proc/self/cgroup", "4:memory:/x\n1:cpu:/x");
  put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712");
  put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1");
  put("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000");
  EXPECT_EQ(limits().memory_bytes, ProcessLimits::unlimited);
  EXPECT_EQ(limits().processors, 16u);
}

TEST_F(ControlGroup, WhatIsNoNumberBoundsNothing) {
  put("proc/self/cgroup", "nonsense\n0::/a");
  put("sys/fs/cgroup/a/memory.max", "lots");
  put("sys/fs/cgroup/a/cpu.max", "100000");
  EXPECT_EQ(limits().memory_bytes, ProcessLimits::unlimited);
  EXPECT_EQ(limits().processors, 16u);
}

TEST(ProcessLimits, AreThisProcess) {
  EXPECT_GE(process_limits().processors, 1u);
  EXPECT_EQ(&process_limits(), &process_limits());
}

TEST(MemoryWarning, NamesTheLimitThatIsExceeded) {
  constexpr std::uint64_t gib = std::uint64_t{1} << 30;
  EXPECT_EQ(memory_warning(4 * gib, ProcessLimits::unlimited, 4 * gib), "");
  EXPECT_EQ(memory_warning(4 * gib, ProcessLimits::unlimited, 0), "");
  EXPECT_EQ(memory_warning(4 * gib, ProcessLimits::unlimited, 2 * gib),
            "memory 4.0 GiB is more than the machine has, 2.0 GiB: before the store is full the kernel ends a process");
  EXPECT_EQ(memory_warning(4 * gib, gib, 2 * gib),
            "memory 4.0 GiB is more than the control group's limit 1.0 GiB, at which the kernel ends the process");
  EXPECT_GT(machine_memory_bytes(), std::uint64_t{1} << 20);
}

TEST(MemoryWarning, CountsWhatTheProcessTakesBesideTheStore) {
  constexpr std::uint64_t gib = std::uint64_t{1} << 30;
  EXPECT_EQ(memory_warning(4 * gib, 5 * gib, 0), "");
  EXPECT_EQ(
      memory_warning(4 * gib, 4 * gib, 0),
      "memory 4.0 GiB leaves 0 B of the control group's limit 4.0 GiB for connections and threads; the kernel may "
      "end the process: 3.0 GiB or less is safe");
  for (const std::uint64_t limit : {256 * gib / 1024, gib, 64 * gib})  // what serve takes when it is told nothing
    EXPECT_EQ(memory_warning(default_memory_bytes(limit), limit, 0), "");
}

}  // namespace
}  // namespace tandem::cli
