// Copies of small items in device memory, independent of the processor (like cell.hpp). An item's image has the item's
// position in the heap, granule by granule: one location finds both. Granules are zero at their first word (state
// `free`) if their item is gone, too large to have an image, or beyond the copy.
#pragma once
#include <cstdint>
#include <type_traits>

#include "device/kernel.hpp"
#include "heap/item.hpp"
#include "index/cuckoo/cell.hpp"

namespace tandem {

struct alignas(granule_bytes) Granule {
  std::uint64_t word[granule_bytes / sizeof(std::uint64_t)];
};
static_assert(sizeof(Granule) == granule_bytes && std::is_trivially_copyable_v<Granule>);

inline constexpr std::uint32_t image_granules_limit = 8;  // an item with an image has no more

struct ItemImages {
  Granule* granules;            // one for each location below `count`
  std::uint32_t* marks;         // a bit for each: read by a search since the marks were cleared
  std::uint32_t count;          // 0: there are no images
  std::uint32_t item_granules;  // of an item with an image, at most; at most image_granules_limit
};
static_assert(std::is_trivially_copyable_v<ItemImages>);

TD_WORD constexpr std::uint64_t mark_words(std::uint64_t granules) { return (granules + 31) / 32; }

// The same, as the host names them.
struct DeviceImages {
  DevicePtr<Granule> granules;
  DevicePtr<std::uint32_t> marks;
  std::uint32_t count = 0;
  std::uint32_t item_granules = 0;

  void memory(MemoryUse& use) const {
    use.add(granules, count);
    use.add(marks, mark_words(count));
  }
};

// Bytes of the item with this word, header, key and value. REQUIRES: it is not huge.
TD_WORD constexpr std::uint64_t image_bytes(std::uint64_t fixed_word) {
  const std::uint64_t flags_bytes = (fixed_word & word::HasFlags::mask) != 0 ? 4 : 0;
  const std::uint64_t key_bytes = fixed_word & word::KeyBytes::mask;
  const std::uint64_t value_bytes = (fixed_word & word::ValueBytes::mask) >> word::ValueBytes::lo;
  return sizeof(Item) + flags_bytes + key_bytes + value_bytes;
}
// Granules of the item with these words, or 0: it has no image.
TD_WORD constexpr std::uint32_t image_granules(std::uint64_t state_word, std::uint64_t fixed_word) {
  constexpr std::uint64_t live = static_cast<std::uint64_t>(ItemState::live);
  if ((state_word & word::State::mask) != live || (fixed_word & word::Huge::mask) != 0) return 0;
  return static_cast<std::uint32_t>((image_bytes(fixed_word) + granule_bytes - 1) / granule_bytes);
}
static_assert(word::State::lo == 0 && word::KeyBytes::lo == 0);

// Whether an image with the first words replaces one with the old ones: it has the larger CAS id, or there is none.
TD_WORD constexpr bool is_newer_image(std::uint64_t state, std::uint64_t fixed, std::uint64_t old_state,
                                      std::uint64_t old_fixed) {
  constexpr std::uint64_t live = static_cast<std::uint64_t>(ItemState::live);
  if ((old_state & word::State::mask) != live) return true;
  const std::uint64_t high = state & word::CasHigh::mask, old_high = old_state & word::CasHigh::mask;
  return high != old_high ? high > old_high : (fixed >> word::CasLow::lo) > (old_fixed >> word::CasLow::lo);
}
static_assert(word::CasLow::hi == 64);

}  // namespace tandem
