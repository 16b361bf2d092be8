#include "heap/magazine.hpp"

#include <new>
#include <utility>

namespace tandem {

MagazineSupply::~MagazineSupply() {
  while (spare_ != nullptr) destroy(std::exchange(spare_, spare_->next));
}

Magazine* MagazineSupply::make() noexcept {
  if (count_ >= magazines_max) return nullptr;
  auto* const m = new (std::nothrow) Magazine;
  if (m != nullptr) ++count_;
  return m;
}

void MagazineSupply::destroy(Magazine* m) noexcept {
  delete m;
  --count_;
}

void RetiredChain::push(Location l, Item* item, std::uint64_t bytes) noexcept {
  const std::uint64_t dead = word::State::put(0, static_cast<std::uint64_t>(ItemState::dead));
  // Both marks together say that the expiry was replaced (copy_slowly()).
  item->state_word.store(word::ExpiryS::put(dead | word::Stale::mask | word::Win::mask, open_.head),
                         std::memory_order_relaxed);
  open_.head = l;
  open_.bytes += bytes;
}

std::uint64_t RetiredChain::seal(std::uint64_t stamp) noexcept {
  TD_DEBUG_ASSERT(can_seal());
  open_.stamp = stamp;
  sealed_ = std::exchange(open_, Sealed{});
  return sealed_.bytes;
}

RetiredChain::Sealed RetiredChain::pop(std::uint64_t safe) noexcept {
  if (sealed_.stamp >= safe) return {};
  return std::exchange(sealed_, Sealed{});
}

}  // namespace tandem
