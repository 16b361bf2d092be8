#include "heap/page_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "heap/poison.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t frame_alignment = std::uint64_t{2} << 20;
constexpr std::uint32_t block_pages = 32;  // made usable together
constexpr std::uint32_t no_frame = UINT32_MAX;
constexpr std::uint64_t pages_max = (std::uint64_t{1} << 32 >> page_shift) - 1;  // page 0 is not used

// Address space wanted: many times the budget, so that runs are found, and plenty for small ones.
std::uint64_t pages_wanted(std::uint64_t budget_bytes) {
  constexpr std::uint64_t spare_bytes = std::uint64_t{8} << 30;
  if (budget_bytes >= pages_max * page_bytes) return pages_max;
  return std::min(pages_max, std::max(8 * budget_bytes, budget_bytes + spare_bytes) / page_bytes);
}

void* map(std::uint64_t bytes, int protection) {
  void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

}  // namespace

PagePool::PagePool(MemoryBudget& budget, bool huge_pages)
    : budget_(budget),
      huge_pages_(huge_pages && budget.limit_bytes() >= huge_pages_budget_bytes_min),
      pages_per_frame_(huge_pages_ ? 2 : 1) {
  const std::uint64_t pages_needed =
      std::clamp<std::uint64_t>(budget.limit_bytes() / page_bytes, block_pages, pages_max);
  std::uint64_t pages = std::max(pages_wanted(budget.limit_bytes()), pages_needed);
  while (!reserve(pages)) {
    if (pages == pages_needed) {
      throw std::system_error(errno, std::generic_category(), "heap: no address space for the memory limit");
    }
    pages = std::max(pages_needed, pages / 2);
  }
  frame_count_ = static_cast<std::uint32_t>(pages / pages_per_frame_);
  free_frames_.assign((frame_count_ + 63) / 64, ~std::uint64_t{0});
  if (frame_count_ % 64 != 0) free_frames_.back() = (std::uint64_t{1} << frame_count_ % 64) - 1;
  usable_blocks_.assign((pages + block_pages - 1) / block_pages, false);
  table_.page_limit = static_cast<PageId>(pages + 1);
}

PagePool::~PagePool() {
  for (std::uint32_t f = 0; f < frame_count_; ++f) {
    const bool used = (free_frames_[f / 64] >> f % 64 & 1) == 0;
    if (used) unpoison_memory(table_.page(first_page(f)), pages_per_frame_ * page_bytes);
  }
  budget_.give_back(frames_used_ * frame_cost_bytes());
  munmap(range_, range_bytes_);
  munmap(infos_, infos_bytes_);
}

// One range: [slack to the alignment][pages 1 .. n][their bitmaps].
bool PagePool::reserve(std::uint64_t pages) noexcept {
  pages = (pages + block_pages - 1) / block_pages * block_pages;  // whole blocks
  range_bytes_ = frame_alignment + pages * (page_bytes + bitmap_bytes);
  infos_bytes_ = (pages + 1) * (sizeof(PageInfo) + sizeof(std::uint16_t));
  range_ = static_cast<char*>(map(range_bytes_, PROT_NONE));
  if (range_ == nullptr) return false;
  infos_ = map(infos_bytes_, PROT_READ | PROT_WRITE);
  if (infos_ == nullptr) {
    const int error = errno;
    munmap(range_, range_bytes_);
    errno = error;
    return false;
  }
  const std::uint64_t misaligned = reinterpret_cast<std::uintptr_t>(range_) % frame_alignment;
  char* const page_1 = range_ + (misaligned == 0 ? 0 : frame_alignment - misaligned);
  table_.base = page_1 - page_bytes;
  table_.bitmaps = reinterpret_cast<std::uint64_t*>(page_1 + pages * page_bytes);
  table_.infos = static_cast<PageInfo*>(infos_);
  table_.tags =
      reinterpret_cast<std::atomic<std::uint16_t>*>(static_cast<char*>(infos_) + (pages + 1) * sizeof(PageInfo));
  // A hint; kernels without huge pages refuse.
  if (huge_pages_) madvise(page_1, pages * page_bytes, MADV_HUGEPAGE);
  return true;
}

PageId PagePool::take_page() noexcept {
  PageId page = 0;
  bool dirty = false;
  {
    const std::lock_guard lock(mutex_);
    // While somebody waits for memory (a claim), pages lying here are on their way to the budget.
    if (list_head_ != 0 && !budget_.overdrawn()) {
      page = list_head_;
      dirty = table_.info(page).dirty;
      list_remove(page);
    } else {
      const std::uint32_t frame = find_frame();
      if (frame == no_frame || !budget_.take(frame_cost_bytes())) return 0;
      if (!take_frames(frame, 1)) {
        budget_.give_back(frame_cost_bytes());
        return 0;
      }
      page = first_page(frame);
      if (pages_per_frame_ == 2) list_push(page + 1, false);
    }
  }
  if (dirty) std::memset(table_.page(page), 0, page_bytes);
  return page;
}

PageId PagePool::take_run(std::uint32_t pages) noexcept {
  if (pages == 1) return take_page();
  const std::uint32_t frames = (pages + pages_per_frame_ - 1) / pages_per_frame_;
  const std::uint64_t cost = frames * frame_cost_bytes();
  if (!budget_.take(cost)) return 0;
  const std::lock_guard lock(mutex_);
  const std::uint32_t frame = find_frames(frames);
  if (frame == no_frame || !take_frames(frame, frames)) {
    budget_.give_back(cost);
    return 0;
  }
  const PageId first = first_page(frame);
  for (PageId spare = first + pages; spare < first + frames * pages_per_frame_; ++spare) list_push(spare, false);
  return first;
}

