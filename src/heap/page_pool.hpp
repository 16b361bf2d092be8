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

class PagePool {
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

  // A page of zeros, or 0 when the budget or the range is used up.
  PageId take_page() noexcept;
  // The first of `pages` neighbouring pages, or 0. Their bytes are zero.
  PageId take_run(std::uint32_t pages) noexcept;
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

  // Pages that are charged and free: the other halves of frames in use, and what could not be given back.
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
  std::uint64_t frame_cost_bytes() const noexcept { return pages_per_frame_ * page_cost_bytes; }

  bool reserve(std::uint64_t pages) noexcept;
  // The following REQUIRE the lock.
  bool is_free(PageId p) const noexcept { return (free_pages_[p / 64] >> p % 64 & 1) != 0; }
  bool is_uncharged(PageId frame) const noexcept;  // by its first page: all of it is free
  PageId first_with_blocks() const noexcept;
  PageId find_page() noexcept;  // the first of an uncharged frame
  PageId find_run(std::uint32_t pages) const noexcept;
  bool make_usable(PageId first, PageId end) noexcept;
  bool make_block_usable(std::uint32_t block) noexcept;
  bool allocate_blocks(PageId first, PageId end) noexcept;
  void mark_used(PageId first, PageId end) noexcept;
  void list_push(PageId p, bool dirty) noexcept;
  void list_remove(PageId p) noexcept;

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
  std::uint64_t frames_used_ = 0;
  PageId lone_last_ = 0;
  PageId list_head_ = 0;                         // free pages of frames in use
  std::atomic<std::uint64_t> pages_idle_{0};     // in the list; written under the lock
  bool is_file_full_ = false;                    // as of the last request for blocks
  std::atomic<std::uint64_t> file_refusals_{0};  // written under the lock
  std::atomic<int> file_error_{0};
  std::uint32_t tries_skipped_ = 0;
  bool is_file_dirty_ = false;  // discarding failed in the file: any page may hold old bytes
};

}  // namespace tandem
