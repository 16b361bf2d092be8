// What is known of the options with each kind of load that was seen: a phase that comes again is planned right at once.
//
// Thread safety: one thread.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "planner/plan_option.hpp"

namespace tandem {

// Of one option with one class of loads.
struct KnownOption {
  double ns = 0;                  // of a worker, a query, with all workers; 0: not measured
  double recent_ns = 0;           // the same, of the last windows
  double reference_ns = 0;        // ns when the others were last compared to it
  double crowding = 1;            // how much more that is than half of the workers showed
  std::uint64_t measured_ns = 0;  // when
  bool is_compared = false;       // by a probe, with another one of its level
  std::uint64_t probe_at_ns = 0, probe_pause_ns = 0;
};

struct LoadClass {
  double set_share = 0, query_bytes = 0;  // means of `windows`
  unsigned windows = 1;
  std::uint64_t seen_ns = 0;  // last
  std::array<KnownOption, plan_options_max> options{};
  std::uint64_t trial_at_ns = 0, trial_pause_ns = 0;  // of the level with a device, while it is not wanted
};

class LoadClasses {
 public:
  static constexpr std::size_t count_max = 64;

  LoadClasses() { classes_.reserve(count_max); }  // throws std::bad_alloc

  // Whether so many queries may be of the class: a rate differs by more than a tenth, and by more than chance and what
  // windows differ by anyway allow (4.5 standard deviations), or it is another one.
  bool is_of(const LoadClass& c, double set_share, double query_bytes, double queries) const noexcept;
  // Of each window: SETs come in bursts, and few values are most of the bytes.
  void look(double set_share, double query_bytes) noexcept;
  // Adds a window to its means, which follow a load that drifts slowly.
  static void follow(LoadClass& c, double set_share, double query_bytes, std::uint64_t now_ns) noexcept;
  // The one of this load; nullptr: there is none.
  LoadClass* find(double set_share, double query_bytes, double queries) noexcept;
  // A new one, in place of the one that was seen longest ago. Other classes stay where they are.
  LoadClass& add(double set_share, double query_bytes, std::uint64_t now_ns) noexcept;
  std::size_t count() const noexcept { return classes_.size(); }

 private:
  // Mean difference of two windows in a row, of logarithms. One large difference is a change.
  struct Unrest {
    double last = 0, mean = 0;
    void look(double value) noexcept;
    double deviation() const noexcept;
  };
  std::vector<LoadClass> classes_;
  Unrest of_sets_, of_bytes_;
};

}  // namespace tandem
