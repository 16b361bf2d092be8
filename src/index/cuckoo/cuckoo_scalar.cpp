#include "index/cuckoo/lanes_scalar.hpp"

#define TD_LANES_NAMESPACE scalar
#include "index/cuckoo/cuckoo-inl.hpp"
#include "index/cuckoo/cuckoo.hpp"

#define TD_LANES_NAMESPACE scalar
#define TD_LANES ScalarLanes
#include "index/cuckoo/cuckoo_ops-inl.hpp"

namespace tandem {

const CuckooOps cuckoo_scalar = {"scalar",
                                 []() noexcept { return true; },
                                 scalar::strip_both,
                                 scalar::strip_two_pass,
                                 scalar::strip_first,
                                 scalar::strip_second,
                                 scalar::strip_in_turn,
                                 scalar::probe_bucket,
                                 scalar::insert_one,
                                 scalar::erase_one,
                                 scalar::replace_changed_one,
                                 scalar::insert_changed_one};

}  // namespace tandem
