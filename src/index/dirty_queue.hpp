// Dirty cells on their way to a replica, in the order in which they were read: a ring buffer in memory that somebody
// else owns (pinned memory of a device, as a rule).
//
//   released <= sent <= appended: [released, sent) is with the device, [sent, appended) waits to be sent.
//
// Positions count cells since the beginning and never wrap. Thread safety: one thread at a time.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "base/platform.hpp"
#include "index/cell.hpp"

namespace tandem {

class DirtyQueue {
 public:
  DirtyQueue() = default;
  // REQUIRES: a power of two of cells.
  explicit DirtyQueue(std::span<DirtyCell> memory) noexcept : cells_(memory.data()), capacity_(memory.size()) {
    TD_ASSERT((capacity_ & (capacity_ - 1)) == 0);
  }

  std::uint64_t capacity() const noexcept { return capacity_; }
  std::uint64_t room() const noexcept { return capacity_ - (appended_ - released_); }
  std::uint64_t waiting() const noexcept { return appended_ - sent_; }
  std::uint64_t in_flight() const noexcept { return sent_ - released_; }
  std::uint64_t sent() const noexcept { return sent_; }

  // REQUIRES: room() != 0.
  TD_INLINE void push(DirtyCell cell) noexcept { cells_[appended_++ & (capacity_ - 1)] = cell; }

  // The waiting cells that lie together, oldest first; none: nothing waits.
  std::span<const DirtyCell> unsent() const noexcept {
    const std::uint64_t at = offset();
    return {cells_ + at, std::min(waiting(), capacity_ - at)};
  }
  // Where unsent() lies in the memory, in cells.
  std::uint64_t offset() const noexcept { return capacity_ == 0 ? 0 : sent_ & (capacity_ - 1); }
  // The first `count` cells of unsent() are with the device.
  void send(std::uint64_t count) noexcept { sent_ += count; }
  // The device is done with what lies before `position`.
  void release(std::uint64_t position) noexcept { released_ = std::max(released_, position); }
  // What waits is not wanted any more.
  void drop_unsent() noexcept { appended_ = sent_; }

 private:
  DirtyCell* cells_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t released_ = 0, sent_ = 0, appended_ = 0;
};

}  // namespace tandem
