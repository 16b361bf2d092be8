#if defined(__x86_64__)
#include <immintrin.h>

#include "base/spin_wait.hpp"
#include "heap/item.hpp"
#include "index/cuckoo/target_region.hpp"
#include "index/set_associative/lanes_scalar.hpp"
#include "index/set_associative/set_ops.hpp"

TD_TARGET_BEGIN("avx512f,avx512dq,avx512vl,avx512bw,bmi,bmi2")
#include "index/set_associative/lanes_avx512.hpp"

#define TD_LANES_NAMESPACE sets_by_avx512
#include "index/set_associative/set-inl.hpp"

#define TD_LANES_NAMESPACE sets_by_avx512
#define TD_LANES Avx512TagLanes
#include "index/set_associative/set_ops-inl.hpp"
TD_TARGET_END

namespace tandem {

static_assert(TagLanes<Avx512TagLanes>);

const SetOps16 sets_avx512 = {"avx512",
                              []() noexcept {
                                return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                                       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
                                       __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
                              },
                              sets_by_avx512::strip_tags<set_ways>,
                              sets_by_avx512::strip_entries<set_ways>,
                              sets_by_avx512::strip_locked<set_ways>,
                              sets_by_avx512::tagged_ways<set_ways>};

}  // namespace tandem
#endif
