// The kind of index that devices can follow or hold. Placements `mirrored` and `on_device` copy its cells and launch
// its kernels. A store with another kind has placement `host`.
#pragma once
#include "index/cuckoo/cuckoo_index.hpp"
#include "index/index_kind.hpp"

namespace tandem {

using OffloadIndex = CuckooIndex;
static_assert(DeviceSearches<OffloadIndex> && DeviceChanges<OffloadIndex>);

// nullptr: the index is of another kind.
inline OffloadIndex* offload_index_of(Index& index) noexcept { return dynamic_cast<OffloadIndex*>(&index); }

}  // namespace tandem
