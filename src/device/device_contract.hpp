// Fixture for the contract tests of devices (device.hpp) and kernels: the devices of this machine.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "device/cuda/cuda_device.hpp"
#include "device/device.hpp"
#include "device/sim/sim_device.hpp"

namespace tandem {

#if defined(TANDEM_SANITIZED)
inline constexpr std::uint32_t contract_effort = 1;
#else
inline constexpr std::uint32_t contract_effort = 8;
#endif

struct DeviceKind {
  std::string name;
  std::function<std::unique_ptr<Device>()> make;
  friend std::ostream& operator<<(std::ostream& out, const DeviceKind& kind) { return out << kind.name; }
};

// `sim` at full speed, `sim` with timings like a GPU's behind PCIe, and every GPU.
inline std::vector<DeviceKind> device_kinds() {
  using namespace std::chrono_literals;
  const SimOptions timed{.latency = 20us, .copy_bytes_per_s = 20e9, .lanes = 1 << 15, .lane_time = 2us};
  std::vector<DeviceKind> kinds{{"sim", [] { return make_sim_device(); }},
                                {"sim_timed", [timed] { return make_sim_device(timed); }}};
  for (std::uint32_t i = 0; i < cuda_device_count().count; ++i) {
    kinds.push_back({"cuda" + std::to_string(i), [i] { return make_cuda_device(i); }});
  }
  return kinds;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t x = state_ += 0x9E3779B97F4A7C15ULL;  // splitmix64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
    return x ^ x >> 31;
  }
  std::uint32_t below(std::uint64_t n) { return static_cast<std::uint32_t>(next() % n); }

 private:
  std::uint64_t state_;
};

// Waits far longer than any of these tests takes.
inline DeviceStatus finish(Stream& stream) { return stream.wait(stream.mark(), std::chrono::minutes(2)); }

class DeviceContract : public testing::TestWithParam<DeviceKind> {
 protected:
  std::unique_ptr<Device> device = GetParam().make();
  std::unique_ptr<Stream> stream = device->make_stream();

  // The array in pinned memory, with these contents.
  template <class T>
  PinnedArray<T> pinned(const std::vector<T>& from) {
    PinnedArray<T> array(*device, from.size());
    if (!from.empty()) std::memcpy(array.data(), from.data(), from.size() * sizeof(T));
    return array;
  }
  template <class T>
  void upload(DevicePtr<T> to, const T* from, std::uint64_t count) {
    PinnedArray<std::byte> staging(*device, count * sizeof(T));
    std::memcpy(staging.data(), from, staging.bytes());
    ASSERT_EQ(stream->copy_to_device(DevicePtr<std::byte>(to.address()), staging.data(), staging.bytes()),
              DeviceStatus::ok);
    ASSERT_EQ(finish(*stream), DeviceStatus::ok);
  }
  template <class T>
  std::vector<T> download(DevicePtr<T> from, std::uint64_t count) {
    PinnedArray<std::byte> staging(*device, count * sizeof(T));
    EXPECT_EQ(stream->copy_to_host(staging.data(), DevicePtr<const std::byte>(from.address()), staging.bytes()),
              DeviceStatus::ok);
    EXPECT_EQ(finish(*stream), DeviceStatus::ok);
    std::vector<T> to(count);
    std::memcpy(static_cast<void*>(to.data()), staging.data(), staging.bytes());
    return to;
  }
};

}  // namespace tandem
