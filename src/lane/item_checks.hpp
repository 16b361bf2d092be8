// What the words of the usual item are: constants, compared 32 bytes at a time.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/short_hash.hpp"
#include "heap/item.hpp"
#include "task/key_compare.hpp"

namespace tandem::lane {

// Selects, in the 32 bytes of an item's two words and its key's first bytes, the bits that is_usual() compares, by the
// key's length (at most 16). An item that matches is live, does not expire, is not stale, has no client flags, is not
// huge, and its key has the query's length and first bytes.
struct alignas(32) ItemMask {
  std::uint64_t state, fixed;
  std::uint8_t key[short_key_bytes_max];
};
inline constexpr std::uint64_t usual_state = static_cast<std::uint64_t>(ItemState::live);
inline constexpr auto item_masks = [] {
  std::array<ItemMask, short_key_bytes_max + 1> all{};
  for (std::size_t bytes = 0; bytes < all.size(); ++bytes) {
    all[bytes].state = word::State::mask | word::Stale::mask | word::Win::mask | word::ExpiryS::mask;
    all[bytes].fixed = word::KeyBytes::mask | word::HasFlags::mask | word::Huge::mask | word::BinaryKey::mask;
    for (std::size_t i = 0; i < bytes; ++i) all[bytes].key[i] = 0xff;
  }
  return all;
}();

// The mask and the words' expected values by the length of any key, one cache line each.
struct alignas(cache_line_bytes) ItemCheck {
  ItemMask mask;
  std::uint64_t state, fixed;
};
inline constexpr auto item_checks = [] {
  std::array<ItemCheck, key_bytes_max + 1> all{};
  for (std::size_t bytes = 0; bytes < all.size(); ++bytes)
    all[bytes] = {item_masks[std::min(bytes, short_key_bytes_max)], usual_state, bytes};
  return all;
}();

// The masks for an item that a set can rewrite (task::is_rewritable): live, without expiry, not stale, recache token
// not taken. The set's layout gives the expected fixed word, CAS id excluded.
inline constexpr auto set_masks = [] {
  auto all = item_masks;
  for (ItemMask& mask : all) {
    mask.state = word::State::mask | word::Stale::mask | word::Win::mask | word::ExpiryS::mask;
    mask.fixed = ~word::CasLow::mask;
  }
  return all;
}();

// The lower half of the state word of a live item marked in second now_s.
constexpr std::uint32_t marked_at(std::uint32_t now_s) noexcept {
  return static_cast<std::uint32_t>(word::AccessS::put(usual_state | task::access_marks, now_s));
}
// The negation of task::needs_mark(): the item has its access marks, and they are recent. REQUIRES: it is live, neither
// stale nor won. marked: marked_at() of this second.
TD_INLINE constexpr bool is_marked(std::uint64_t state, std::uint32_t marked) noexcept {
  // If the marks are present, the difference is zero below the age's bits. The shift drops the bits above the age, and
  // the rotation moves the age to the bottom and the bits below it to the top, where any set bit makes the result
  // large.
  constexpr int above = 32 - word::AccessS::hi;
  const std::uint32_t difference = (marked - static_cast<std::uint32_t>(state)) << above;
  return std::rotr(difference, above + static_cast<int>(word::AccessS::lo)) < task::access_refresh_s;
}

}  // namespace tandem::lane
