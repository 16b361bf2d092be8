// Lanes without order_loads() are no Lanes: a confirmed miss rests on it.
// expect: static assertion failed|static_assert.* failed
#include "index/cuckoo/lanes_scalar.hpp"

struct LazyLanes {
  static constexpr std::uint32_t width = tandem::bucket_cells;
  using PerLane = tandem::ScalarLanes::PerLane;
  PerLane load(const tandem::Bucket* b) const { return all.load(b); }
  std::uint32_t match(const PerLane& v, std::uint32_t s) const { return all.match(v, s); }
  tandem::Cell take(const tandem::Bucket* b, const PerLane& v, std::uint32_t i) const { return all.take(b, v, i); }
  tandem::Cell cas(std::uint64_t* p, tandem::Cell e, tandem::Cell d) const { return all.cas(p, e, d); }
  std::uint32_t lowest(std::uint32_t m) const { return all.lowest(m); }
  template <class F>
  void once(F f) const {
    f();
  }
#if defined(WITHOUT_THE_MISTAKE)
  void order_loads() const {}
#endif
  tandem::ScalarLanes all;
};
static_assert(tandem::Lanes<LazyLanes>);
