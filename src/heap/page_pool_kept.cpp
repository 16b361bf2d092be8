// PagePool's lists of charged pages, and the frames that it keeps.
#include <algorithm>

#include "heap/page_pool.hpp"

namespace tandem {

void PagePool::push(PageId& head, PageId& tail, PageId p) noexcept {
  PageInfo& info = table_.info(p);
  info.avail_prev = 0;
  info.avail_next = head;
  (head != 0 ? table_.info(head).avail_prev : tail) = p;
  head = p;
}

void PagePool::remove(PageId& head, PageId& tail, PageId p) noexcept {
  const PageInfo& info = table_.info(p);
  (info.avail_prev != 0 ? table_.info(info.avail_prev).avail_next : head) = info.avail_next;
  (info.avail_next != 0 ? table_.info(info.avail_next).avail_prev : tail) = info.avail_prev;
}

void PagePool::set_idle(PageId p, bool idle) noexcept {
  table_.info(p).in_pool = idle;
  idle_pages_[p / 64] ^= std::uint64_t{1} << p % 64;
  pages_idle_.store(idle ? pages_idle() + 1 : pages_idle() - 1, std::memory_order_relaxed);
}

void PagePool::list_push(PageId p, bool dirty, bool holed) noexcept {
  PageInfo& info = table_.info(p);
  TD_ASSERT(!info.in_pool);
  info.dirty = dirty;
  info.holed = holed;
  info.is_kept = false;
  push(list_head_, list_tail_, p);
  set_idle(p, true);
}

void PagePool::list_remove(PageId p) noexcept {
  remove(list_head_, list_tail_, p);
  set_idle(p, false);
}

void PagePool::keep_idle(PageId begin, PageId end) noexcept {
  for (PageId f = begin; f < end; f += pages_per_frame_) keep_if_idle(f);
  // A claim waits for memory, or the limit was lowered.
  while (budget_.overdrawn() && return_frame() != 0) {
  }
}

void PagePool::keep_if_idle(PageId frame) noexcept {
  for (PageId p = frame; p < frame + pages_per_frame_; ++p) {
    const PageInfo& info = table_.info(p);
    if (!info.in_pool || info.is_kept || info.holed) return;
  }
  for (PageId p = frame; p < frame + pages_per_frame_; ++p) {
    remove(list_head_, list_tail_, p);
    table_.info(p).is_kept = true;
  }
  push(kept_head_, kept_tail_, frame);
  ++frames_kept_;
  budget_.keep(cost_of(frame));
}

void PagePool::use_frame(PageId frame) noexcept {
  remove(kept_head_, kept_tail_, frame);
  budget_.use_kept(cost_of(frame));
  frames_unneeded_ = std::min(frames_unneeded_, --frames_kept_);
  for (PageId p = frame + pages_per_frame_; p-- > frame;) {
    table_.info(p).is_kept = false;
    push(list_head_, list_tail_, p);
  }
}

// Returns the frame that was freed first to the system. How many bytes: 0 where there is none, or it refuses it.
std::uint64_t PagePool::return_frame() noexcept {
  if (kept_tail_ == 0) return 0;
  const PageId frame = kept_tail_;
  use_frame(frame);
  PageInfo& first = table_.info(frame);
  if (!discard(frame, frame + pages_per_frame_)) {
    // Still resident, so still charged.
    if (first.short_bytes != 0) {
      keep_if_idle(frame);
    } else {
      for (PageId p = frame; p < frame + pages_per_frame_; ++p) table_.info(p).holed = true;
    }
    return 0;
  }
  for (PageId p = frame; p < frame + pages_per_frame_; ++p) list_remove(p);
  free_hint_ = std::min<std::size_t>(free_hint_, frame / 64);
  const std::uint64_t bytes = cost_of(frame);
  first.short_bytes = 0;
  charged_bytes_ -= bytes;
  budget_.give_back(bytes);
  return bytes;
}

std::uint64_t PagePool::return_frames(std::uint64_t bytes) noexcept {
  std::uint64_t returned = 0;
  while (returned < bytes) {
    const std::uint64_t more = return_frame();
    if (more == 0) break;
    returned += more;
  }
  return returned;
}

std::uint64_t PagePool::return_kept(std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  return return_frames(bytes);
}

void PagePool::return_unneeded(std::uint32_t now_s) noexcept {
  constexpr std::uint64_t frames_at_once = 16;  // other threads wait meanwhile
  std::uint64_t left = 0;
  {
    const std::lock_guard lock(mutex_);
    if (now_s - unneeded_since_s_ < kept_s) return;
    left = frames_unneeded_;
    unneeded_since_s_ = now_s;
    frames_unneeded_ = frames_kept_;
  }
  while (left != 0) {
    const std::lock_guard lock(mutex_);
    for (std::uint64_t n = std::min({left, frames_at_once, frames_unneeded_}); n != 0; --n, --left) {
      if (return_frame() == 0) return;
    }
    if (frames_unneeded_ == 0) return;
  }
}

}  // namespace tandem
