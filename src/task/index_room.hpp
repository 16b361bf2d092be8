// Room in the index for a new key, after its insertion has found none.
#pragma once
#include <string_view>

#include "base/fingerprint.hpp"
#include "task/context.hpp"

namespace tandem::task {

// Waits for the index to grow, or, if it cannot, evicts: an item in the key's buckets; or, where the order of the keys
// has no memory for another leaf, what CLOCK chooses, until leaves can be merged. False: nothing worked in time, or the
// policy forbids it. REQUIRES: no epoch, no Guard held.
bool make_index_room(Context& context, Fingerprint f, std::string_view key) noexcept;

}  // namespace tandem::task
