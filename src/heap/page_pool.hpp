// The heap's address range: hands out whole pages and runs of pages, charges them to the budget, and returns their
// memory to the system.
//
// The range is reserved without access and made usable block by block, so it costs nothing under any overcommit
// setting. It is several times the budget, so that a run of pages for a huge item is found in any state of
// fragmentation.
//
// With huge pages the kernel backs, and may at any time fill in, 2 MiB at once. So pages are charged and returned in
// frames of two: what is resident never passes what was charged. The unused half of a frame stays here, charged, for
// the next request for a page.
//
// The last frame of a run is charged only as far as the run reaches. The rest is address space: small pages back that
// frame, and no thread touches what is beyond. Not in a file, and not where the range is too small for it.
//
// A frame that became free is kept: it stays resident and charged, because the system zeroes memory again at each use.
// It is returned when the budget needs it (KeptMemory), or when nothing has needed it for a time (return_unneeded).
//
// Thread safety: all calls from any thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/memory_budget.hpp"
#include "heap/memory_file.hpp"
#include "heap/page.hpp"

namespace tandem {

class PagePool final : private KeptMemory {
 public:
  // What a page costs beside its bytes: its bitmap and its PageInfo.
  static constexpr std::uint64_t page_overhead_bytes = bitmap_bytes + sizeof(PageInfo) + sizeof(std::uint16_t);
  static constexpr std::uint64_t page_cost_bytes = page_bytes + page_overhead_bytes;
  // Below this budget frames are single pages, without huge pages: idle half frames would be too large a share.
  static constexpr std::uint64_t huge_pages_budget_bytes_min = std::uint64_t{32} << 20;

  // In anonymous memory, or in `file`, which outlives the pool. Throws std::system_error when no address range is
  // available.
  PagePool(MemoryBudget& budget, bool huge_pages, MemoryFile* file = nullptr);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  const PageTable& table() const noexcept { return table_; }

  // A page, or 0 when the budget or the range is used up. Its bytes are zero unless PageInfo::dirty says otherwise.
  PageId take_page() noexcept;
  // The first of `pages` neighbouring pages, or 0. Their bytes are whatever was there. Of the last page only
  // `last_bytes` are needed; run_bytes() says what may be used.
  PageId take_run(std::uint32_t pages, std::uint64_t last_bytes = page_bytes) noexcept;
  // Of a run in use.
  std::uint64_t run_bytes(PageId first, std::uint32_t pages) const noexcept {
    const PageId last = frame_first(first + pages - 1);
    const std::uint32_t short_bytes = table_.info(last).short_bytes;
    return short_bytes == 0 ? pages * page_bytes : (last - first) * page_bytes + short_bytes;
  }
  // REQUIRES: the tags say free and no thread reads the bytes any more.
  void give_page(PageId page) noexcept;
  void give_run(PageId first, std::uint32_t pages) noexcept;

  // A page in use that would, if released, return its whole frame to the budget; 0: none among the first few. Only a
  // hint.
  PageId lone_page() noexcept;

  // Recovery of a file's pages, before any other call (HeapRecovery). First the pages' bitmaps are made usable; then
  // each page or run that stays in use is taken, false: past the budget; finally all other pages are returned to the
  // file system.
  bool prepare_recovery() noexcept;
  PageId file_page_end() const noexcept { return file_->page_end(); }
  std::span<RedoRecord, MemoryFile::redo_records> file_redo() const noexcept {
    return std::span<RedoRecord, MemoryFile::redo_records>(file_->redo(), MemoryFile::redo_records);
  }
  bool file_allocate(PageId first, PageId end) const noexcept { return file_->allocate(first, end); }
  bool recover_run(PageId first, std::uint32_t pages) noexcept;
  void finish_recovery() noexcept;

  // Returns the frames that were kept, and not needed, for kept_s seconds. Called about once a second.
  static constexpr std::uint32_t kept_s = 10;
  void return_unneeded(std::uint32_t now_s) noexcept;

  // Pages that are charged and free: kept ones, other halves of frames in use, and what could not be given back.
  std::uint64_t pages_idle() const noexcept { return pages_idle_.load(std::memory_order_relaxed); }

  // How often the file system had no room for a page of the memory file, and what it said last (an errno).
  std::uint64_t file_refusals() const noexcept { return file_refusals_.load(std::memory_order_relaxed); }
  int file_error() const noexcept { return file_error_.load(std::memory_order_relaxed); }

  PageId page_end() const noexcept { return page_end_.load(std::memory_order_acquire); }
  std::uint32_t pages_per_frame() const noexcept { return pages_per_frame_; }

