#if defined(__x86_64__)
#include <immintrin.h>

#include "index/cuckoo/cuckoo.hpp"
#include "index/cuckoo/lanes_scalar.hpp"
#include "index/cuckoo/target_region.hpp"

TD_TARGET_BEGIN("avx512f,avx512dq,avx512vl,avx512bw,bmi,bmi2")
#include "index/cuckoo/lanes_avx512.hpp"

#define TD_LANES_NAMESPACE avx512
#include "index/cuckoo/cuckoo-inl.hpp"

#define TD_LANES_NAMESPACE avx512
#define TD_LANES Avx512Lanes
#include "index/cuckoo/cuckoo_ops-inl.hpp"
TD_TARGET_END

namespace tandem {

static_assert(Lanes<Avx512Lanes>);

namespace {
bool supported() noexcept {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
}
}  // namespace

const CuckooOps cuckoo_avx512 = {"avx512",
                                 supported,
                                 avx512::strip_both,
                                 avx512::strip_two_pass,
                                 avx512::strip_first,
                                 avx512::strip_second,
                                 avx512::strip_in_turn,
                                 avx512::probe_bucket,
                                 avx512::insert_one,
                                 avx512::erase_one,
                                 avx512::replace_changed_one,
                                 avx512::insert_changed_one};

}  // namespace tandem
#endif
