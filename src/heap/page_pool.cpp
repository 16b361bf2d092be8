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
constexpr std::uint32_t block_pages = 32;                                        // made usable together
constexpr std::uint64_t pages_max = (std::uint64_t{1} << 32 >> page_shift) - 1;  // page 0 is not used

// Address space wanted: many times the budget, so that runs are found, with a minimum for small budgets.
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

PagePool::PagePool(MemoryBudget& budget, bool huge_pages, MemoryFile* file)
    : budget_(budget),
      file_(file),
      huge_pages_(huge_pages && budget.limit_bytes() >= huge_pages_budget_bytes_min),
      pages_per_frame_(huge_pages_ ? 2 : 1) {
  const std::uint64_t in_file = file != nullptr ? file->page_end() : 0;
  const std::uint64_t pages_needed =
      std::clamp<std::uint64_t>(std::max(budget.limit_bytes() / page_bytes, in_file), block_pages, pages_max);
  std::uint64_t pages = std::max(pages_wanted(budget.limit_bytes()), pages_needed);
  while (!reserve(pages)) {
    if (pages == pages_needed) {
      throw std::system_error(errno, std::generic_category(), "heap: no address space for the memory limit");
    }
    pages = std::max(pages_needed, pages / 2);
  }
  table_.page_limit = static_cast<PageId>(pages / pages_per_frame_ * pages_per_frame_ + 1);
  free_pages_.assign(table_.page_limit / 64 + 1, 0);
  for (PageId p = 1; p < table_.page_limit; ++p) free_pages_[p / 64] |= std::uint64_t{1} << p % 64;
  usable_blocks_.assign((pages + block_pages - 1) / block_pages, false);
}

PagePool::~PagePool() {
  for (PageId p = 1; p < table_.page_limit; ++p) {
    if (!is_free(p)) unpoison_memory(table_.page(p), page_bytes);
  }
  budget_.give_back(frames_used_ * frame_cost_bytes());
  munmap(range_, range_bytes_);
  munmap(infos_, infos_bytes_);
}

// One range: [slack to the alignment][pages 1 .. n][their bitmaps].
bool PagePool::reserve(std::uint64_t pages) noexcept {
  pages = (pages + block_pages - 1) / block_pages * block_pages;  // whole blocks
  range_bytes_ = frame_alignment + pages * (page_bytes + bitmap_bytes);
  infos_bytes_ = (pages + 1) * (sizeof(PageInfo) + (file_ == nullptr ? sizeof(std::uint16_t) : 0));
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
  if (file_ != nullptr) {
    if (!file_->map_pages(page_1, pages)) {
      const int error = errno;
      munmap(range_, range_bytes_);
      munmap(infos_, infos_bytes_);
      errno = error;
      return false;
    }
    table_.tags = file_->tags();
    table_.saved_huge_value_bytes = file_->huge_value_bytes();
  }
  // A hint; kernels without huge pages refuse.
  if (huge_pages_) madvise(page_1, pages * page_bytes, MADV_HUGEPAGE);
  return true;
}

PageId PagePool::take_page() noexcept {
  PageId page = 0;
  bool dirty = false;
  {
    const std::lock_guard lock(mutex_);
    // While a claim waits for memory, pages of the list are reserved for the budget.
    if (list_head_ != 0 && !budget_.overdrawn()) {
      page = first_with_blocks();
      if (page == 0) return 0;
      dirty = table_.info(page).dirty;
      list_remove(page);
    } else {
      page = find_page();
      if (page == 0 || !budget_.take(frame_cost_bytes())) return 0;
      if (!make_usable(page, page + pages_per_frame_)) {
        budget_.give_back(frame_cost_bytes());
        return 0;
      }
      ++frames_used_;
      if (pages_per_frame_ == 2) list_push(page + 1, false);
    }
    mark_used(page, page + 1);
    dirty = dirty || is_file_dirty_;
  }
  if (dirty) std::memset(table_.page(page), 0, page_bytes);
  return page;
}

PageId PagePool::take_run(std::uint32_t pages) noexcept {
  if (pages == 1) return take_page();
  std::unique_lock lock(mutex_);
  const PageId first = find_run(pages);
  if (first == 0) return 0;
  // Pages in the list are charged already; frames that are all free are not. (Taking zero bytes fails, too, while a
  // claim waits.)
  const PageId end = first + pages;
  const PageId frames_end = frame_first(end - 1) + pages_per_frame_;
  std::uint64_t frames = 0;
  for (PageId f = frame_first(first); f < frames_end; f += pages_per_frame_) {
    frames += is_uncharged(f) ? 1u : 0u;
  }
  if (!budget_.take(frames * frame_cost_bytes())) return 0;
  if (!make_usable(frame_first(first), frames_end)) {
    budget_.give_back(frames * frame_cost_bytes());
    return 0;
  }
  frames_used_ += frames;
  for (PageId p = frame_first(first); p < frames_end; ++p) {
    const bool inside = p >= first && p < end;
    PageInfo& info = table_.info(p);
    if (inside) {
      if (info.in_pool) {
        list_remove(p);
      } else {
        info.dirty = false;
      }
    } else if (is_free(p) && !info.in_pool) {
      list_push(p, false);  // the other half of a frame that is now charged
    }
  }
  mark_used(first, end);
  const bool all_dirty = is_file_dirty_;
  lock.unlock();
  for (PageId p = first; p < end; ++p) {
    if (all_dirty || table_.info(p).dirty) std::memset(table_.page(p), 0, page_bytes);
  }
  return first;
}

