#include <atomic>
#include <bit>

#include "heap/item.hpp"
#include "index/slab_list/lanes_scalar.hpp"
#include "index/slab_list/slab_ops.hpp"

#define TD_LANES_NAMESPACE slabs_by_scalar
#include "index/slab_list/slab-inl.hpp"

#define TD_LANES_NAMESPACE slabs_by_scalar
#define TD_LANES ScalarSlabLanes
#include "index/slab_list/slab_ops-inl.hpp"

namespace tandem {

const SlabOps slabs_scalar = {"scalar", []() noexcept { return true; }, slabs_by_scalar::strip_lines,
                              slabs_by_scalar::strip_chains, slabs_by_scalar::entries};

}  // namespace tandem
