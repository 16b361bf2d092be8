// Changes in flight to a replica, in the order in which they were read. A ring buffer in memory owned elsewhere
// (usually pinned memory of a device). T: DirtyCell, or a Granule of an item.
//
//   released <= sent <= appended: [released, sent) is in flight, [sent, appended) is waiting to be sent.
//
// Positions count entries since the beginning and never wrap. Thread safety: one thread at a time.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/platform.hpp"
#include "index/cuckoo/cell.hpp"

namespace tandem {

template <class T = DirtyCell>
class DirtyQueue {
 public:
  DirtyQueue() = default;
  // REQUIRES: the number of entries is a power of two.
  explicit DirtyQueue(std::span<T> memory) noexcept : entries_(memory.data()), capacity_(memory.size()) {
    TD_ASSERT((capacity_ & (capacity_ - 1)) == 0);
  }

  std::uint64_t capacity() const noexcept { return capacity_; }
  std::uint64_t room() const noexcept { return capacity_ - (appended_ - released_); }
  std::uint64_t waiting() const noexcept { return appended_ - sent_; }
  std::uint64_t in_flight() const noexcept { return sent_ - released_; }
  std::uint64_t sent() const noexcept { return sent_; }
  std::uint64_t appended() const noexcept { return appended_; }

  // REQUIRES: room() != 0.
  TD_INLINE void push(const T& entry) noexcept { entries_[appended_++ & (capacity_ - 1)] = entry; }

  // The first contiguous run of waiting entries; empty: nothing waits.
  std::span<const T> unsent() const noexcept {
    const std::uint64_t at = offset();
    return {entries_ + at, std::min(waiting(), capacity_ - at)};
  }
  // All from `position` on, in two pieces. REQUIRES: sent() <= position <= appended().
  std::array<std::span<const T>, 2> since(std::uint64_t position) const noexcept {
    if (position == appended_) return {};
    const std::uint64_t at = position & (capacity_ - 1), count = appended_ - position;
    const std::uint64_t first = std::min(count, capacity_ - at);
    return {std::span<const T>(entries_ + at, first), std::span<const T>(entries_, count - first)};
  }
  // Offset of unsent() in the memory, in entries.
  std::uint64_t offset() const noexcept { return capacity_ == 0 ? 0 : sent_ & (capacity_ - 1); }
  // Marks the first `count` entries of unsent() as sent.
  void send(std::uint64_t count) noexcept { sent_ += count; }
  // The device has read everything before `position`.
  void release(std::uint64_t position) noexcept { released_ = std::max(released_, position); }
  // Discards the waiting entries.
  void drop_unsent() noexcept { appended_ = sent_; }

 private:
  T* entries_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t released_ = 0, sent_ = 0, appended_ = 0;
};

}  // namespace tandem
