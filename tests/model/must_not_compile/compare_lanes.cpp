// Two values that differ by lane cannot be compared into one bool.
// expect: no match for .operator==.|invalid operands to binary expression
#include "index/cuckoo/lanes_scalar.hpp"

bool are_equal(const tandem::Bucket* a, const tandem::Bucket* b) {
  const tandem::ScalarLanes lanes;
#if !defined(WITHOUT_THE_MISTAKE)
  return lanes.load(a) == lanes.load(b);
#else
  return lanes.match(lanes.load(a), 1) == lanes.match(lanes.load(b), 1);
#endif
}
