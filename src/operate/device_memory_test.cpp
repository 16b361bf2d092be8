// A device with memory that other programs take, and a GPU that a wild access ends: the server's clients notice
// nothing.
#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <thread>

#include "operate/device_server_fixture.hpp"

namespace tandem::net::test {
namespace {

using Devices = std::vector<std::shared_ptr<Device>>;

struct Kind {
  const char* name;
  Devices (*make)();
  friend std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }
};

std::shared_ptr<Device> small_sim(std::uint32_t number) {
  return make_sim_device({.number = number, .memory_bytes = std::uint64_t{64} << 20});
}

// Of two devices one is enough to end the service of both, for as long as it has no memory.
std::vector<Kind> kinds() {
  std::vector<Kind> all{{"sim", [] { return Devices{small_sim(0)}; }},
                        {"two_sims", [] { return Devices{small_sim(0), small_sim(1)}; }}};
  if (cuda_device_count().count > 0) all.push_back({"gpu", [] { return Devices{make_cuda_device(0)}; }});
  return all;
}

EngineOptions beside(Devices devices, Preset preset, std::uint64_t values_bytes = 0) {
  EngineOptions o;
  o.memory_bytes = std::uint64_t{64} << 20;
  o.huge_pages = false;
  o.item_bytes_expected = 1 << 20;  // the index begins small and has to grow
  o.devices = std::move(devices);
  o.index_on_device = row_of(preset).index_on_device();
  o.device_values = {.bytes = values_bytes};
  o.scheduler.start_again_max = 1000ms;
  return o;
}

ServerOptions with(Preset preset) {
  ServerOptions o = any_port();
  o.preset = number_of(preset);
  return o;
}

// A TestServer that does not wait for its devices.
struct PatientServer {
  PatientServer(const ServerOptions& options, const EngineOptions& engine_options)
      : engine(engine_options), server(options, engine) {}
  int port() const { return server.tcp_port(); }

  Engine engine;
  Server server;
};

bool serves(int port) {
  Client c(port);
  return c.stats("gpu").at("gpu:serves") == "yes";
}

// All the memory that is left, for as long as it lives.
class Hog {
 public:
  explicit Hog(Device& device) : device_(device) {
    for (std::uint64_t bytes = std::uint64_t{1} << 40; bytes >= 4096;) {
      try {
        taken_.push_back(device_.allocate(bytes));
      } catch (const DeviceError& error) {
        if (error.status() != DeviceStatus::out_of_memory) throw;
        bytes /= 2;
      }
    }
  }
  ~Hog() {
    for (const auto at : taken_) device_.release(at);
  }
  Hog(const Hog&) = delete;
  Hog& operator=(const Hog&) = delete;

