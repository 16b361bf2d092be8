// The bytes that a batch's queries point to: what was received for it, followed by derived data (decoded keys, initial
// numbers). With a device it is memory that the device reads, too (frames/).
//
// Thread safety: one thread at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/platform.hpp"

namespace tandem {

class InputArena {
 public:
  // Without memory: everything is placed in blocks, which no device sees.
  InputArena() = default;
  // With its own memory.
  explicit InputArena(std::size_t bytes)
      : own_(std::make_unique_for_overwrite<char[]>(bytes)), begin_(own_.get()), bytes_(bytes) {}
  // Over memory that outlives it. nullptr: as without.
  InputArena(char* memory, std::size_t bytes) noexcept : begin_(memory), bytes_(memory != nullptr ? bytes : 0) {}

  const char* begin() const noexcept { return begin_; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::uint64_t offset_of(const char* p) const noexcept {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(begin_);
  }

  // Whether so many bytes can be read behind `end`, which is in the arena.
  TD_INLINE bool has_behind(const char* end, std::size_t bytes) const noexcept {
    return offset_of(end) + bytes <= bytes_;
  }

  // --- input: received at room(), kept by take()
  TD_INLINE bool has_room(std::size_t bytes) const noexcept { return aligned(used_) + bytes <= bytes_; }
  // Where the next input goes, at the start of a cache line. REQUIRES: has_room() for it.
  TD_INLINE char* room() noexcept { return begin_ + (used_ = aligned(used_)); }
  TD_INLINE void take(std::size_t bytes) noexcept { used_ += bytes; }
  // Discards all input.
  void reuse() noexcept { used_ = 0; }
  std::size_t used_bytes() const noexcept { return used_; }

  // --- derived data
  // `bytes` bytes, here if there is room, else in a block until clear(). Throws std::bad_alloc.
  char* place(std::size_t bytes) {
    if (TD_UNLIKELY(bytes_ - used_ < bytes)) return place_in_block(bytes);
    char* const at = begin_ + used_;
    used_ += bytes;
    return at;
  }
  // Frees what was placed in blocks.
  void clear() noexcept {
    if (TD_UNLIKELY(block_ != 0 || !larger_.empty())) clear_blocks();
  }

 private:
  static constexpr std::size_t block_bytes = 4096;
  static constexpr std::size_t aligned(std::size_t at) noexcept {
    return (at + cache_line_bytes - 1) & ~(cache_line_bytes - 1);
  }
  TD_NOINLINE char* place_in_block(std::size_t bytes);
  TD_NOINLINE void clear_blocks() noexcept;

  std::unique_ptr<char[]> own_;
  char* begin_ = nullptr;
  std::size_t bytes_ = 0, used_ = 0;
  std::vector<std::unique_ptr<char[]>> blocks_;          // of block_bytes each
  std::vector<std::unique_ptr<char[]>> larger_;          // allocations that exceed a block
  std::size_t used_of_block_ = block_bytes, block_ = 0;  // blocks_[block_ - 1] is filled up to there
};

}  // namespace tandem
