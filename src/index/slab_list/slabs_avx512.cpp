#if defined(__x86_64__)
#include <immintrin.h>

#include <atomic>
#include <bit>

#include "heap/item.hpp"
#include "index/cuckoo/target_region.hpp"
#include "index/slab_list/lanes_scalar.hpp"
#include "index/slab_list/slab_ops.hpp"

TD_TARGET_BEGIN("avx512f,avx512dq,avx512vl,avx512bw,bmi,bmi2")
#include "index/slab_list/lanes_avx512.hpp"

#define TD_LANES_NAMESPACE slabs_by_avx512
#include "index/slab_list/slab-inl.hpp"

#define TD_LANES_NAMESPACE slabs_by_avx512
#define TD_LANES Avx512SlabLanes
#include "index/slab_list/slab_ops-inl.hpp"
TD_TARGET_END

namespace tandem {

static_assert(SlabLanes<Avx512SlabLanes>);

const SlabOps slabs_avx512 = {"avx512",
                              []() noexcept {
                                return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                                       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
                                       __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
                              },
                              slabs_by_avx512::strip_lines, slabs_by_avx512::strip_chains, slabs_by_avx512::entries};

}  // namespace tandem
#endif
