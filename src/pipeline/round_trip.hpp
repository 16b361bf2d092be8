// Determines how large a batch must be to be worth a device's round trip, measured where the program runs.
//
// Thread safety: the scheduler's thread alone.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/epoch.hpp"
#include "device/device.hpp"
#include "index/followed_index.hpp"
#include "placement/device_side.hpp"

namespace tandem {

class RoundTrip {
 public:
  static constexpr std::uint32_t never = UINT32_MAX;

  // All of them outlive it. Throws DeviceError, std::runtime_error (no place among the epochs).
  RoundTrip(Device& device, const FollowedIndex& index, EpochDomain& epochs);

  // The smallest batch for which a search takes the device no longer, launch included, than one thread of the host, for
  // random keys in the present table. `never` if the device is slower for any size, fails, or does not answer within
  // `deadline` (it is then abandoned). `cycle`: the time that a batch may have to wait for its launch besides. Nothing
  // if the replica has no room for changes at the moment. Takes about a millisecond. REQUIRES: the replica is current;
  // nothing is in flight.
  std::optional<std::uint32_t> measure(DeviceSide& replica, std::chrono::milliseconds deadline,
                                       std::chrono::microseconds cycle = {});

  // A search of n queries takes device_ns + n * device_query_ns on the device, and n * host_query_ns on the host.
  struct Costs {
    double device_ns = 0, device_query_ns = 0, host_query_ns = 0;
  };
  // The result of measure() for these costs.
  static std::uint32_t queries_min(const Costs& costs) noexcept;
  // Of the last measure().
  const Costs& costs() const noexcept { return costs_; }

 private:
  static constexpr std::uint32_t few = 64, many = 8192, tries = 7;
  DeviceStatus wait(Stream& stream, std::chrono::milliseconds deadline) noexcept;
  std::optional<double> on_device_ns(DeviceSide& replica, std::uint32_t count, std::chrono::milliseconds deadline);
  double on_host_ns(std::uint32_t count) noexcept;
  void draw(std::uint32_t count) noexcept;

  Device& device_;
  const FollowedIndex& index_;
  EpochDomain::Participant epoch_;
  PinnedArray<Fingerprint> fingerprints_;
  PinnedArray<Location> locations_;
  std::uint64_t drawn_ = 0;
  Costs costs_;
};

}  // namespace tandem
