#include "task/key_compare.hpp"

#include <algorithm>

#include "index/followed_index.hpp"

namespace tandem::task {

// Items lie in memory: several are fetched at a time.
void mark_reads(const Shared& shared, std::span<const Location> items) noexcept {
  constexpr std::size_t ahead = 16;
  const std::uint32_t now_s = shared.clock.now_s();
  for (std::size_t i = 0; i < std::min(ahead, items.size()); ++i) prefetch_read(shared.heap.at(items[i]));
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i + ahead < items.size()) prefetch_read(shared.heap.at(items[i + ahead]));
    Item* const item = shared.heap.at(items[i]);
    if (const std::uint64_t state = item->state_acquire(); TD_LIKELY(Item::state_of(state) == ItemState::live))
      mark_access(item, state, now_s);
  }
  shared.index_as<FollowedIndex>().note_reads(items);
}

}  // namespace tandem::task
