// A value that differs by lane cannot steer control flow: a tile of a GPU would diverge.
// expect: could not convert|not contextually convertible
#include "index/cuckoo/lanes_scalar.hpp"

bool is_something_there(const tandem::Bucket* bucket) {
  const tandem::ScalarLanes lanes;
#if !defined(WITHOUT_THE_MISTAKE)
  if (lanes.load(bucket)) return true;
#endif
  return lanes.match(lanes.load(bucket), 1) != 0;
}