void PagePool::give_page(PageId page) noexcept {
  if (pages_per_frame_ == 2) {
    const std::lock_guard lock(mutex_);
    const PageId buddy = buddy_of(page);
    if (!table_.info(buddy).in_pool) {
      list_push(page, true);
      return;
    }
    list_remove(buddy);
  }
  give_frames(frame_of(page), 1);
}

void PagePool::give_run(PageId first, std::uint32_t pages) noexcept {
  if (pages == 1) return give_page(first);
  const std::uint32_t frames = pages / pages_per_frame_;
  give_frames(frame_of(first), frames);
  if (frames * pages_per_frame_ != pages) give_page(first + pages - 1);
}

PageId PagePool::lone_page() noexcept {
  constexpr int looks = 16;
  const std::lock_guard lock(mutex_);
  PageId page = list_head_;
  for (int i = 0; i < looks && page != 0; ++i, page = table_.info(page).avail_next) {
    const PageId buddy = buddy_of(page);
    // Not the same twice running: it may not be possible to close it now.
    if (buddy != lone_last_ && tag::state_of(table_.tag(buddy)) == PageState::open) return lone_last_ = buddy;
  }
  lone_last_ = 0;
  return 0;
}

// Single frames from the bottom, runs from the top: so they do not cut each other's space into pieces.
std::uint32_t PagePool::find_frame() noexcept {
  for (std::uint32_t w = first_free_hint_; w < free_frames_.size(); ++w) {
    if (free_frames_[w] != 0) {
      first_free_hint_ = w;
      return w * 64 + static_cast<std::uint32_t>(std::countr_zero(free_frames_[w]));
    }
  }
  first_free_hint_ = static_cast<std::uint32_t>(free_frames_.size());
  return no_frame;
}

std::uint32_t PagePool::find_frames(std::uint32_t count) const noexcept {
  std::uint32_t run = 0;
  for (std::size_t w = free_frames_.size(); w-- > 0;) {
    const std::uint64_t word = free_frames_[w];
    if (word == 0) {
      run = 0;
    } else if (word == ~std::uint64_t{0} && run + 64 < count) {
      run += 64;
    } else {
      for (unsigned bit = 64; bit-- > 0;) {
        run = (word >> bit & 1) != 0 ? run + 1 : 0;
        if (run == count) return static_cast<std::uint32_t>(w * 64 + bit);
      }
    }
  }
  return no_frame;
}

bool PagePool::take_frames(std::uint32_t first, std::uint32_t count) noexcept {
  const PageId end = first_page(first + count);
  for (PageId p = first_page(first); p < end; p = (p - 1) / block_pages * block_pages + block_pages + 1) {
    const std::uint32_t block = (p - 1) / block_pages;
    if (usable_blocks_[block]) continue;
    const PageId block_first = block * block_pages + 1;
    if (mprotect(table_.page(block_first), block_pages * page_bytes, PROT_READ | PROT_WRITE) != 0 ||
        mprotect(table_.bitmap(block_first), block_pages * bitmap_bytes, PROT_READ | PROT_WRITE) != 0) {
      return false;
    }
    usable_blocks_[block] = true;
  }
  for (std::uint32_t f = first; f < first + count; ++f) free_frames_[f / 64] &= ~(std::uint64_t{1} << f % 64);
  frames_used_ += count;
  if (end > page_end_.load(std::memory_order_relaxed)) page_end_.store(end, std::memory_order_release);
  return true;
}

// REQUIRES: the caller alone holds all pages of these frames.
void PagePool::give_frames(std::uint32_t first, std::uint32_t count) noexcept {
  const PageId page = first_page(first);
  const std::uint64_t pages = std::uint64_t{count} * pages_per_frame_;
  const bool discarded =
      discard(table_.page(page), pages * page_bytes) && discard(table_.bitmap(page), pages * bitmap_bytes);
  const std::lock_guard lock(mutex_);
  if (!discarded) {  // still resident, so still charged
    for (PageId p = page; p < page + pages; ++p) list_push(p, true);
    return;
  }
  for (std::uint32_t f = first; f < first + count; ++f) free_frames_[f / 64] |= std::uint64_t{1} << f % 64;
  first_free_hint_ = std::min(first_free_hint_, first / 64);
  frames_used_ -= count;
  budget_.give_back(count * frame_cost_bytes());
}

// Returns memory to the system: it reads as zero from now on. Locked memory (mlockall) cannot be discarded, only mapped
// afresh.
bool PagePool::discard(void* at, std::uint64_t bytes) noexcept {
  if (madvise(at, bytes, MADV_DONTNEED) == 0) return true;
  void* const fresh =
      mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (fresh == MAP_FAILED) return false;
  if (huge_pages_) madvise(at, bytes, MADV_HUGEPAGE);
  return true;
}

void PagePool::list_push(PageId p, bool dirty) noexcept {
  PageInfo& info = table_.info(p);
  TD_ASSERT(!info.in_pool);
  info.in_pool = true;
  info.dirty = dirty;
  info.avail_prev = 0;
  info.avail_next = list_head_;
  if (list_head_ != 0) table_.info(list_head_).avail_prev = p;
  list_head_ = p;
}

void PagePool::list_remove(PageId p) noexcept {
  PageInfo& info = table_.info(p);
  (info.avail_prev != 0 ? table_.info(info.avail_prev).avail_next : list_head_) = info.avail_next;
  if (info.avail_next != 0) table_.info(info.avail_next).avail_prev = info.avail_prev;
  info.in_pool = false;
}

}  // namespace tandem
