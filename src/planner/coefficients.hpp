// What plans were measured to demand of a machine. Plain data; `tandem calibrate --plans` measures it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// scheduler: changes that its thread sends to the device. up, down: bytes over the bus, to and from the device. memory:
// bytes of the host's.
enum class Resource : std::uint8_t { worker, scheduler, gpu, up, down, memory };
inline constexpr std::size_t resource_count = 6;
inline constexpr std::array<std::string_view, resource_count> resource_names = {"worker", "scheduler", "gpu",
                                                                                "up",     "down",      "memory"};
// Of a query: ns of a worker and of the GPU, changes, bytes. Or what there is of each resource in a ns.
using Demand = std::array<double, resource_count>;
constexpr std::size_t index_of(Resource r) noexcept { return static_cast<std::size_t>(r); }

// What each SET pays so that a device can answer.
enum class UpkeepLevel : std::uint8_t {
  none,   // the device has nothing
  index,  // a replica of the index
  items,  // and copies of small items
};
inline constexpr std::size_t upkeep_level_count = 3;
inline constexpr std::array<std::string_view, upkeep_level_count> upkeep_level_names = {"none", "index", "items"};

// A plan as it ran: with all its threads, in batches of this size.
struct Candidate {
  std::string plan;
  unsigned threads = 0;
  std::uint32_t batch = 0;
  UpkeepLevel level = UpkeepLevel::none;
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

// A grid of loads: each size of items with each share of SETs, uniform and zipf.
struct Coefficients {
  std::string processor, gpu, version, date;  // where, by which program and when
  unsigned threads = 0;                       // processors that were in use
  double cache_bytes = 0;                     // of the processor's last cache

  static constexpr std::size_t skews = 2;  // uniform, zipf
  double zipf_theta = 0.99;
  std::vector<double> set_shares;  // ascending, from 0 to 1
  // Of the sizes of items, ascending. query_bytes: of each size with each share.
  struct Size {
    double keys = 0, store_bytes = 0;
    std::vector<double> query_bytes;
  };
  std::vector<Size> sizes;
  struct PlanCosts {
    Candidate candidate;
    std::vector<Demand> points;  // number of the size, of the share, of the skew: the last one is the fastest
  };
  std::vector<PlanCosts> plans;
  // Of each resource, in a ns: the GPU's one, and the most that was seen of the others. Of the workers one each.
  Demand capacity{};

  std::size_t point_count() const noexcept { return sizes.size() * set_shares.size() * skews; }
  std::size_t point_of(std::size_t size, std::size_t share, std::size_t skew) const noexcept {
    return (size * set_shares.size() + share) * skews + skew;
  }
};

// Why these cannot have been measured, in words; empty: they can.
std::string why_impossible(const Coefficients& coefficients);

}  // namespace tandem
