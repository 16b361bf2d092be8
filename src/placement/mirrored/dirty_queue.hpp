// What has changed, on its way to a replica in the order in which it was read: a ring buffer in memory that somebody
// else owns (pinned memory of a device, as a rule). T: DirtyCell, or a Granule of an item.
//
//   released <= sent <= appended: [released, sent) is with the device, [sent, appended) waits to be sent.
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
  // REQUIRES: a power of two of entries.
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

  // The waiting entries that lie together, oldest first; none: nothing waits.
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
  // Where unsent() lies in the memory, in entries.
  std::uint64_t offset() const noexcept { return capacity_ == 0 ? 0 : sent_ & (capacity_ - 1); }
  // The first `count` entries of unsent() are with the device.
  void send(std::uint64_t count) noexcept { sent_ += count; }
  // The device is done with what lies before `position`.
  void release(std::uint64_t position) noexcept { released_ = std::max(released_, position); }
  // What waits is not wanted any more.
  void drop_unsent() noexcept { appended_ = sent_; }

 private:
  T* entries_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t released_ = 0, sent_ = 0, appended_ = 0;
};

}  // namespace tandem
