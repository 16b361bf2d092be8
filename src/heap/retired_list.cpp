#include "heap/retired_list.hpp"

#include <utility>

namespace tandem {
namespace {
constexpr std::uint32_t spares_max = 16;

void delete_all(RetiredList::Chunk* chunk) {
  while (chunk != nullptr) delete std::exchange(chunk, chunk->next);
}
}  // namespace

RetiredList::~RetiredList() {
  delete_all(open_);
  delete_all(head_);
  delete_all(spare_);
}

bool RetiredList::new_open() noexcept {
  Chunk* chunk = spare_;
  if (chunk != nullptr) {
    spare_ = chunk->next;
    --spares_;
  } else {
    if (chunks_ == chunks_max) return false;
    chunk = new (std::nothrow) Chunk;
    if (chunk == nullptr) return false;
    ++chunks_;
  }
  chunk->next = nullptr;
  chunk->bytes = 0;
  chunk->count = 0;
  open_ = chunk;
  return true;
}

void RetiredList::recycle(Chunk* chunk) noexcept {
  if (spares_ == spares_max) {
    delete chunk;
    --chunks_;
    return;
  }
  chunk->next = spare_;
  spare_ = chunk;
  ++spares_;
}

void RetiredList::chain(Location l, Item* item, std::uint64_t bytes) noexcept {
  const std::uint64_t dead = word::State::put(0, static_cast<std::uint64_t>(ItemState::dead));
  item->state_word.store(word::ExpiryS::put(dead, open_chain_.head), std::memory_order_relaxed);
  open_chain_.head = l;
  open_chain_.bytes += bytes;
}

std::uint64_t RetiredList::seal(std::uint64_t stamp) noexcept {
  std::uint64_t bytes = 0;
  if (open_ != nullptr && open_->count != 0) {
    open_->stamp = stamp;
    bytes += open_->bytes;
    (tail_ != nullptr ? tail_->next : head_) = open_;
    tail_ = open_;
    open_ = nullptr;
  }
  // One sealed chain at a time: the next waits until it has gone.
  if (open_chain_.head != no_location && sealed_chain_.head == no_location) {
    open_chain_.stamp = stamp;
    bytes += open_chain_.bytes;
    sealed_chain_ = std::exchange(open_chain_, Chain{});
  }
  return bytes;
}

RetiredList::Chunk* RetiredList::pop(std::uint64_t safe) noexcept {
  Chunk* chunk = head_;
  if (chunk == nullptr || chunk->stamp >= safe) return nullptr;
  head_ = chunk->next;
  if (head_ == nullptr) tail_ = nullptr;
  return chunk;
}

RetiredList::Chain RetiredList::pop_chain(std::uint64_t safe) noexcept {
  if (sealed_chain_.stamp >= safe) return {};
  return std::exchange(sealed_chain_, Chain{});
}

}  // namespace tandem
