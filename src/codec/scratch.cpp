#include "codec/protocol.hpp"

namespace tandem {

char* Scratch::allocate(std::size_t bytes) {
  if (bytes > block_bytes) {
    larger_.push_back(std::make_unique_for_overwrite<char[]>(bytes));
    return larger_.back().get();
  }
  if (block_bytes - used_ < bytes) {
    if (block_ == blocks_.size()) blocks_.push_back(std::make_unique_for_overwrite<char[]>(block_bytes));
    ++block_;
    used_ = 0;
  }
  char* const at = blocks_[block_ - 1].get() + used_;
  used_ += bytes;
  return at;
}

void Scratch::clear() noexcept {
  block_ = 0;
  used_ = block_bytes;
  larger_.clear();
}

}  // namespace tandem
