// Lanes with a per-lane value that converts to bool are no Lanes.
// expect: static assertion failed|static_assert.* failed
#include "index/cuckoo/lanes_scalar.hpp"

struct LooseLanes : tandem::ScalarLanes {
  struct PerLane : tandem::ScalarLanes::PerLane {
    operator bool() const { return cell[0] != 0; }
  };
#if !defined(WITHOUT_THE_MISTAKE)
  PerLane load(const tandem::Bucket* b) const { return {tandem::ScalarLanes::load(b)}; }
  static_assert(sizeof(PerLane) == 64);
};
static_assert(tandem::Lanes<LooseLanes>);
#else
};
static_assert(std::convertible_to<LooseLanes::PerLane, bool> && !tandem::Lanes<LooseLanes>);
#endif
