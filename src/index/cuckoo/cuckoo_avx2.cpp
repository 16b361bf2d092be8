#if defined(__x86_64__)
#include <immintrin.h>

#include "index/cuckoo/cuckoo.hpp"
#include "index/cuckoo/lanes_scalar.hpp"
#include "index/cuckoo/target_region.hpp"

TD_TARGET_BEGIN("avx2,bmi")
#include "index/cuckoo/lanes_avx2.hpp"

#define TD_LANES_NAMESPACE avx2
#include "index/cuckoo/cuckoo-inl.hpp"

#define TD_LANES_NAMESPACE avx2
#define TD_LANES Avx2Lanes
#include "index/cuckoo/cuckoo_ops-inl.hpp"
TD_TARGET_END

namespace tandem {

static_assert(Lanes<Avx2Lanes>);

const CuckooOps cuckoo_avx2 = {
    "avx2",
    []() noexcept { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi"); },
    avx2::strip_both,
    avx2::strip_two_pass,
    avx2::strip_first,
    avx2::strip_second,
    avx2::strip_in_turn,
    avx2::probe_bucket,
    avx2::insert_one,
    avx2::erase_one,
    avx2::replace_changed_one,
    avx2::insert_changed_one};

}  // namespace tandem
#endif