// Of the list. A page whose blocks could not be freed may have lost some of them nevertheless.
PageId PagePool::first_with_blocks() const noexcept {
  if (file_ == nullptr) return list_head_;
  constexpr int looks = 16;
  PageId page = list_head_;
  for (int i = 0; i < looks && page != 0; ++i, page = table_.info(page).avail_next) {
    if (!table_.info(page).dirty || file_->allocate(page, page + 1)) return page;
  }
  return 0;
}

void PagePool::give_page(PageId page) noexcept { give_run(page, 1); }

void PagePool::give_run(PageId first, std::uint32_t pages) noexcept {
  const PageId end = first + pages;
  PageId whole_first = first;  // the frames of which no page is in use
  PageId whole_end = end;
  if (pages_per_frame_ == 2) {
    const std::lock_guard lock(mutex_);
    const auto half = [&](PageId p) noexcept {  // a page at the run's edge, with its buddy outside
      const PageId buddy = buddy_of(p);
      if (table_.info(buddy).in_pool) {
        list_remove(buddy);
        mark_used(buddy, buddy + 1);  // reserved for this call until it is discarded
        return true;
      }
      list_push(p, true);
      free_pages_[p / 64] |= std::uint64_t{1} << p % 64;
      return false;
    };
    if (frame_first(first) != first) whole_first = half(first) ? first - 1 : first + 1;
    if (frame_first(end) != end && end - 1 >= whole_first) whole_end = half(end - 1) ? end + 1 : end - 1;
  }
  if (whole_first >= whole_end) return;

  const bool discarded = discard(whole_first, whole_end);
  const std::lock_guard lock(mutex_);
  for (PageId p = whole_first; p < whole_end; ++p) {
    free_pages_[p / 64] |= std::uint64_t{1} << p % 64;
    if (!discarded) list_push(p, true);  // still resident, so still charged
  }
  if (!discarded) return;
  free_hint_ = std::min<std::size_t>(free_hint_, whole_first / 64);
  const std::uint64_t frames = (whole_end - whole_first) / pages_per_frame_;
  frames_used_ -= frames;
  budget_.give_back(frames * frame_cost_bytes());
}

PageId PagePool::lone_page() noexcept {
  constexpr int looks = 16;
  const std::lock_guard lock(mutex_);
  PageId page = list_head_;
  for (int i = 0; i < looks && page != 0; ++i, page = table_.info(page).avail_next) {
    const PageId buddy = buddy_of(page);
    // Not the same twice in a row: it may be impossible to close it now.
    if (buddy != lone_last_ && tag::state_of(table_.tag(buddy)) == PageState::open) return lone_last_ = buddy;
  }
  lone_last_ = 0;
  return 0;
}

// Single pages from the bottom, runs from the top, so that they do not fragment each other's space.
PageId PagePool::find_page() noexcept {
  for (std::size_t w = free_hint_; w < free_pages_.size(); ++w) {
    for (std::uint64_t word = free_pages_[w]; word != 0; word &= word - 1) {
      const auto p = static_cast<PageId>(w * 64 + static_cast<unsigned>(std::countr_zero(word)));
      if (frame_first(p) == p && is_uncharged(p)) {
        free_hint_ = w;
        return p;
      }
    }
  }
  free_hint_ = free_pages_.size();
  return 0;
}

bool PagePool::is_uncharged(PageId frame) const noexcept {
  for (PageId p = frame; p < frame + pages_per_frame_; ++p) {
    if (!is_free(p) || table_.info(p).in_pool) return false;
  }
  return true;
}

PageId PagePool::find_run(std::uint32_t pages) const noexcept {
  std::uint32_t run = 0;
  for (std::size_t w = free_pages_.size(); w-- > 0;) {
    const std::uint64_t word = free_pages_[w];
    if (word == 0) {
      run = 0;
    } else if (word == ~std::uint64_t{0} && run + 64 < pages) {
      run += 64;
    } else {
      for (unsigned bit = 64; bit-- > 0;) {
        run = (word >> bit & 1) != 0 ? run + 1 : 0;
        if (run == pages) return static_cast<PageId>(w * 64 + bit);
      }
    }
  }
  return 0;
}

