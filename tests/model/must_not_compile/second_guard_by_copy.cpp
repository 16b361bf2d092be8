// A stripe is held by one Guard: it cannot be copied or moved away.
// expect: use of deleted function|call to deleted constructor
#include "index/cuckoo/cuckoo_index.hpp"

void hold_twice(tandem::CuckooIndex& index, tandem::Fingerprint f) {
  tandem::CuckooIndex::Guard guard = index.lock(f);
#if !defined(WITHOUT_THE_MISTAKE)
  tandem::CuckooIndex::Guard other = guard;
#endif
}
