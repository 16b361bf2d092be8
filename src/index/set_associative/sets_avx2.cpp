#if defined(__x86_64__)
#include <immintrin.h>

#include "base/spin_wait.hpp"
#include "heap/item.hpp"
#include "index/cuckoo/target_region.hpp"
#include "index/set_associative/lanes_scalar.hpp"
#include "index/set_associative/set_ops.hpp"

TD_TARGET_BEGIN("avx2,bmi")
#include "index/set_associative/lanes_avx2.hpp"

#define TD_LANES_NAMESPACE sets_by_avx2
#include "index/set_associative/set-inl.hpp"

#define TD_LANES_NAMESPACE sets_by_avx2
#define TD_LANES Avx2TagLanes
#include "index/set_associative/set_ops-inl.hpp"
TD_TARGET_END

namespace tandem {

static_assert(TagLanes<Avx2TagLanes>);

const SetOps16 sets_avx2 = {"avx2",
                            []() noexcept { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi"); },
                            sets_by_avx2::strip_tags<set_ways>,
                            sets_by_avx2::strip_entries<set_ways>,
                            sets_by_avx2::strip_locked<set_ways>,
                            sets_by_avx2::tagged_ways<set_ways>};

}  // namespace tandem
#endif
