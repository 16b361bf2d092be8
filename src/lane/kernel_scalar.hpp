// What the lane asks of a processor. Portable, and what ThreadSanitizer builds use: every access to what others change
// is an atomic one.
#pragma once
#include <cstring>

#include "base/hash.hpp"
#include "codec/scan.hpp"
#include "index/cuckoo/lanes_scalar.hpp"
#include "lane/state.hpp"

namespace tandem::lane {

struct ScalarKernel {
  using Cells = ScalarLanes;  // of a bucket

  // Bit i: p[i] is a space or a control character. REQUIRES: 64 readable bytes.
  TD_INLINE static std::uint64_t blanks(const char* p) noexcept {
    using Delimiter = codec::detail::Below<' ' + 1>;
    std::uint64_t found = 0;
    for (unsigned i = 0; i < 64; ++i) found |= std::uint64_t{Delimiter::matches(p[i])} << i;
    return found;
  }
  // The key's first 16 bytes, zeros behind its end. REQUIRES: 16 readable bytes at `key`.
  TD_INLINE static void load_key(char* to, const char* key, std::size_t key_bytes) noexcept {
    const ShortKey k = load_short_key(key, std::min(key_bytes, short_key_bytes_max));
    std::memcpy(to, &k, sizeof k);
  }
  // Fingerprints of the strip's keys that are short.
  TD_INLINE static void hash(Strip& strip, std::uint64_t seed) noexcept {
    for (std::uint32_t i = 0; i < strip_queries; ++i) {
      ShortKey k;
      std::memcpy(&k, strip.key16[i], sizeof k);
      strip.fingerprint[i] = split_hash(short_hash_of(k, info::key_bytes(strip.info[i]), seed));
    }
  }
  // Whether the item has what item_masks asks for; tells its words if it has. REQUIRES: `item` lies in the heap.
  TD_INLINE static bool is_usual(const Item* item, const char* key16, std::size_t key_bytes, std::uint64_t& state,
                                 std::uint64_t& fixed) noexcept {
    const ItemMask& mask = item_masks[std::min(key_bytes, short_key_bytes_max)];
    const ItemVersion seen = ItemVersion::of(item);
    state = seen.state;
    fixed = seen.fixed;
    return (state & mask.state) == usual_state && (fixed & mask.fixed) == key_bytes &&
           bytes_equal(item->bytes() + sizeof(Item), key16, std::min(key_bytes, short_key_bytes_max));
  }
  // Whether the item has what set_masks asks for and `layout` in its fixed word; tells its words if it has. REQUIRES:
  // as is_usual(), and the key is short.
  TD_INLINE static bool is_rewritable(const Item* item, const char* key16, std::size_t key_bytes, std::uint64_t layout,
                                      std::uint64_t& state, std::uint64_t& fixed) noexcept {
    const ItemMask& mask = set_masks[key_bytes];
    const ItemVersion seen = ItemVersion::of(item);
    state = seen.state;
    fixed = seen.fixed;
    return (state & mask.state) == static_cast<std::uint64_t>(ItemState::live) && (fixed & mask.fixed) == layout &&
           bytes_equal(item->bytes() + sizeof(Item), key16, key_bytes);
  }
};

}  // namespace tandem::lane
