// An index that copies on devices can follow (placement/mirrored): by its cells, which have numbers, and the log in
// which its writers announce what they change. A device has the cells alone, and searches them by the table's shape.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>

#include "base/fingerprint.hpp"
#include "base/platform.hpp"
#include "index/cuckoo/cell.hpp"
#include "index/index.hpp"
#include "index/stripes.hpp"

namespace tandem {

// The cells of a table in host memory by number: groups of neighbouring cells, a group at an equal distance from the
// last. Numbers are those of Change.
struct CellArray {
  const std::uint64_t* first = nullptr;
  std::uint32_t group_bits = 0;                   // log2 of a group's cells
  std::uint32_t group_words = 1, cell_words = 1;  // from one group, one cell to the next, in words of 8 bytes

  TD_INLINE const std::uint64_t* at(std::uint64_t cell) const noexcept {
    return first + (cell >> group_bits) * group_words + (cell & ((std::uint64_t{1} << group_bits) - 1)) * cell_words;
  }
};

// The table that strips search now.
struct FollowedTable {
  CellArray cells{};  // atomic words (Cell); valid until the epoch ends
  TableShape shape{};
  std::uint32_t serial = 0;  // of Change
  // No key can be in another table alone. False while a growth copies, when only a search of both tables tells that a
  // key is absent.
  bool whole = false;
};

class FollowedIndex : public Index {
 public:
  // REQUIRES: the caller is in an epoch.
  virtual FollowedTable followed() const noexcept = 0;
  // The current word of what the key's writers hold. It tells whether a miss of a copy is final (write protocol 6).
  virtual StripeWord stripe(Fingerprint f) const noexcept = 0;
  virtual std::uint32_t shard_bits() const noexcept { return 0; }
  // Devices answered with the items at these locations: for an index that orders them by their last use. REQUIRES: the
  // caller is in the epoch in which they were found.
  virtual void note_reads(std::span<const Location>) const noexcept {}
  // Searches a column of keys as strips would, for measurements: the first pass of each. REQUIRES: as followed().
  virtual void search_column(std::span<const Fingerprint> f, Location* location) const noexcept = 0;
};

// FollowedIndex::search_column() for a kind.
template <std::derived_from<FollowedIndex> I>
void search_column_of(const I& index, std::span<const Fingerprint> f, Location* location) noexcept {
  constexpr std::size_t strip = 8, lead = 4 * strip;
  const auto prefetch = index.prefetcher();
  for (std::size_t i = 0; i < std::min(lead, f.size()); ++i) prefetch(f[i]);
  for (std::size_t i = 0; i < f.size(); i += strip) {
    const std::size_t end = std::min(i + strip, f.size());
    for (std::size_t k = i + lead; k < std::min(end + lead, f.size()); ++k) prefetch(f[k]);
    static_cast<void>(index.search_first(&f[i], static_cast<std::uint32_t>(end - i), location + i));
  }
}

}  // namespace tandem
