// The interface through which writers announce changes, so that replicas of the index can follow (write protocol 2 and
// 6). Without a replica there is no log: a null pointer and one predicted branch a write.
//
// A set in place puts the item's new image into the log instead, if there is room for it (ImageSlot): under the item's
// lock, so before any reader sees the new version. No cell has to be read again then.
//
// Order of the calls, all while the writer holds the stripe of the key (and, for a displacement, the victim's):
//   reserve(changes) -> the changes -> commit(ticket) -> launch() -> the stripe's unlock, which stores that number and
//   the next version.
// What a growth copies into its new table is not announced: that table is followed from its upload on, which begins
// when the copy is done.
//
// A drain increments the launch number first, then re-reads every reserved cell, and removes only what was committed
// when it began. So a change with changed_at < n in its stripe is wholly in the replica that launch n searches.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>

#include "base/platform.hpp"
#include "heap/item.hpp"
#include "index/item_images.hpp"

namespace tandem {

// A change of a cell, or of its item (the state word): the drain reads cell and item again.
struct Change {
  std::uint32_t table;       // serial number of its table; each growth increases it
  std::uint64_t cell_index;  // 8 * bucket + slot
  friend bool operator==(const Change&, const Change&) = default;
};

// What a thread has published of its images. Written by that thread.
struct PublishedImages {
  std::atomic<std::uint64_t> end{0};    // position behind the last one
  std::atomic<std::uint64_t> count{0};  // of all since the beginning; may run ahead of `end`
};

// Where a writer puts an item's image. Without granules there is no room, or no replica follows: the cell is announced.
struct ImageSlot {
  Granule* granules = nullptr;
  PublishedImages* published = nullptr;
  std::uint64_t end = 0;  // published->end behind the image

  // Copies `item`, which gets this state word, and lets drains take the image. REQUIRES: granules; the caller
  // holds the item's lock, and has written the rest of its new version.
  TD_INLINE void publish(const Item* item, std::uint64_t state, std::uint64_t fixed) const noexcept {
    granules[image_granules(state, fixed) - 1] = {};  // what follows the item in its slot is uninitialised
    std::memcpy(reinterpret_cast<char*>(granules) + sizeof(Item), item->bytes() + sizeof(Item),
                image_bytes(fixed) - sizeof(Item));
    granules->word[0] = state;
    granules->word[1] = fixed;
    published->count.store(published->count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    published->end.store(end, std::memory_order_release);
  }
};

// Thread safety: all calls from any thread, by the holder of a stripe. None may block on a writer or a reader. The
// thread that reserves a ticket commits it, before it reserves another.
class ChangeLog {
 public:
  using Ticket = std::uint64_t;
  ChangeLog() = default;
  ChangeLog(const ChangeLog&) = delete;
  ChangeLog& operator=(const ChangeLog&) = delete;
  virtual ~ChangeLog() = default;

  virtual Ticket reserve(std::span<const Change> changes) noexcept = 0;
  virtual void commit(Ticket) noexcept = 0;
  virtual std::uint32_t launch() const noexcept = 0;  // number of the current launch

  // Room for the image of this cell's item, which is at `item`: so many granules. An image that is not published is
  // forgotten. REQUIRES: the thread publishes before it asks for another.
  virtual ImageSlot image_slot(std::uint64_t /*cell_index*/, Location /*item*/, std::uint32_t /*granules*/) noexcept {
    return {};
  }
};

// Brackets a change: reserves when made, commits at the end of the scope. A change that did not happen is committed as
// well: it costs a drain one needless read.
class Logged {
 public:
  TD_INLINE Logged(ChangeLog* log, std::initializer_list<Change> changes) noexcept : log_(log) {
    if (TD_UNLIKELY(log_ != nullptr)) ticket_ = log_->reserve({changes.begin(), changes.size()});
  }
  TD_INLINE ~Logged() {
    if (TD_UNLIKELY(log_ != nullptr)) log_->commit(ticket_);
  }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;

 private:
  ChangeLog* const log_;
  ChangeLog::Ticket ticket_ = 0;
};

}  // namespace tandem
