// A copy of the algorithm that was compiled outside a target region cannot take that region's lanes: the compiler
// refuses to inline wide instructions into code for every processor.
//
// expect: target specific option mismatch|requires target feature
#include <immintrin.h>

#include "index/cuckoo/lanes_scalar.hpp"
#include "index/cuckoo/target_region.hpp"

#define TD_LANES_NAMESPACE everywhere
#include "index/cuckoo/cuckoo-inl.hpp"

TD_TARGET_BEGIN("avx2,bmi")
#include "index/cuckoo/lanes_avx2.hpp"
#define TD_LANES_NAMESPACE avx2
#include "index/cuckoo/cuckoo-inl.hpp"

std::uint32_t search_one(tandem::IndexView index, tandem::Fingerprint f) {
#if !defined(WITHOUT_THE_MISTAKE)
  return tandem::everywhere::search_both(tandem::Avx2Lanes{}, index, f);
#else
  return tandem::avx2::search_both(tandem::Avx2Lanes{}, index, f);
#endif
}
TD_TARGET_END
