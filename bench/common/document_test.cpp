#include "bench/common/document.hpp"

#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <fstream>
#include <regex>
#include <stdexcept>
#include <system_error>

#include "bench/common/fake_tree.hpp"
#include "bench/common/machine.hpp"
#include "device/nvml.hpp"

namespace tandem::bench {
namespace {

bool matches(const Json& value, const char* pattern) {
  return std::regex_match(value.get<std::string>(), std::regex(pattern));
}

TEST(Document, SaysWhatRanWhereAndWhen) {
  const Json document = make_document("tandem bench load --seed 1");
  EXPECT_EQ(document["format"], "tandem-bench/1");
  EXPECT_EQ(document["command"], "tandem bench load --seed 1");
  EXPECT_TRUE(matches(document["version"], R"(\d+\.\d+\.\d+)")) << document["version"];
  EXPECT_TRUE(matches(document["commit"], R"([0-9a-f]{12}\+?|unknown)")) << document["commit"];
  EXPECT_EQ(document["commit"], build_commit());
  EXPECT_TRUE(matches(document["started"], R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")) << document["started"];
  EXPECT_TRUE(document["runs"].is_array());
  utsname names{};
  uname(&names);
  EXPECT_EQ(document["machine"]["kernel"], names.release);
  EXPECT_GT(document["machine"]["memory_bytes"], 1 << 20);
  EXPECT_GE(document["machine"]["processors"], 1);
}

TEST(Document, IsReadAsItWasWritten) {
  const std::string path = testing::TempDir() + "document_test.json";
  Json document = make_document("tandem bench engine");
  document["runs"].push_back({{"kind", "engine"}, {"result", {{"ops", 12345678901234U}, {"seconds", 0.125}}}});
  write_document(document, path);
  EXPECT_EQ(read_document(path), document);
  std::remove(path.c_str());
}

TEST(Document, BytesThatAreNoTextAreReplaced) {
  const std::string path = testing::TempDir() + "document_bytes.json";
  write_document(make_document("tandem \xff bench"), path);
  EXPECT_EQ(read_document(path)["command"], "tandem \xef\xbf\xbd bench");
  std::remove(path.c_str());
}

TEST(Document, WhatCannotBeWrittenOrReadIsSaid) {
  EXPECT_THROW(write_document(Json::object(), "/nowhere/at/all.json"), std::system_error);
  EXPECT_THROW(write_document(make_document("x"), "/dev/full"), std::system_error);
  EXPECT_THROW(read_document("/nowhere/at/all.json"), std::runtime_error);
  const std::string path = testing::TempDir() + "document_foreign.json";
  for (const char* text : {"", "{", "[]", "{}", R"({"format": 3})", R"({"format": "tandem-bench/2"})"}) {
    std::ofstream(path) << text;
    EXPECT_THROW(read_document(path), std::runtime_error) << text;
  }
  std::remove(path.c_str());
}

// Two sockets of two cores with two threads each; one thread is offline.
TEST(Machine, IsReadFromTheKernelsFiles) {
  const FakeTree tree(testing::TempDir() + "machine_tree");
  tree.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast CPU 9000 @ 3.00GHz\nflags\t\t: fpu hypervisor avx");
  tree.write("proc/meminfo", "MemTotal:       16 kB\nMemFree: 1 kB");
  tree.write("proc/loadavg", "0.25 0.50 0.75 1/200 4242");
  tree.write("proc/sys/kernel/osrelease", "6.1.0-test");
  tree.write("etc/os-release", "NAME=\"X\"\nPRETTY_NAME=\"Test Linux 1\"");
  tree.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  for (int cpu = 0; cpu < 7; ++cpu) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    tree.write(folder + "physical_package_id", std::to_string(cpu / 4));
    tree.write(folder + "core_id", std::to_string(cpu / 2 % 2));
  }
  tree.write("sys/devices/system/cpu/cpu7/online", "0");
  tree.write("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t 16");
  tree.write("sys/devices/system/cpu/cpufreq/boost", "1");
  tree.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance");
  const struct {
    const char *size, *level, *type;
  } caches[] = {{"32K", "1", "Data"}, {"64K", "1", "Instruction"}, {"1M", "2", "Unified"}, {"33792K", "3", "Unified"}};
  for (std::size_t i = 0; i < std::size(caches); ++i) {
    const std::string folder = "sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + '/';
    tree.write(folder + "size", caches[i].size);
    tree.write(folder + "level", caches[i].level);
    tree.write(folder + "type", caches[i].type);
  }
  const Json machine = describe_machine(tree.root());
  EXPECT_EQ(machine["cpu"], "Fast CPU 9000 @ 3.00GHz");
  EXPECT_EQ(machine["cores"], 4);
  EXPECT_EQ(machine["threads_per_core"], 2);
  EXPECT_EQ(machine["sockets"], 2);
  EXPECT_EQ(machine["memory_bytes"], 16'384);
  EXPECT_EQ(machine["kernel"], "6.1.0-test");
  EXPECT_EQ(machine["os"], "Test Linux 1");
  EXPECT_EQ(machine["caches"], (Json{{"L1d", 32'768}, {"L2", 1'048'576}, {"L3", 34'603'008}}));
  EXPECT_EQ(machine["governor"], "performance");
  if (Nvml().gpu_count() == 0) {
    EXPECT_EQ(machine["gpus"], Json::array({"NVIDIA H100 80GB HBM3"}));
  }
  EXPECT_EQ(machine["virtual_machine"], true);
  EXPECT_EQ(machine["load_average"], 0.25);
  EXPECT_EQ(machine["huge_pages"], "madvise");
}

TEST(Machine, WhatIsNotThereIsLeftOut) {
  const FakeTree tree(testing::TempDir() + "machine_bare_tree");
  const Json machine = describe_machine(tree.root());
  EXPECT_TRUE(matches(machine["cpu"], R"(unknown \(.+\))"));
  EXPECT_TRUE(machine["governor"].is_null());
  for (const char* name :
       {"cores", "memory_bytes", "kernel", "os", "caches", "load_average", "huge_pages", "virtual_machine"})
    EXPECT_FALSE(machine.contains(name)) << name;
}

}  // namespace
}  // namespace tandem::bench
