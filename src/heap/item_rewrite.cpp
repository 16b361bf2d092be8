#include "heap/item_rewrite.hpp"

#include "base/spin_wait.hpp"

namespace tandem {

std::uint64_t wait_while_rewriting(const Item* item) noexcept {
  for (SpinWait waiting;; waiting.once()) {
    const std::uint64_t state = item->state_acquire();
    if (!is_rewriting(state)) return state;
  }
}

ItemVersion wait_for_version(const Item* item) noexcept {
  for (SpinWait waiting;; waiting.once()) {
    const ItemVersion seen = ItemVersion::of(item);
    if (!is_rewriting(seen.state) && item->fixed() == seen.fixed) return seen;
  }
}

bool lock_item(Item* item, ItemVersion& seen) noexcept {
  constexpr std::uint64_t version = word::State::mask | word::CasHigh::mask;
  std::uint64_t now = seen.state;
  for (SpinWait waiting;;) {
    if (is_rewriting(now)) {
      waiting.once();
      now = item->state_word.load(std::memory_order_relaxed);
      continue;
    }
    if (((now ^ seen.state) & version) != 0) return false;
    if (item->state_word.compare_exchange_weak(now, rewriting_state(now), std::memory_order_acquire,
                                               std::memory_order_relaxed))
      break;
  }
  // The state word alone may be of a later version: within a second two sets of the same marks make the same word.
  if (TD_LIKELY(item->fixed() == seen.fixed)) {
    seen.state = now;
    return true;
  }
  unlock_item(item, now);
  return false;
}

}  // namespace tandem
