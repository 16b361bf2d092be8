// The operations that the lane needs per instruction set, in portable C++. ThreadSanitizer builds use it: every access
// to shared data is atomic.
#pragma once
#include <cstring>

#include "base/hash.hpp"
#include "codec/scan.hpp"
#include "index/cuckoo/lanes_scalar.hpp"
#include "index/hash_tree/inner_node.hpp"
#include "index/set_associative/lanes_scalar.hpp"
#include "index/slab_list/lanes_scalar.hpp"
#include "lane/state.hpp"

namespace tandem::lane {

struct ScalarKernel {
  using Tags = ScalarTagLanes;
  using Slabs = ScalarSlabLanes;

  // Bit i: p[i] is a space or a control character. REQUIRES: 64 readable bytes.
  TD_INLINE static std::uint64_t blanks(const char* p) noexcept {
    std::uint64_t found = 0;
    if constexpr (std::endian::native == std::endian::little) {
      // Eight bytes at a time. `larger` has the top bit of each byte that is above ' '; the multiplication collects the
      // top bits of the other bytes in one byte.
      constexpr std::uint64_t every_byte = 0x0101010101010101, low_bits = 0x7f * every_byte;
      for (unsigned i = 0; i < 64; i += 8) {
        const auto word = codec::load<std::uint64_t>(p + i);
        const std::uint64_t larger = ((word & low_bits) + (0x7f - ' ') * every_byte) | word;
        found |= ((~larger >> 7 & every_byte) * 0x0102040810204080 >> 56) << i;
      }
    } else {
      using Delimiter = codec::detail::Below<' ' + 1>;
      for (unsigned i = 0; i < 64; ++i) found |= std::uint64_t{Delimiter::matches(p[i])} << i;
    }
    return found;
  }
  // The key's first 16 bytes, zeros behind its end. REQUIRES: 16 readable bytes at `key`.
  TD_INLINE static void load_key(char* to, const char* key, std::size_t key_bytes) noexcept {
    load_short_key(to, key, std::min(key_bytes, short_key_bytes_max));
  }
  // The same for a key of at most short_key_bytes_max bytes.
  TD_INLINE static void load_short_key(char* to, const char* key, std::size_t key_bytes) noexcept {
    const ShortKey k = tandem::load_short_key(key, key_bytes);
    std::memcpy(to, &k, sizeof k);
  }
  // Fingerprints of the strip's short keys; those of long keys are left undefined.
  TD_INLINE static void hash(Strip& strip, std::uint64_t seed) noexcept { hash_first(strip, strip_queries, seed); }
  // The same of the first `count` queries.
  TD_INLINE static void hash_first(Strip& strip, std::uint32_t count, std::uint64_t seed) noexcept {
    for (std::uint32_t i = 0; i < count; ++i) {
      ShortKey k;
      std::memcpy(&k, strip.key16[i], sizeof k);
      strip.fingerprint[i] = split_hash(short_hash_of(k, info::key_bytes(strip.info[i]), seed));
    }
  }
  // The first cell of the bucket with this signature, or any cell without it. The cell is loaded again after the match,
  // as in candidate() of index/cuckoo/cuckoo-inl.hpp.
  TD_INLINE static Cell cell_of(const Bucket* bucket, std::uint32_t signature) noexcept {
    const ScalarLanes l{};
    const auto v = l.load(bucket);
    return l.take(bucket, v, first_of(l.match(v, signature)));
  }
  // Bit n: cell n of the bucket equals `cell`.
  TD_INLINE static std::uint32_t same_cells(const Bucket* bucket, Cell cell) noexcept {
    std::uint32_t same = 0;
    for (std::uint32_t n = 0; n < bucket_cells; ++n) {
      const std::uint64_t bits = ScalarLanes::at(&bucket->cell[n]).load(std::memory_order_relaxed);
      same |= (bits == cell.bits ? std::uint32_t{1} : 0) << n;
    }
    return same;
  }
  // The buckets of the strip's queries.
  TD_INLINE static void find_buckets(Strip& strip, const IndexView& view) noexcept {
    for (std::uint32_t i = 0; i < strip_queries; ++i) {
      const Fingerprint f = strip.fingerprint[i];
      strip.first[i] = view.buckets + view.first(f);
      strip.second[i] = view.buckets + view.second(f);
    }
  }
  // As InnerNode::below_in().
  TD_INLINE static std::uint32_t below_in(const std::int32_t* block, std::int32_t head) noexcept {
    return InnerNode::below_in(block, head);
  }
  // Bit i: query i has no candidate.
  TD_INLINE static std::uint32_t without_item(const Strip& strip) noexcept {
    std::uint32_t found = 0;
    for (std::uint32_t i = 0; i < strip_queries; ++i)
      found |= (strip.item[i] == &no_item.header ? std::uint32_t{1} : 0) << i;
    return found;
  }
  // Whether the item matches item_masks and the key's first bytes. If so, `state` and `fixed` are its words, both of
  // one version. REQUIRES: `item` is in the heap, or is no_item.
  TD_INLINE static bool is_usual(const Item* item, const char* key16, std::size_t key_bytes, std::uint64_t& state,
                                 std::uint64_t& fixed) noexcept {
    const ItemMask& mask = item_masks[std::min(key_bytes, short_key_bytes_max)];
    const ItemVersion seen = ItemVersion::of(item);
    state = seen.state;
    fixed = seen.fixed;
    return (state & mask.state) == usual_state && (fixed & mask.fixed) == key_bytes &&
           bytes_equal(item->bytes() + sizeof(Item), key16, std::min(key_bytes, short_key_bytes_max));
  }
  // Whether the item matches set_masks, the key, and `layout` in its fixed word. If so, `state` and `fixed` are its
  // words. REQUIRES: as is_usual(), and the key is short.
  TD_INLINE static bool is_rewritable(const Item* item, const char* key16, std::size_t key_bytes, std::uint64_t layout,
                                      std::uint64_t& state, std::uint64_t& fixed) noexcept {
    const ItemMask& mask = set_masks[key_bytes];
    const ItemVersion seen = ItemVersion::of(item);
    state = seen.state;
    fixed = seen.fixed;
    return (state & mask.state) == static_cast<std::uint64_t>(ItemState::live) && (fixed & mask.fixed) == layout &&
           bytes_equal(item->bytes() + sizeof(Item), key16, key_bytes);
  }

 protected:
  // The first cell of a match; 0 if there is none, as countr_zero() is 32 then.
  TD_INLINE static std::uint32_t first_of(std::uint32_t match) noexcept {
    static_assert(32 % bucket_cells == 0);
    return static_cast<std::uint32_t>(std::countr_zero(match)) % bucket_cells;
  }
};

}  // namespace tandem::lane
