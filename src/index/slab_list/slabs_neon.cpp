#if defined(__aarch64__)
#include <atomic>
#include <bit>

#include "heap/item.hpp"
#include "index/slab_list/lanes_neon.hpp"
#include "index/slab_list/slab_ops.hpp"

#define TD_LANES_NAMESPACE slabs_by_neon
#include "index/slab_list/slab-inl.hpp"

#define TD_LANES_NAMESPACE slabs_by_neon
#define TD_LANES NeonSlabLanes
#include "index/slab_list/slab_ops-inl.hpp"

namespace tandem {

const SlabOps slabs_neon = {"neon", []() noexcept { return true; }, slabs_by_neon::strip_lines,
                            slabs_by_neon::strip_chains, slabs_by_neon::entries};

}  // namespace tandem
#endif
