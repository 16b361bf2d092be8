#if defined(__aarch64__)
#include "index/cuckoo/cuckoo.hpp"
#include "index/cuckoo/lanes_neon.hpp"

#define TD_LANES_NAMESPACE neon
#include "index/cuckoo/cuckoo-inl.hpp"

#define TD_LANES_NAMESPACE neon
#define TD_LANES NeonLanes
#include "index/cuckoo/cuckoo_ops-inl.hpp"

namespace tandem {

const CuckooOps cuckoo_neon = {"neon",
                               []() noexcept { return true; },
                               neon::strip_both,
                               neon::strip_two_pass,
                               neon::strip_first,
                               neon::strip_second,
                               neon::strip_in_turn,
                               neon::probe_bucket,
                               neon::insert_one,
                               neon::erase_one,
                               neon::replace_changed_one,
                               neon::insert_changed_one};

}  // namespace tandem
#endif
