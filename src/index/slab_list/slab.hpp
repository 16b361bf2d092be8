// The words of a slab list and its shape in memory, independent of the processor.
//
// Source: KVCG 5.1 (a bucket is a chain of slabs of 31 entries and a link; the keys of a slab lie together, its values
// behind them; a lock for each bucket). Departures: an entry has the key's whole fingerprint in place of the key, which
// stays in the item, and a location of 4 bytes in place of a value or pointer of 8 (docs/decisions/0047-slab-list.md).
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/fingerprint.hpp"
#include "base/host_device.hpp"
#include "index/stripes.hpp"

namespace tandem {

inline constexpr std::uint32_t slab_entries = 31, slab_line_keys = 8, slab_lines = 4;
inline constexpr std::uint32_t all_entries = (1u << slab_entries) - 1;

// An entry's key word: |63 signature 32|31 hash 0|, never 0; 0 is a free entry.
constexpr std::uint64_t slab_key(Fingerprint f) { return std::uint64_t{f.signature} << 32 | f.hash; }
constexpr Fingerprint fingerprint_of_slab_key(std::uint64_t key) {
  return {static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key)};
}

// Whether a slab's word is a key. Those of a free slab (SlabPool) are below any.
constexpr bool is_slab_key(std::uint64_t word) { return word >> 32 != 0; }

// Plain words: all access is through std::atomic_ref.
struct alignas(128) Slab {
  std::uint64_t key[slab_entries];
  std::uint64_t next;  // number of the chain's next slab; 0: there is none. Below any key word
  std::uint32_t location[slab_entries];
  std::uint32_t unused;
};
static_assert(sizeof(Slab) == 384 && offsetof(Slab, next) == 248 && offsetof(Slab, location) == 256);
static_assert(std::is_trivially_copyable_v<Slab>);

// The line of eight keys that is looked at first, by bits of the hash that do not choose the bucket.
constexpr std::uint32_t preferred_line(Fingerprint f) { return f.signature >> 30; }
// The line beside it, which is looked at next: the two have one line of locations.
constexpr std::uint32_t line_beside(std::uint32_t line) { return line ^ 1; }
constexpr std::uint32_t entries_of_line(std::uint32_t line) { return (0xffu << line * slab_line_keys) & all_entries; }
static_assert(entries_of_line(0) == 0xff && entries_of_line(3) == 0x7f000000);

// The number of a key's stripe, and so of its bucket in its lowest 16 bits: all keys of a bucket, and of those that it
// is divided into, have one stripe.
constexpr std::uint32_t slab_hash(Fingerprint f) { return Stripes::index_of(f.signature) | f.hash << 16; }

// So many buckets, at least 2, of which the first ones are divided once more than the rest: linear hashing (W. Litwin,
// VLDB 1980).
struct SlabBuckets {
  std::uint32_t count, mask;

  constexpr explicit SlabBuckets(std::uint32_t n) : count(n), mask(~0u >> std::countl_zero(n - 1)) {}
  constexpr std::uint32_t of(Fingerprint f) const {
    const std::uint32_t bucket = slab_hash(f) & mask;
    return bucket < count ? bucket : bucket & mask >> 1;
  }
  // The bucket that is divided to make bucket `count`.
  constexpr std::uint32_t next_divided() const { return count - std::bit_floor(count); }
};
static_assert(SlabBuckets(5).mask == 7 && SlabBuckets(8).mask == 7 && SlabBuckets(5).next_divided() == 1);

// What searches need to know. Slabs never move, and no bucket goes.
struct SlabView {
  Slab* first = nullptr;  // first slabs, by bucket
  Slab* more = nullptr;   // the rest: number n is more[n - 1]
  SlabBuckets buckets = SlabBuckets(2);

  Slab* of(Fingerprint f) const noexcept { return first + buckets.of(f); }
};

}  // namespace tandem
