#if defined(__x86_64__)
#include <immintrin.h>

#include <atomic>
#include <bit>

#include "heap/item.hpp"
#include "index/cuckoo/target_region.hpp"
#include "index/slab_list/lanes_scalar.hpp"
#include "index/slab_list/slab_ops.hpp"

TD_TARGET_BEGIN("avx2,bmi")
#include "index/slab_list/lanes_avx2.hpp"

#define TD_LANES_NAMESPACE slabs_by_avx2
#include "index/slab_list/slab-inl.hpp"

#define TD_LANES_NAMESPACE slabs_by_avx2
#define TD_LANES Avx2SlabLanes
#include "index/slab_list/slab_ops-inl.hpp"
TD_TARGET_END

namespace tandem {

static_assert(SlabLanes<Avx2SlabLanes>);

const SlabOps slabs_avx2 = {"avx2",
                            []() noexcept { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi"); },
                            slabs_by_avx2::strip_lines, slabs_by_avx2::strip_chains, slabs_by_avx2::entries};

}  // namespace tandem
#endif
