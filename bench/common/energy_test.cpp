#include "bench/common/energy.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include "bench/common/fake_tree.hpp"

namespace tandem::bench {
namespace {

// Answers of the fake NVML.
struct FakeGpus {
  unsigned count = 0;
  bool has_energy = true, has_power = true, starts = true;
  unsigned long long energy_mj[2] = {};
  unsigned power_mw[2] = {};
  int shutdowns = 0;
} gpus;

std::size_t index_of(void* gpu) { return reinterpret_cast<std::uintptr_t>(gpu) - 1; }

int fake_init() { return gpus.starts ? 0 : 9; }
int fake_shutdown() { return ++gpus.shutdowns, 0; }
int fake_count(unsigned* n) { return *n = gpus.count, 0; }
int fake_handle(unsigned i, void** gpu) { return *gpu = reinterpret_cast<void*>(std::uintptr_t{i} + 1), 0; }
int fake_name(void* gpu, char* out, unsigned bytes) {
  std::strncpy(out, index_of(gpu) == 0 ? "Fake H100" : "Fake H200", bytes);
  return 0;
}
int fake_energy(void* gpu, unsigned long long* mj) {
  return *mj = gpus.energy_mj[index_of(gpu)], gpus.has_energy ? 0 : 3;
}
int fake_power(void* gpu, unsigned* mw) { return *mw = gpus.power_mw[index_of(gpu)], gpus.has_power ? 0 : 3; }

void* fake_lookup(const char* name) {
  const std::map<std::string, void*> functions{
      {"nvmlInit_v2", reinterpret_cast<void*>(fake_init)},
      {"nvmlShutdown", reinterpret_cast<void*>(fake_shutdown)},
      {"nvmlDeviceGetCount_v2", reinterpret_cast<void*>(fake_count)},
      {"nvmlDeviceGetHandleByIndex_v2", reinterpret_cast<void*>(fake_handle)},
      {"nvmlDeviceGetName", reinterpret_cast<void*>(fake_name)},
      {"nvmlDeviceGetTotalEnergyConsumption", reinterpret_cast<void*>(fake_energy)},
      {"nvmlDeviceGetPowerUsage", reinterpret_cast<void*>(fake_power)}};
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : found->second;
}

class EnergyTest : public testing::Test {
 protected:
  EnergyTest() { gpus = {}; }

  void zone(const std::string& folder, const char* name, std::uint64_t uj,
            std::uint64_t range_uj = 1'000'000'000) const {
    const std::string path = "sys/class/powercap/" + folder + '/';
    tree.write(path + "name", name);
    tree.write(path + "energy_uj", std::to_string(uj));
    tree.write(path + "max_energy_range_uj", std::to_string(range_uj));
  }
  EnergyMeter meter() {
    return {tree.root(), std::make_unique<const Nvml>(fake_lookup), [this] { return now_ns; }};
  }

