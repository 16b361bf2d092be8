#include "base/spin_wait.hpp"
#include "heap/item.hpp"
#include "index/set_associative/lanes_scalar.hpp"
#include "index/set_associative/set_ops.hpp"

#define TD_LANES_NAMESPACE sets_by_scalar
#include "index/set_associative/set-inl.hpp"

#define TD_LANES_NAMESPACE sets_by_scalar
#define TD_LANES ScalarTagLanes
#include "index/set_associative/set_ops-inl.hpp"

namespace tandem {

const SetOps16 sets_scalar = {"scalar",
                              []() noexcept { return true; },
                              sets_by_scalar::strip_tags<set_ways>,
                              sets_by_scalar::strip_entries<set_ways>,
                              sets_by_scalar::strip_locked<set_ways>,
                              sets_by_scalar::tagged_ways<set_ways>};

}  // namespace tandem
