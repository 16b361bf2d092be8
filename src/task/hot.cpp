#include "task/hot.hpp"

#include "placement/offload_index.hpp"
#include "task/context.hpp"

namespace tandem::task {

bool promote(Context& context, Fingerprint f, std::string_view key, Location candidate) noexcept {
  Shared& shared = context.shared;
  OffloadIndex::Guard guard = shared.index_as<OffloadIndex>().lock(f);
  // Under the stripe: the item that was found may have been replaced since (KVCG's cache returns it then).
  const Item* const item = guard.find(key, candidate);
  return item != nullptr && shared.placement.promote(f, shared.heap.location_of(item));
}

}  // namespace tandem::task
