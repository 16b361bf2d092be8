// What the planner chooses among, what it is told, and what it says. Plain data.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "planner/coefficients.hpp"

namespace tandem {

inline constexpr std::size_t plan_options_max = 4;

// A plan at a level: what a SET pays there is part of its costs.
struct PlanOption {
  std::string_view name;
  UpkeepLevel level = UpkeepLevel::none;
  bool on_device = false;
};

// What workers did with an option: all their time, waits for a device included, and the device's.
struct PlanUse {
  std::uint64_t queries = 0, worker_ns = 0, device_ns = 0;

  PlanUse& operator+=(const PlanUse& more) noexcept {
    queries += more.queries;
    worker_ns += more.worker_ns;
    device_ns += more.device_ns;
    return *this;
  }
  // Of a worker, 0 excepted. REQUIRES: there were queries.
  double ns_a_query() const noexcept {
    return static_cast<double>(std::max<std::uint64_t>(worker_ns, 1)) / static_cast<double>(queries);
  }
};

// Since the last time.
struct PlannerSeen {
  std::uint64_t now_ns = 0;
  std::array<PlanUse, plan_options_max> use{};
  std::uint64_t queries = 0, sets = 0, bytes = 0;  // bytes: of requests and replies; 0: not known
  unsigned workers = 1;
  UpkeepLevel level = UpkeepLevel::none;  // that has been reached
  bool has_device = true;                 // false: lost, or on the way to a level
  std::uint64_t overflows = 0;            // of the log
  // ns of a worker that a query of this load is predicted to take; 0: there is no prediction.
  std::array<double, plan_options_max> predicted_ns{};
};

enum class PlanReason : std::uint8_t {
  none,       // there was no load yet
  no_device,  // the host's
  unknown,    // the host's, until this load has been seen for a moment
  predicted,  // by the model
  measured,   // the best of what was measured with this load
  probe,      // half of the workers try another one
  rests,      // no plan with a device is worth its upkeep
};
inline constexpr std::array<std::string_view, 7> plan_reason_names = {"none",     "no_device", "unknown", "predicted",
                                                                      "measured", "probe",     "rests"};

// even, odd: options of the workers with such numbers.
struct PlanChoice {
  UpkeepLevel level = UpkeepLevel::none;  // that is wanted
  std::uint8_t even = 0, odd = 0;
  PlanReason reason = PlanReason::none;
  friend bool operator==(const PlanChoice&, const PlanChoice&) = default;
};

}  // namespace tandem
