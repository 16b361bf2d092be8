// The cost of memory: dependent reads of blocks at random places, each of some cache lines in sequence.
#pragma once
#include <cstdint>
#include <memory>

namespace tandem::bench {

// Blocks of 16 lines in one memory, linked in a random circle: the next block's address is known only when all lines of
// this one have been read. Thread safety: one thread.
class PointerChase {
 public:
  static constexpr unsigned lines_max = 16;

  // Throws std::bad_alloc.
  PointerChase(std::uint64_t bytes, std::uint64_t seed);
  ~PointerChase();
  PointerChase(const PointerChase&) = delete;
  PointerChase& operator=(const PointerChase&) = delete;

  // Reads `lines` lines of each of `blocks` blocks; returns the nanoseconds per block. REQUIRES: 1 <= lines <= 16.
  double ns_per_block(unsigned lines, std::uint64_t blocks);
  std::uint64_t block_count() const noexcept { return blocks_; }
  std::uint64_t position() const noexcept { return at_; }  // the block to be read next

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
  std::uint64_t blocks_;
  std::uint64_t at_ = 0;
};

}  // namespace tandem::bench
