#include "pipeline/round_trip.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "base/hash.hpp"
#include "index/cuckoo/table_kernels.hpp"
#include "pipeline/waiting.hpp"

namespace tandem {
namespace {

using Steady = std::chrono::steady_clock;

constexpr double endless = std::numeric_limits<double>::infinity();

double ns_since(Steady::time_point begun) {
  return std::chrono::duration<double, std::nano>(Steady::now() - begun).count();
}

}  // namespace

RoundTrip::RoundTrip(Device& device, const FollowedIndex& index, EpochDomain& epochs)
    : device_(device), index_(index), epoch_(epochs), fingerprints_(device, many), locations_(device, many) {}

std::optional<std::uint32_t> RoundTrip::measure(DeviceSide& replica, std::chrono::milliseconds deadline,
                                                std::chrono::microseconds cycle) {
  // The minimum: disturbances only add time.
  double few_ns = endless, many_ns = endless, host_ns = endless;
  for (std::uint32_t i = 0; i < tries; ++i) {
    for (const std::uint32_t count : {few, many}) {
      const std::optional<double> ns = on_device_ns(replica, count, deadline);
      if (!ns) return std::nullopt;
      if (*ns == endless) return never;
      double& least = count == few ? few_ns : many_ns;
      least = std::min(least, *ns);
    }
    host_ns = std::min(host_ns, on_host_ns(many));
  }
  costs_.device_query_ns = std::max(0.0, (many_ns - few_ns) / (many - few));
  costs_.device_ns = few_ns - few * costs_.device_query_ns + std::chrono::duration<double, std::nano>(cycle).count();
  costs_.host_query_ns = host_ns / many;
  return queries_min(costs_);
}

std::uint32_t RoundTrip::queries_min(const Costs& costs) noexcept {
  const double gain_ns = costs.host_query_ns - costs.device_query_ns;
  if (!(gain_ns > 0)) return never;
  const double queries = std::ceil(costs.device_ns / gain_ns);
  return queries < static_cast<double>(never) ? static_cast<std::uint32_t>(std::max(queries, 1.0)) : never;
}

// New keys each time: the cost of loading their buckets' lines is included.
void RoundTrip::draw(std::uint32_t count) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    ++drawn_;
    fingerprints_.data()[i] = fingerprint_of(reinterpret_cast<const char*>(&drawn_), sizeof drawn_, 0);
  }
}

DeviceStatus RoundTrip::wait(Stream& stream, std::chrono::milliseconds deadline) noexcept {
  const DeviceMark mark = stream.mark();
  Waiting waiting{Steady::now()};
  DeviceStatus status = stream.wait(mark, deadline);
  while (status == DeviceStatus::pending && !waiting.is_late(Steady::now(), deadline)) {
    std::this_thread::yield();
    status = stream.poll(mark);
  }
  if (status == DeviceStatus::pending) device_.abandon();
  return status;
}

// Nothing: it was not launched. Endless: it was launched and did not answer.
std::optional<double> RoundTrip::on_device_ns(DeviceSide& replica, std::uint32_t count,
                                              std::chrono::milliseconds deadline) {
  draw(count);
  const Steady::time_point begun = Steady::now();
  const ReplicaLaunch launch = replica.drain();
  if (!launch.ready()) return std::nullopt;
  Stream& stream = replica.stream();
  const bool queued = stream.launch(search_table, SearchArguments::of(launch.index, fingerprints_.at(), locations_.at(),
                                                                      count)) == DeviceStatus::ok;
  // Also after a failure: queued work must not use the columns any more.
  const DeviceStatus status = wait(stream, deadline);
  return queued && status == DeviceStatus::ok ? ns_since(begun) : endless;
}

// Only the first buckets, which have most keys that are found.
double RoundTrip::on_host_ns(std::uint32_t count) noexcept {
  draw(count);
  epoch_.enter();
  const Steady::time_point begun = Steady::now();
  index_.search_column({fingerprints_.data(), count}, locations_.data());
  const double ns = ns_since(begun);
  epoch_.exit();
  return ns;
}

}  // namespace tandem
