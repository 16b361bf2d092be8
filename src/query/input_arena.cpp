#include "query/input_arena.hpp"

namespace tandem {

char* InputArena::place_in_block(std::size_t bytes) {
  if (bytes > block_bytes) {
    larger_.push_back(std::make_unique_for_overwrite<char[]>(bytes));
    return larger_.back().get();
  }
  if (block_bytes - used_of_block_ < bytes) {
    if (block_ == blocks_.size()) blocks_.push_back(std::make_unique_for_overwrite<char[]>(block_bytes));
    ++block_;
    used_of_block_ = 0;
  }
  char* const at = blocks_[block_ - 1].get() + used_of_block_;
  used_of_block_ += bytes;
  return at;
}

void InputArena::clear_blocks() noexcept {
  block_ = 0;
  used_of_block_ = block_bytes;
  larger_.clear();
}

}  // namespace tandem