 private:
  // A frame is pages_per_frame neighbouring pages, frame 0 starting with page 1 on a 2 MiB boundary. It is charged
  // while one of its pages is in use.
  PageId frame_first(PageId p) const noexcept { return (p - 1) / pages_per_frame_ * pages_per_frame_ + 1; }
  PageId buddy_of(PageId p) const noexcept { return ((p - 1) ^ 1) + 1; }
  std::uint64_t frame_bytes() const noexcept { return pages_per_frame_ * page_bytes; }
  std::uint64_t frame_cost_bytes() const noexcept { return pages_per_frame_ * page_cost_bytes; }
  std::uint64_t frame_cost_bytes(std::uint32_t short_bytes) const noexcept {
    return frame_cost_bytes() - (short_bytes == 0 ? 0 : frame_bytes() - short_bytes);
  }
  std::uint64_t cost_of(PageId frame) const noexcept { return frame_cost_bytes(table_.info(frame).short_bytes); }

  bool reserve(std::uint64_t pages) noexcept;
  // The following REQUIRE the lock.
  bool is_free(PageId p) const noexcept { return (free_pages_[p / 64] >> p % 64 & 1) != 0; }
  bool is_uncharged(PageId frame) const noexcept;  // by its first page: all of it is free
  PageId first_with_blocks() const noexcept;
  PageId find_page() noexcept;  // the first of an uncharged frame
  static PageId find_run(const std::vector<std::uint64_t>& among, std::uint32_t pages, std::uint32_t align) noexcept;
  PageId choose_run(std::uint32_t pages, std::uint32_t align) const noexcept;
  std::uint32_t short_bytes_of(std::uint32_t pages, std::uint64_t last_bytes) const noexcept;
  bool charge(std::uint64_t bytes) noexcept;
  bool charge_run(PageId begin, PageId end, std::uint32_t short_bytes) noexcept;
  bool widen(PageId frame) noexcept;
  void use_whole(PageId frame) noexcept;
  void shorten(PageId frame, std::uint32_t short_bytes) noexcept;
  bool set_small_pages(PageId frame, bool small) noexcept;
  bool make_usable(PageId first, PageId end) noexcept;
  bool make_block_usable(std::uint32_t block) noexcept;
  bool allocate_blocks(PageId first, PageId end) noexcept;
  void mark_used(PageId first, PageId end) noexcept;
  void push(PageId& head, PageId& tail, PageId p) noexcept;
  void remove(PageId& head, PageId& tail, PageId p) noexcept;
  void list_push(PageId p, bool dirty, bool holed) noexcept;
  void list_remove(PageId p) noexcept;
  void set_idle(PageId p, bool idle) noexcept;
  // --- kept frames, by their first page: page_pool_kept.cpp
  void keep_idle(PageId begin, PageId end) noexcept;  // those frames with all pages in the list
  void keep_if_idle(PageId frame) noexcept;
  void use_frame(PageId frame) noexcept;  // its pages become other halves of frames in use
  std::uint64_t return_frame() noexcept;
  std::uint64_t return_frames(std::uint64_t bytes) noexcept;

  std::uint64_t return_kept(std::uint64_t bytes) noexcept override;
  bool discard(PageId first, PageId end) noexcept;

  MemoryBudget& budget_;
  MemoryFile* const file_;
  PageTable table_;
  const bool huge_pages_;
  const std::uint32_t pages_per_frame_;
  char* range_ = nullptr;
  std::uint64_t range_bytes_ = 0;
  void* infos_ = nullptr;
  std::uint64_t infos_bytes_ = 0;
  std::atomic<PageId> page_end_{1};

  std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<std::uint64_t> free_pages_;  // a bit each, by page
  std::vector<bool> usable_blocks_;
  std::size_t free_hint_ = 0;  // no all-free frame begins in a word before it
  std::uint64_t charged_bytes_ = 0;
  std::uint64_t small_borders_ = 0;  // between frames with small and with huge pages
  PageId lone_last_ = 0;
  PageId list_head_ = 0, list_tail_ = 0;  // free pages of frames in use
  PageId kept_head_ = 0, kept_tail_ = 0;  // kept frames, the last freed one first
  std::uint64_t frames_kept_ = 0;
  std::uint64_t frames_unneeded_ = 0;  // the fewest that were kept since unneeded_since_s_
  std::uint32_t unneeded_since_s_ = 0;
  std::vector<std::uint64_t> idle_pages_;        // a bit each: in one of the two lists
  std::atomic<std::uint64_t> pages_idle_{0};     // in the lists; written under the lock
  bool is_file_full_ = false;                    // as of the last request for blocks
  std::atomic<std::uint64_t> file_refusals_{0};  // written under the lock
  std::atomic<int> file_error_{0};
  std::uint32_t tries_skipped_ = 0;
  bool is_file_dirty_ = false;  // discarding failed in the file: any page may hold old bytes
};

}  // namespace tandem
