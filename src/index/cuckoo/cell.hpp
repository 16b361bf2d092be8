// The index's words and its shape in memory, independent of the processor: included by host and device compilations
// alike.
//
// Source: Mega-KV 4.1 (32-bit signature and location, two buckets of eight cells, the second bucket from the first and
// the signature). Departures: signature and location share one 64-bit word, so that a cell changes by one atomic
// operation (there they are in two arrays, written one after the other); the second bucket differs from the first by a
// mixed signature with its lowest bit set, so that the two are never the same bucket, however small the table.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/fingerprint.hpp"
#include "base/host_device.hpp"

namespace tandem {

inline constexpr std::uint32_t bucket_cells = 8;

// |63     location     32|31     signature     0|
// 0 is an empty cell; a signature is never 0. The signature is the low word, so lane i's signature is word 2i of a
// bucket.
struct Cell {
  std::uint64_t bits;

  static constexpr unsigned location_shift = 32;
  TD_WORD static constexpr Cell of(std::uint32_t signature, std::uint32_t location) {
    return {static_cast<std::uint64_t>(location) << location_shift | signature};
  }
  TD_WORD constexpr std::uint32_t signature() const { return static_cast<std::uint32_t>(bits); }
  TD_WORD constexpr std::uint32_t location() const { return static_cast<std::uint32_t>(bits >> location_shift); }
  TD_WORD constexpr bool empty() const { return bits == 0; }
  TD_WORD friend constexpr bool operator==(Cell a, Cell b) { return a.bits == b.bits; }
};
inline constexpr Cell empty_cell{0};
static_assert(sizeof(Cell) == 8 && std::is_trivially_copyable_v<Cell>);
static_assert(Cell::of(0x89abcdef, 0x01234567).bits == 0x0123456789abcdef);
static_assert(Cell::of(7, 9).signature() == 7 && Cell::of(7, 9).location() == 9);

// One cache line. Plain words: the host reaches them through std::atomic_ref, a device through cuda::atomic_ref.
struct alignas(64) Bucket {
  std::uint64_t cell[bucket_cells];
};
static_assert(sizeof(Bucket) == 64 && alignof(Bucket) == 64);

// What searches and changes need to know of a table; its memory is owned by another type (Table). Trivially copyable:
// the same bytes on host and device. REQUIRES: mask + 1 buckets, a power of two and at least 2 << shard_bits.
struct IndexView {
  Bucket* buckets;
  std::uint32_t mask;
  std::uint32_t shard_bits = 0;  // both buckets of a key have the same lowest shard_bits bits (Shard)

  TD_WORD constexpr std::uint32_t first(Fingerprint f) const { return f.hash & mask; }
  // The other bucket of a cell in bucket b: an involution, needs no key, keeps its low bits when the mask grows, and is
  // never b.
  TD_WORD constexpr std::uint32_t other(std::uint32_t b, std::uint32_t signature) const {
    std::uint32_t m = signature * 0x9E3779B1u;
    m ^= m >> 15;
    return b ^ (((m | 1u) << shard_bits) & mask);
  }
  TD_WORD std::uint32_t second(Fingerprint f) const { return other(first(f), f.signature); }
};
static_assert(std::is_trivially_copyable_v<IndexView> && sizeof(IndexView) == 16);

// The set of a key in a set-associative table of so many sets.
TD_WORD constexpr std::uint32_t set_number(Fingerprint f, std::uint32_t sets) {
  return static_cast<std::uint32_t>(std::uint64_t{f.hash} * sets >> 32);
}

// Where a table's cells lie that a device searches: a key has two buckets of a cuckoo table, or all 16 cells of a
// set-associative one's set, which are two neighbouring buckets.
struct TableShape {
  std::uint32_t mask = 0;  // of a cuckoo table: its buckets - 1
  std::uint32_t sets = 0;  // of a set-associative one, which has no mask; else 0

  TD_WORD constexpr std::uint64_t buckets() const {
    return sets != 0 ? std::uint64_t{sets} * 2 : std::uint64_t{mask} + 1;
  }
  TD_WORD constexpr std::uint64_t cells() const { return buckets() * bucket_cells; }
  TD_WORD constexpr std::uint32_t first(Fingerprint f) const {
    return sets != 0 ? set_number(f, sets) * 2 : IndexView{nullptr, mask}.first(f);
  }
  // REQUIRES: bucket == first(f).
  TD_WORD constexpr std::uint32_t second(std::uint32_t bucket, Fingerprint f) const {
    return sets != 0 ? bucket + 1 : IndexView{nullptr, mask}.other(bucket, f.signature);
  }
  TD_WORD friend constexpr bool operator==(TableShape a, TableShape b) { return a.mask == b.mask && a.sets == b.sets; }
};
inline constexpr std::uint32_t set_cells = 2 * bucket_cells;

// A table in a device's memory, for its searches.
struct SearchedTable {
  const Bucket* buckets;
  TableShape shape;
};
static_assert(std::is_trivially_copyable_v<SearchedTable> && sizeof(SearchedTable) == 16);

// A change for a replica: cell `index` (8 * bucket + slot) now holds `bits`.
struct DirtyCell {
  std::uint64_t index, bits;
};
static_assert(sizeof(DirtyCell) == 16);

// A change of one key's cell on a device (change_on_device): its location becomes `to` where it is `from`. 0 is no
// location: from 0 adds the cell, to 0 removes it.
struct alignas(16) CellChange {  // a device reads one with one load
  Fingerprint f;
  std::uint32_t from, to;
};
static_assert(sizeof(CellChange) == 16 && std::is_trivially_copyable_v<CellChange>);

// Queries of one batch, for a device that searches several batches at once: where it reads fingerprints and writes
// results. Device addresses.
struct SearchPart {
  std::uint64_t fingerprints, locations;
  std::uint32_t count;
};
inline constexpr std::uint32_t search_parts_max = 64;  // of one launch

// The cell where an insertion starts to search for a free one (Mega-KV 4.2): writers of one bucket start at different
// cells.
TD_WORD constexpr std::uint32_t preferred_cell(std::uint32_t signature) { return signature >> 29; }

}  // namespace tandem