  FakeTree tree{testing::TempDir() + "energy_tree"};
  std::uint64_t now_ns = 5'000'000'000;
};

TEST_F(EnergyTest, PackagesAndTheirMemoryAreAddedUp) {
  zone("intel-rapl:0", "package-0", 1'000'000);
  zone("intel-rapl:0:0", "core", 7'000'000);
  zone("intel-rapl:0:1", "dram", 2'000'000);
  zone("intel-rapl:1", "package-1", 3'000'000);
  zone("intel-rapl:2", "psys", 9'000'000);
  zone("intel-rapl-mmio:0", "package-0", 1'000'000);
  EnergyMeter m = meter();
  ASSERT_TRUE(m.is_available());
  m.start();
  zone("intel-rapl:0", "package-0", 11'000'000);
  zone("intel-rapl:0:0", "core", 70'000'000);
  zone("intel-rapl:0:1", "dram", 2'500'000);
  zone("intel-rapl:1", "package-1", 7'000'000);
  zone("intel-rapl:2", "psys", 90'000'000);
  const Energy energy = m.stop();
  EXPECT_EQ(energy.source, "rapl");
  EXPECT_DOUBLE_EQ(energy.joules, 14.5);
  EXPECT_EQ(energy.missing, "");
  const Json json = to_json(energy, 1'000'000);
  EXPECT_DOUBLE_EQ(json["uj_per_op"].get<double>(), 14.5);
  EXPECT_EQ(json["parts"], (Json{{"package-0", 10.0}, {"dram-0", 0.5}, {"package-1", 4.0}}));
  EXPECT_FALSE(to_json(energy, 0).contains("uj_per_op"));
}

TEST_F(EnergyTest, EachIntervalStartsAtNothing) {
  zone("intel-rapl:0", "package-0", 0);
  EnergyMeter m = meter();
  for (std::uint64_t round = 0; round < 3; ++round) {
    m.start();
    zone("intel-rapl:0", "package-0", (round + 1) * 2'000'000);
    EXPECT_DOUBLE_EQ(m.stop().joules, 2) << round;
  }
  EXPECT_EQ(m.stop().source, "");  // not started
}

TEST_F(EnergyTest, AWrapAroundIsSeenAtEachSample) {
  zone("intel-rapl:0", "package-0", 90'000'000, 100'000'000);
  EnergyMeter m = meter();
  m.start();
  for (const std::uint64_t uj : {95'000'000U, 5'000'000U, 99'000'000U, 1'000'000U}) {
    zone("intel-rapl:0", "package-0", uj, 100'000'000);
    m.sample();
  }
  EXPECT_DOUBLE_EQ(m.stop().joules, 5 + 10 + 94 + 2);
}

TEST_F(EnergyTest, ACounterThatGoesBackIsNoEnergy) {
  zone("intel-rapl:0", "package-0", 90'000'000, 0);
  EnergyMeter m = meter();
  m.start();
  zone("intel-rapl:0", "package-0", 1, 0);
  const Energy energy = m.stop();
  EXPECT_EQ(energy.source, "");
  EXPECT_NE(energy.missing.find("went back"), std::string::npos) << energy.missing;
}

TEST_F(EnergyTest, WithoutZonesItSaysSo) {
  for (const bool has_folder : {false, true}) {
    if (has_folder) zone("dtpm", "dtpm", 1);
    EnergyMeter m = meter();
    EXPECT_FALSE(m.is_available());
    m.start();
    const Json json = to_json(m.stop(), 100);
    ASSERT_TRUE(json.contains("unavailable"));
    EXPECT_NE(json["unavailable"].get<std::string>().find("no RAPL"), std::string::npos) << json;
    EXPECT_FALSE(json.contains("joules"));
  }
}

// One package is unreadable: the remaining sum would look complete.
TEST_F(EnergyTest, AFileThatCannotBeReadIsNamed) {
  zone("intel-rapl:0", "package-0", 1);
  zone("intel-rapl:1", "package-1", 1);
  const std::string file = tree.root() + "/sys/class/powercap/intel-rapl:1/energy_uj";
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);  // root may read any file, but not a folder
  EnergyMeter m = meter();
  EXPECT_FALSE(m.is_available());
  m.start();
  const Energy energy = m.stop();
  EXPECT_NE(energy.missing.find("cannot read " + file), std::string::npos) << energy.missing;
  if (geteuid() == 0) return;
  std::filesystem::remove(file);
  zone("intel-rapl:1", "package-1", 1);
  std::filesystem::permissions(file, std::filesystem::perms::none);
  EnergyMeter forbidden = meter();
  forbidden.start();
  EXPECT_NE(forbidden.stop().missing.find("only root may"), std::string::npos);
}

TEST_F(EnergyTest, AFileThatVanishesEndsTheMeasurement) {
  zone("intel-rapl:0", "package-0", 1);
  EnergyMeter m = meter();
  m.start();
  std::filesystem::remove(tree.root() + "/sys/class/powercap/intel-rapl:0/energy_uj");
  const Energy energy = m.stop();
  EXPECT_EQ(energy.source, "");
  EXPECT_NE(energy.missing.find("any more"), std::string::npos) << energy.missing;
}

TEST_F(EnergyTest, GpusWithACounter) {
  gpus.count = 2;
  gpus.energy_mj[0] = 1'000;
  gpus.energy_mj[1] = 5'000;
  EnergyMeter m = meter();
  m.start();
  gpus.energy_mj[0] = 4'000;
  gpus.energy_mj[1] = 5'500;
  const Energy energy = m.stop();
  EXPECT_EQ(energy.source, "nvml");
  EXPECT_DOUBLE_EQ(energy.joules, 3.5);
  EXPECT_EQ(energy.parts.size(), 2U);
  EXPECT_NE(energy.missing.find("processors"), std::string::npos);  // the missing part is reported
}

TEST_F(EnergyTest, GpusWithoutACounterAreSampled) {
  gpus.count = 1;
  gpus.has_energy = false;
  gpus.power_mw[0] = 100'000;
  zone("intel-rapl:0", "package-0", 0);
  {
    EnergyMeter m = meter();
    m.start();
    zone("intel-rapl:0", "package-0", 3'000'000);
    now_ns += 2'000'000'000;
    gpus.power_mw[0] = 300'000;
    const Energy energy = m.stop();
    EXPECT_EQ(energy.source, "rapl+nvml");
    EXPECT_DOUBLE_EQ(energy.joules, 3 + 2 * 200);
  }
  gpus.has_power = false;
  EnergyMeter m = meter();
  m.start();
  const Energy energy = m.stop();
  EXPECT_EQ(energy.source, "rapl");
  EXPECT_EQ(energy.missing, "gpu-0: tells neither energy nor power");
}

TEST_F(EnergyTest, TheRealOneAnswersEitherWay) {
  EnergyMeter m;
  m.start();
  const Energy energy = m.stop();
  EXPECT_EQ(energy.source.empty(), !m.is_available());
  if (energy.source.empty()) {
    EXPECT_NE(energy.missing, "");
  } else {
    EXPECT_GE(energy.joules, 0);
  }
}

TEST_F(EnergyTest, NvmlThatIsNotThereSaysWhy) {
  EXPECT_EQ(Nvml([](const char*) -> void* { return nullptr; }).reason(),
            "the NVIDIA driver is too old (no nvmlInit_v2)");
  EXPECT_EQ(Nvml(fake_lookup).reason(), "no NVIDIA GPU");
  gpus.starts = false;
  EXPECT_EQ(Nvml(fake_lookup).reason(), "NVML does not start (error 9)");
  gpus.starts = true;
  gpus.count = 2;
  gpus.shutdowns = 0;
  {
    const Nvml nvml(fake_lookup);
    EXPECT_EQ(nvml.name(0), "Fake H100");
    EXPECT_EQ(nvml.name(1), "Fake H200");
    EXPECT_EQ(nvml.reason(), "");
  }
  EXPECT_EQ(gpus.shutdowns, 1);
}

}  // namespace
}  // namespace tandem::bench
