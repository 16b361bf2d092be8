// What one worker retired and still waits for its epoch: chunks of locations, one stamp each, oldest first.
//
// Chunks are small heap-allocated arrays, bounded in number; past the bound (or without memory) retired slots are
// linked through the upper half of their own state words, which nobody reads once they are dead. So retiring never
// fails and uses bounded memory.
//
// Thread safety: none (the cache's lock).
#pragma once
#include <cstdint>
#include <limits>
#include <new>

#include "heap/item.hpp"

namespace tandem {

class RetiredList {
 public:
  static constexpr std::uint32_t chunk_slots = 57;
  static constexpr std::uint64_t chunk_bytes_max = 256 * 1024;  // of item memory: a chunk with more is sealed early
  static constexpr std::uint32_t chunks_max = 2048;             // 512 KiB a worker
  static constexpr std::uint64_t no_stamp = std::numeric_limits<std::uint64_t>::max();

  struct Chunk {
    Chunk* next;
    std::uint64_t stamp, bytes;
    std::uint32_t count;
    Location slots[chunk_slots];
  };
  static_assert(sizeof(Chunk) == 256);

  // A list through the slots' state words.
  struct Chain {
    Location head = no_location;
    std::uint64_t stamp = no_stamp, bytes = 0;
  };

  RetiredList() = default;
  RetiredList(const RetiredList&) = delete;
  RetiredList& operator=(const RetiredList&) = delete;
  ~RetiredList();

  // REQUIRES: the slot is unlinked and marked dead; `bytes` is its size.
  TD_INLINE void push(Location l, Item* item, std::uint64_t bytes) noexcept {
    if (TD_UNLIKELY(open_ == nullptr) && !new_open()) {
      chain(l, item, bytes);
      return;
    }
    open_->slots[open_->count++] = l;
    open_->bytes += bytes;
  }
  // The open chunk wants a stamp before more is pushed.
  TD_INLINE bool is_full() const noexcept {
    return open_ != nullptr ? open_->count == chunk_slots || open_->bytes >= chunk_bytes_max
                            : open_chain_.bytes >= chunk_bytes_max && sealed_chain_.head == no_location;
  }
  bool has_open() const noexcept { return open_ != nullptr || open_chain_.head != no_location; }
  // Closes what is open; returns its bytes. REQUIRES: the stamp was taken after the last push.
  std::uint64_t seal(std::uint64_t stamp) noexcept;

  // The stamp of the oldest sealed chunk or chain; no_stamp when there is none.
  TD_INLINE std::uint64_t oldest_stamp() const noexcept {
    const std::uint64_t chunk = head_ != nullptr ? head_->stamp : no_stamp;
    return chunk < sealed_chain_.stamp ? chunk : sealed_chain_.stamp;
  }
  // The oldest sealed chunk with a stamp below `safe`, or nullptr; the caller recycles it.
  Chunk* pop(std::uint64_t safe) noexcept;
  void recycle(Chunk* chunk) noexcept;
  // The sealed chain, if its stamp is below `safe`; else an empty one.
  Chain pop_chain(std::uint64_t safe) noexcept;
  std::uint64_t memory_bytes() const noexcept { return chunks_ * sizeof(Chunk); }
  static Location next_in_chain(const Item* item) noexcept {
    return static_cast<Location>(word::ExpiryS::get(item->state_word.load(std::memory_order_relaxed)));
  }

 private:
  bool new_open() noexcept;
  void chain(Location l, Item* item, std::uint64_t bytes) noexcept;

  Chunk* open_ = nullptr;
  Chunk* head_ = nullptr;  // sealed, oldest first
  Chunk* tail_ = nullptr;
  Chunk* spare_ = nullptr;
  std::uint32_t chunks_ = 0;  // all there are
  std::uint32_t spares_ = 0;
  Chain open_chain_, sealed_chain_;
};

}  // namespace tandem
