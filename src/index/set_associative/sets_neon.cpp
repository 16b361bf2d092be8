#if defined(__aarch64__)
#include "base/spin_wait.hpp"
#include "heap/item.hpp"
#include "index/set_associative/lanes_neon.hpp"
#include "index/set_associative/set_ops.hpp"

#define TD_LANES_NAMESPACE sets_by_neon
#include "index/set_associative/set-inl.hpp"

#define TD_LANES_NAMESPACE sets_by_neon
#define TD_LANES NeonTagLanes
#include "index/set_associative/set_ops-inl.hpp"

namespace tandem {

const SetOps16 sets_neon = {"neon",
                            []() noexcept { return true; },
                            sets_by_neon::strip_tags<set_ways>,
                            sets_by_neon::strip_entries<set_ways>,
                            sets_by_neon::strip_locked<set_ways>,
                            sets_by_neon::tagged_ways<set_ways>};

}  // namespace tandem
#endif