 private:
  Device& device_;
  std::vector<DevicePtr<std::byte>> taken_;
};

// So many that the index doubles several times.
void store_many(int port, int first, int end) {
  Client c(port);
  std::string requests;
  for (int i = first; i < end; ++i) requests += "set many" + std::to_string(i) + " 0 0 1 noreply\r\nv\r\n";
  EXPECT_TRUE(c.send(requests + "mn\r\n"));
  EXPECT_EQ(c.read(4), "MN\r\n");
}

class DeviceMemory : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(On, DeviceMemory, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(DeviceMemory, IsTakenWhenTheServerStarts) {
  const Devices devices = GetParam().make();
  std::optional<Hog> hog(std::in_place, *devices.back());
  PatientServer s(with(Preset::mirrored), beside(devices, Preset::mirrored, std::uint64_t{4} << 20));
  talk_together(s.port(), 4, 2);
  store_many(s.port(), 0, 20'000);
  talk(s.port(), 10, 2);
  EXPECT_FALSE(serves(s.port()));
  hog.reset();
  EXPECT_TRUE(eventually([&] { return serves(s.port()); }));
  talk(s.port(), 11, 2);
  Client c(s.port());
  const auto told = c.stats("gpu");
  if (devices.size() == 1) {
    EXPECT_EQ(told.at("gpu:values"), "on");
  } else {
    EXPECT_FALSE(told.contains("gpu:1:values")) << "several have no copies of items";
  }
  for (const auto& device : devices) EXPECT_FALSE(device->lost()) << device->lost_reason();
}

TEST_P(DeviceMemory, IsTakenWhenTheIndexGrows) {
  const Devices devices = GetParam().make();
  PatientServer s(with(Preset::mirrored), beside(devices, Preset::mirrored));
  ASSERT_TRUE(eventually([&] { return serves(s.port()); }));
  talk(s.port(), 0, 2);
  std::optional<Hog> hog(std::in_place, *devices.back());
  store_many(s.port(), 0, 100'000);
  EXPECT_TRUE(eventually([&] { return s.engine.stats().index_growths > 3; }));
  EXPECT_TRUE(eventually([&] { return !serves(s.port()); }));
  talk_together(s.port(), 4, 2, 1);
  EXPECT_FALSE(serves(s.port()));
  hog.reset();
  EXPECT_TRUE(eventually([&] { return serves(s.port()); }));
  talk(s.port(), 11, 2);
  for (const auto& device : devices) EXPECT_FALSE(device->lost()) << device->lost_reason();
}

// A kernel of ours reads where there is no memory: an error that stays until the process ends, for all streams of the
// GPU. It is what a defect of a kernel, or an error of its memory, would come to.
void meet_a_wild_access(Preset preset) {
  const std::shared_ptr<Device> device = make_cuda_device(0);
  const bool has_values = preset == Preset::mirrored;
  PatientServer s(with(preset), beside({device}, preset, has_values ? std::uint64_t{16} << 20 : 0));
  ASSERT_TRUE(eventually([&] { return serves(s.port()); }));
  talk_together(s.port(), 4, 2);
  std::atomic<int> next{100};
  std::atomic<bool> is_over{false};
  std::vector<std::thread> load;
  for (int i = 0; i < 4; ++i) {
    load.emplace_back([&] {
      while (!is_over) talk(s.port(), next.fetch_add(1), 3);
    });
  }
  std::this_thread::sleep_for(50ms);
  {
    const std::unique_ptr<tandem::Stream> stream = device->make_stream();
    const PinnedArray<Fingerprint> f(*device, 1);
    const PinnedArray<Location> location(*device, 1);
    f[0] = {1, 0};
    const DeviceIndex nowhere{DevicePtr<Bucket>(std::uint64_t{1} << 46), {}};
    EXPECT_EQ(stream->launch(search_table, SearchArguments::of(nowhere, f.at(), location.at(), 1)), DeviceStatus::ok);
    EXPECT_EQ(stream->wait(stream->mark(), 30s), DeviceStatus::lost);
  }
  EXPECT_TRUE(eventually([&] { return !serves(s.port()); }));
  std::this_thread::sleep_for(200ms);
  is_over = true;
  for (std::thread& t : load) t.join();
  talk(s.port(), 10, 2);
  Client c(s.port());
  const auto gpu = c.stats("gpu");
  EXPECT_NE(gpu.at("gpu:lost").find("illegal memory access"), std::string::npos) << gpu.at("gpu:lost");
  EXPECT_TRUE(device->lost());
  EXPECT_NE(device->lost_reason().find("illegal memory access"), std::string::npos) << device->lost_reason();
}

class GpuFaults : public testing::TestWithParam<Preset> {};
INSTANTIATE_TEST_SUITE_P(With, GpuFaults, testing::Values(Preset::mirrored, Preset::mega_kv),
                         [](const auto& preset) { return preset.param == Preset::mirrored ? "mirrored" : "mega_kv"; });

TEST_P(GpuFaults, AWildAccess) {
  if (const DeviceCount found = cuda_device_count(); found.count == 0) GTEST_SKIP() << found.reason;
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process of its own, for which it ends the GPU
  EXPECT_EXIT(
      {
        meet_a_wild_access(GetParam());
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tandem::net::test
