// A stripe is held by one Guard: it cannot be copied or moved away.
// expect: use of deleted function|call to deleted constructor
#include "index/index.hpp"

void hold_twice(tandem::Index& index, tandem::Fingerprint f) {
  tandem::Index::Guard guard = index.lock(f);
#if !defined(WITHOUT_THE_MISTAKE)
  tandem::Index::Guard other = guard;
#endif
}
