#include "heap/page_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
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
  idle_pages_.assign(free_pages_.size(), 0);
  for (PageId p = 1; p < table_.page_limit; ++p) free_pages_[p / 64] |= std::uint64_t{1} << p % 64;
  usable_blocks_.assign((pages + block_pages - 1) / block_pages, false);
  budget_.set_keeper(this);
}

PagePool::~PagePool() {
  budget_.set_keeper(nullptr);
  budget_.use_kept(budget_.kept_bytes());
  for (PageId p = 1; p < table_.page_limit; ++p) {
    if (!is_free(p)) unpoison_memory(table_.page(p), page_bytes);
  }
  budget_.give_back(charged_bytes_);
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
  madvise(page_1, pages * page_bytes, huge_pages_ ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return true;
}

PageId PagePool::take_page() noexcept {
  const std::lock_guard lock(mutex_);
  // While a claim waits for memory, charged pages are reserved for the budget.
  const bool may_use_idle = !budget_.overdrawn();
  PageId page = may_use_idle ? first_with_blocks() : 0;
  if (page == 0 && kept_head_ != 0 && may_use_idle) {
    page = kept_head_;
    use_frame(page);
    if (!widen(page)) {
      keep_if_idle(page);
      return 0;
    }
  } else if (page == 0) {
    page = find_page();
    if (page == 0 || !charge(frame_cost_bytes())) return 0;
    set_small_pages(page, false);
    if (!make_usable(page, page + pages_per_frame_)) {
      budget_.give_back(frame_cost_bytes());
      return 0;
    }
    charged_bytes_ += frame_cost_bytes();
    for (PageId p = page; p < page + pages_per_frame_; ++p) list_push(p, is_file_dirty_, false);
  }
  list_remove(page);
  mark_used(page, page + 1);
  return page;
}

PageId PagePool::take_run(std::uint32_t pages, std::uint64_t last_bytes) noexcept {
  std::uint32_t short_bytes = short_bytes_of(pages, last_bytes);
  if (pages == 1 && short_bytes == 0) return take_page();
  const std::lock_guard lock(mutex_);
  PageId first = 0, end = 0;
  if (short_bytes != 0) {
    const std::uint32_t span = (pages + pages_per_frame_ - 1) / pages_per_frame_ * pages_per_frame_;
    first = choose_run(span, pages_per_frame_);
    end = first + span;
  }
  if (first == 0) {
    short_bytes = 0;
    first = choose_run(pages, 1);
    end = first + pages;
  }
  if (first == 0) return 0;
  const PageId frames_begin = frame_first(first), frames_end = frame_first(end - 1) + pages_per_frame_;
  if (short_bytes != 0 && !set_small_pages(frames_end - pages_per_frame_, true))
    short_bytes = static_cast<std::uint32_t>(frame_bytes());
  // Kept frames become the run's, so that charging other frames does not return them.
  for (PageId f = frames_begin; f < frames_end; f += pages_per_frame_) {
    if (table_.info(f).in_pool && table_.info(f).is_kept) use_frame(f);
  }
  if (!charge_run(frames_begin, frames_end, short_bytes)) {
    keep_idle(frames_begin, frames_end);
    return 0;
  }
  for (PageId p = first; p < end; ++p) list_remove(p);
  mark_used(first, end);
  return first;
}

// What a run charges of its last frame; 0: all of it, or the odd page serves other items. A short frame takes the
// addresses of a whole one, so the range must have as many more than the budget.
std::uint32_t PagePool::short_bytes_of(std::uint32_t pages, std::uint64_t last_bytes) const noexcept {
  const std::uint64_t used = (last_bytes + run_part_bytes - 1) / run_part_bytes * run_part_bytes;
  if (file_ != nullptr || used >= page_bytes) return 0;
  const std::uint64_t budget_pages = std::max<std::uint64_t>(budget_.limit_bytes() / page_bytes, 1);
  const std::uint64_t times = table_.page_limit / budget_pages;
  const std::uint64_t frames = (pages + pages_per_frame_ - 1) / pages_per_frame_;
  if (frames * frame_bytes() > times * ((pages - 1) * page_bytes + used)) return 0;
  return static_cast<std::uint32_t>((pages - 1) % pages_per_frame_ * page_bytes + used);
}

// Preferably of pages that are resident already.
PageId PagePool::choose_run(std::uint32_t pages, std::uint32_t align) const noexcept {
  const PageId resident = pages_idle() < pages ? 0 : find_run(idle_pages_, pages, align);
  return resident != 0 ? resident : find_run(free_pages_, pages, align);
}

// Charges bytes to the budget; kept frames are returned for them.
bool PagePool::charge(std::uint64_t bytes) noexcept {
  while (!budget_.take_free(bytes)) {
    const std::uint64_t limit_bytes = budget_.limit_bytes();
    if (bytes > limit_bytes || budget_.used_bytes() > limit_bytes - bytes || return_frames(bytes) == 0) return false;
  }
  return true;
}

// Charges what is not charged yet of [begin, end); then all free pages there are in the list. (Taking zero bytes fails,
// too, while a claim waits.)
bool PagePool::charge_run(PageId begin, PageId end, std::uint32_t short_bytes) noexcept {
  const PageId last = end - pages_per_frame_;
  const auto wanted = [&](PageId f) noexcept { return frame_cost_bytes(f == last ? short_bytes : 0); };
  std::uint64_t bytes = 0;
  bool needs_blocks = false;
  for (PageId f = begin; f < end; f += pages_per_frame_) {
    const std::uint64_t has = is_uncharged(f) ? 0 : cost_of(f);
    bytes += wanted(f) - std::min(has, wanted(f));
    needs_blocks |= has == 0;
  }
  for (PageId p = begin; p < end; ++p) needs_blocks |= table_.info(p).in_pool && table_.info(p).holed;
  if (!charge(bytes)) return false;
  if (needs_blocks && !make_usable(begin, end)) {
    budget_.give_back(bytes);
    return false;
  }
  charged_bytes_ += bytes;
  for (PageId f = begin; f < end; f += pages_per_frame_) {
    if (!is_uncharged(f) && cost_of(f) > wanted(f)) {
      shorten(f, short_bytes);
      continue;
    }
    if (f != last || short_bytes == 0) use_whole(f);
    table_.info(f).short_bytes = f == last ? short_bytes : 0;
  }
  for (PageId p = begin; p < end; ++p) {
    if (is_free(p) && !table_.info(p).in_pool) list_push(p, is_file_dirty_, false);
  }
  return true;
}

// Charges all of a frame. False: past the budget.
bool PagePool::widen(PageId frame) noexcept {
  PageInfo& info = table_.info(frame);
  const std::uint64_t bytes = frame_cost_bytes() - cost_of(frame);
  if (bytes != 0 && !charge(bytes)) return false;
  charged_bytes_ += bytes;
  use_whole(frame);
  info.short_bytes = 0;
  return true;
}

// Huge pages back it from the next touch on. A short frame that is used again is all free, so its small pages can go.
void PagePool::use_whole(PageId frame) noexcept {
  const PageInfo& info = table_.info(frame);
  const bool has_small_pages = info.small_pages && info.short_bytes != 0;
  if (set_small_pages(frame, false) && has_small_pages) madvise(table_.page(frame), info.short_bytes, MADV_DONTNEED);
}

// Returns the end of a frame, which is resident, to the system and the budget. If that refuses, the charge stays.
void PagePool::shorten(PageId frame, std::uint32_t short_bytes) noexcept {
  PageInfo& info = table_.info(frame);
  const std::uint64_t had = cost_of(frame);
  const auto had_bytes = static_cast<std::uint32_t>(info.short_bytes != 0 ? info.short_bytes : frame_bytes());
  const bool is_done = madvise(table_.page(frame) + short_bytes, had_bytes - short_bytes, MADV_DONTNEED) == 0;
  info.short_bytes = is_done ? short_bytes : had_bytes;
  charged_bytes_ -= had - cost_of(frame);
  budget_.give_back(had - cost_of(frame));
}

// False: it would cut the range into too many mappings, of which a process may have 65,530 (vm.max_map_count).
bool PagePool::set_small_pages(PageId frame, bool small) noexcept {
  constexpr std::uint64_t borders_max = 16'384;
  PageInfo& info = table_.info(frame);
  if (!huge_pages_ || info.small_pages == small) return true;
  const auto is_border = [&](PageId other) noexcept {
    const bool differs = other != 0 && other < table_.page_limit && table_.info(other).small_pages != info.small_pages;
    return differs ? std::uint64_t{1} : 0;
  };
  const PageId before = frame > pages_per_frame_ ? frame - pages_per_frame_ : 0;
  const std::uint64_t borders = small_borders_ - is_border(before) - is_border(frame + pages_per_frame_);
  if (small && borders + 2 > borders_max) return false;
  // Kernels without huge pages refuse, and need not be told.
  if (madvise(table_.page(frame), frame_bytes(), small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE) != 0 && errno != EINVAL)
    return false;
  info.small_pages = small;
  small_borders_ = borders + is_border(before) + is_border(frame + pages_per_frame_);
  return true;
}

// Of the list. A page with blocks that could not be freed may have lost some of them nevertheless.
PageId PagePool::first_with_blocks() const noexcept {
  if (file_ == nullptr) return list_head_;
  constexpr int looks = 16;
  PageId page = list_head_;
  for (int i = 0; i < looks && page != 0; ++i, page = table_.info(page).avail_next) {
    if (!table_.info(page).holed || file_->allocate(page, page + 1)) return page;
  }
  return 0;
}

void PagePool::give_page(PageId page) noexcept { give_run(page, 1); }

void PagePool::give_run(PageId first, std::uint32_t pages) noexcept {
  const std::lock_guard lock(mutex_);
  PageId end = first + pages;
  if (const PageId last = frame_first(end - 1); table_.info(last).short_bytes != 0) end = last + pages_per_frame_;
  for (PageId p = first; p < end; ++p) {
    free_pages_[p / 64] |= std::uint64_t{1} << p % 64;
    list_push(p, true, false);
  }
  keep_idle(frame_first(first), end);
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

// The first of the highest neighbours among pages with their bits set, of which it is a multiple of `align` behind page
// 1.
PageId PagePool::find_run(const std::vector<std::uint64_t>& among, std::uint32_t pages, std::uint32_t align) noexcept {
  std::uint32_t run = 0;
  for (std::size_t w = among.size(); w-- > 0;) {
    const std::uint64_t word = among[w];
    if (word == 0) {
      run = 0;
    } else if (word == ~std::uint64_t{0} && run + 64 < pages) {
      run += 64;
    } else {
      for (unsigned bit = 64; bit-- > 0;) {
        run = (word >> bit & 1) != 0 ? run + 1 : 0;
        const auto page = static_cast<PageId>(w * 64 + bit);
        if (run >= pages && (page - 1) % align == 0) return page;
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
  charged_bytes_ += frames * frame_cost_bytes();
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
    // Tags first: a page with the tag of a free one holds nothing, whatever its bytes are.
    for (PageId p = first; p < end; ++p) table_.set_tag(p, PageState::free, 0);
    if (!discard(first, end)) is_file_dirty_ = true;
    first = end;
  }
  for (PageId f = 1; pages_per_frame_ == 2 && f < page_end_.load(std::memory_order_relaxed); f += 2) {
    if (is_free(f) == is_free(f + 1)) continue;
    const PageId idle = is_free(f) ? f : f + 1;
    is_file_full_ = false;
    if (make_usable(idle, idle + 1)) {
      list_push(idle, is_file_dirty_, false);
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
  const int advice = huge_pages_ && !table_.info(first).small_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
  const auto discard_bytes = [advice](void* at, std::uint64_t bytes) noexcept {
    if (madvise(at, bytes, MADV_DONTNEED) == 0) return true;
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) return false;
    madvise(at, bytes, advice);
    return true;
  };
  const std::uint64_t pages = end - first;
  const bool given =
      file_ != nullptr ? file_->discard(first, end) : discard_bytes(table_.page(first), pages * page_bytes);
  return given && discard_bytes(table_.bitmap(first), pages * bitmap_bytes);
}

}  // namespace tandem
