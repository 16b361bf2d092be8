// The part of the index that one of several devices has: the buckets with numbers that end in the shard's. One shard
// per device, by bits of the hash; Mega-KV 8 divides keys between nodes alike. Both buckets of a key have the same end
// (IndexView), in every table of a growth, so no change concerns two shards. Without that end their numbers are those
// of an ordinary table: a device with a shard needs to know nothing of the rest.
#pragma once
#include <cstdint>

#include "base/fingerprint.hpp"
#include "index/cuckoo/cell.hpp"

namespace tandem {

inline constexpr std::uint32_t shard_bits_max = 3, shards_max = 1 << shard_bits_max;

// REQUIRES: bits <= shard_bits_max, number < 1 << bits.
struct Shard {
  std::uint32_t number = 0, bits = 0;  // the default: all of the index

  static constexpr std::uint32_t number_of(Fingerprint f, std::uint32_t bits) { return f.hash & ((1u << bits) - 1); }
  static constexpr std::uint32_t number_of_cell(std::uint64_t cell, std::uint32_t bits) {
    return static_cast<std::uint32_t>(cell / bucket_cells) & ((1u << bits) - 1);
  }
  // The fingerprint in the shard's own table.
  constexpr Fingerprint local(Fingerprint f) const { return {f.signature, f.hash >> bits}; }
  constexpr std::uint32_t local_mask(std::uint32_t mask) const { return mask >> bits; }
  // Converts positions of cells, 8 * bucket + slot, between the index's table and the shard's.
  constexpr std::uint64_t local_cell(std::uint64_t cell) const {
    return (cell / bucket_cells >> bits) * bucket_cells + cell % bucket_cells;
  }
  constexpr std::uint64_t cell(std::uint64_t local_cell) const {
    return (local_cell / bucket_cells << bits | number) * bucket_cells + local_cell % bucket_cells;
  }
};
static_assert(Shard{3, 2}.cell(8 + 5) == (4 + 3) * 8 + 5 && Shard{3, 2}.local_cell((4 + 3) * 8 + 5) == 8 + 5);

}  // namespace tandem
