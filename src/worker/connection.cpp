#include "worker/connection.hpp"

#include <algorithm>

namespace tandem::net {

std::size_t Unsent::next(iovec* out, std::size_t count_max) const noexcept {
  const std::size_t count = std::min(count_max, pieces_.size() - first_);
  for (std::size_t i = 0; i < count; ++i) {
    const Piece& piece = pieces_[first_ + i];
    const char* begin = piece.external != nullptr ? piece.external : buffer_.data() + piece.offset;
    out[i] = {const_cast<char*>(begin), piece.bytes};
  }
  return count;
}

void Unsent::sent(std::size_t bytes, Heap& heap) noexcept {
  while (bytes != 0) {
    Piece& piece = pieces_[first_];
    const std::size_t gone = std::min(bytes, piece.bytes);
    bytes -= gone;
    piece.bytes -= gone;
    if (piece.external != nullptr) {
      piece.external += gone;
    } else {
      piece.offset += gone;
    }
    if (piece.bytes != 0) break;
    if (piece.external != nullptr) heap.unpin(piece.pin);
    ++first_;
  }
}

void Unsent::drop(Heap& heap) noexcept {
  for (; first_ < pieces_.size(); ++first_) {
    if (pieces_[first_].external != nullptr) heap.unpin(pieces_[first_].pin);
  }
}

}  // namespace tandem::net
