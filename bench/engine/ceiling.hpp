// Upper bounds of an engine on this machine: loops over tables of the store's size. The two-line loop does only the two
// cache-line reads that every GET needs: the index line, and the item line that it names. The copy loop also reads the
// rest of the item and copies the value: the data movement of a GET, without finding or checking anything.
#pragma once
#include <cstdint>
#include <span>

#include "bench/engine/format.hpp"

namespace tandem::bench {

// Anonymous memory in huge pages where the kernel has them.
class HugeMemory {
 public:
  // Throws std::bad_alloc.
  explicit HugeMemory(std::uint64_t bytes);
  ~HugeMemory();
  HugeMemory(const HugeMemory&) = delete;
  HugeMemory& operator=(const HugeMemory&) = delete;
  char* data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return bytes_; }

 private:
  char* data_;
  std::uint64_t bytes_;
};

// Thread safety: immutable once made.
class Ceiling {
 public:
  Ceiling(std::uint32_t key_bytes, std::uint32_t value_bytes, std::uint64_t items, std::uint64_t index_bytes);

  // Both return a checksum, so that the compiler removes nothing. REQUIRES: the operations' keys are below `items`.
  std::uint64_t two_lines(std::span<const WireOp> ops) const noexcept;
  // Copies the values to `out`, one after the other.
  std::uint64_t copy(std::span<const WireOp> ops, char* out) const noexcept;

 private:
  std::uint32_t* cell(std::uint64_t key) const noexcept;

  std::uint64_t slot_bytes_, value_bytes_, value_offset_, lines_;
  HugeMemory index_, items_;
};

}  // namespace tandem::bench