bool PagePool::make_usable(PageId first, PageId end) noexcept {
  for (std::uint32_t block = (first - 1) / block_pages; block <= (end - 2) / block_pages; ++block) {
    if (!make_block_usable(block)) return false;
  }
  if (file_ != nullptr && !allocate_blocks(first, end)) return false;
  if (end > page_end_.load(std::memory_order_relaxed)) page_end_.store(end, std::memory_order_release);
  return true;
}

bool PagePool::make_block_usable(std::uint32_t block) noexcept {
  if (usable_blocks_[block]) return true;
  const PageId block_first = block * block_pages + 1;
  if (file_ == nullptr && mprotect(table_.page(block_first), block_pages * page_bytes, PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  if (mprotect(table_.bitmap(block_first), block_pages * bitmap_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  usable_blocks_[block] = true;
  return true;
}

// A store to a page without blocks would end the process: a full file system must be detected here.
bool PagePool::allocate_blocks(PageId first, PageId end) noexcept {
  constexpr std::uint32_t calls_between_tries = 64;  // a failing try is expensive, and an evictor tries often
  if (is_file_full_ && ++tries_skipped_ < calls_between_tries) return false;
  tries_skipped_ = 0;
  is_file_full_ = !file_->allocate(first, end);
  if (is_file_full_) {
    file_error_.store(errno, std::memory_order_relaxed);
    file_refusals_.store(file_refusals() + 1, std::memory_order_relaxed);
  }
  return !is_file_full_;
}

bool PagePool::prepare_recovery() noexcept {
  for (PageId p = 1; p < file_->page_end(); p += block_pages) {
    if (!make_block_usable((p - 1) / block_pages)) return false;
  }
  return true;
}

bool PagePool::recover_run(PageId first, std::uint32_t pages) noexcept {
  const std::lock_guard lock(mutex_);
  const PageId end = first + pages;
  std::uint64_t frames = 0;
  for (PageId f = frame_first(first); f < end; f += pages_per_frame_) frames += is_uncharged(f) ? 1u : 0u;
  if (!budget_.take(frames * frame_cost_bytes())) return false;
  frames_used_ += frames;
  mark_used(first, end);
  const PageId used_end = std::min(frame_first(end - 1) + pages_per_frame_, table_.page_limit);
  if (used_end > page_end_.load(std::memory_order_relaxed)) page_end_.store(used_end, std::memory_order_release);
  return true;
}

void PagePool::finish_recovery() noexcept {
  const std::lock_guard lock(mutex_);
  // A free page that stays charged, since its frame's other half is in use, needs its blocks. If there are none left,
  // the page is out of use.
  for (PageId first = 1; first < table_.page_limit;) {
    if (!is_free(first)) {
      ++first;
      continue;
    }
    PageId end = first + 1;
    while (end < table_.page_limit && is_free(end)) ++end;
    // Tags first: a page whose tag says free holds nothing, whatever its bytes are.
    for (PageId p = first; p < end; ++p) table_.set_tag(p, PageState::free, 0);
    if (!discard(first, end)) is_file_dirty_ = true;
    first = end;
  }
  for (PageId f = 1; pages_per_frame_ == 2 && f < page_end_.load(std::memory_order_relaxed); f += 2) {
    if (is_free(f) == is_free(f + 1)) continue;
    const PageId idle = is_free(f) ? f : f + 1;
    is_file_full_ = false;
    if (make_usable(idle, idle + 1)) {
      list_push(idle, is_file_dirty_);
    } else {
      mark_used(idle, idle + 1);
    }
  }
}

void PagePool::mark_used(PageId first, PageId end) noexcept {
  for (PageId p = first; p < end; ++p) free_pages_[p / 64] &= ~(std::uint64_t{1} << p % 64);
}

// Returns memory to the system: it reads as zero from now on. Locked memory (mlockall) cannot be discarded, only mapped
// again.
bool PagePool::discard(PageId first, PageId end) noexcept {
  const auto discard_bytes = [this](void* at, std::uint64_t bytes) noexcept {
    if (madvise(at, bytes, MADV_DONTNEED) == 0) return true;
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) return false;
    if (huge_pages_) madvise(at, bytes, MADV_HUGEPAGE);
    return true;
  };
  const std::uint64_t pages = end - first;
  const bool given =
      file_ != nullptr ? file_->discard(first, end) : discard_bytes(table_.page(first), pages * page_bytes);
  return given && discard_bytes(table_.bitmap(first), pages * bitmap_bytes);
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
  pages_idle_.store(pages_idle() + 1, std::memory_order_relaxed);
}

void PagePool::list_remove(PageId p) noexcept {
  PageInfo& info = table_.info(p);
  (info.avail_prev != 0 ? table_.info(info.avail_prev).avail_next : list_head_) = info.avail_next;
  if (info.avail_next != 0) table_.info(info.avail_next).avail_prev = info.avail_prev;
  info.in_pool = false;
  pages_idle_.store(pages_idle() - 1, std::memory_order_relaxed);
}

}  // namespace tandem
