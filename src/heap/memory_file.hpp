// The file that can hold a heap, so that a new process finds its items again (docs/restart.md; decision 7).
//
//   0         FileHeader: what the file is, its layout, and what a store must remember beside its items
//   64 KiB    the tags of all pages, 2 bytes each
//   512 KiB   value bytes of huge items, 8 bytes a page, in the place of their first page
//   1.5 MiB   redo records of sets in place, one a worker (redo.hpp)
//   2 MiB     page 1, page 2, ...: sparse, blocks are allocated before pages are used and given back after it
//
// The whole file is mapped shared: what a thread has stored is in the file, whenever the process is killed. A file that
// was not closed is valid only until the machine restarts: after that it is unknown which of its blocks were written.
//
// Nothing read from the file is trusted before it was checked. HeapRecovery checks all but the header.
//
// Thread safety: allocate(), discard(), has(), mark_unreadable(), take_redo() and give_redo() from any thread;
// `saved()` holds atomics; lost_writes() from one thread at a time; the rest at start and end alone.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <bitset>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "heap/page.hpp"
#include "heap/redo.hpp"
#include "heap/size_classes.hpp"

namespace tandem {

// The file cannot be used; what() says which file and why. Nothing in it was changed.
class MemoryFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A moment by two clocks. A kill leaves the old one or the new one, never a mix: a new moment is written to the unused
// place, which a last word then selects. store() from one thread at a time.
struct SavedTime {
  struct Moment {
    std::atomic<std::uint64_t> store_ns{0}, unix_ns{0};  // store_ns 0: none yet
  };
  Moment moments[2];
  std::atomic<std::uint64_t> current{0};  // by its lowest bit

  void store(const StoreTime& time) noexcept {
    const std::uint64_t next = ~current.load(std::memory_order_relaxed) & 1;
    moments[next].store_ns.store(static_cast<std::uint64_t>(time.store_ns), std::memory_order_relaxed);
    moments[next].unix_ns.store(static_cast<std::uint64_t>(time.unix_ns), std::memory_order_relaxed);
    current.store(next, std::memory_order_release);
  }
  StoreTime load() const noexcept {
    const Moment& m = moments[current.load(std::memory_order_acquire) & 1];
    return {.store_ns = static_cast<std::int64_t>(m.store_ns.load(std::memory_order_relaxed)),
            .unix_ns = static_cast<std::int64_t>(m.unix_ns.load(std::memory_order_relaxed))};
  }
};

// State that a store saves beside its items. Each word is changed by one store instruction, so it is consistent
// whenever the process dies.
struct SavedState {
  SavedTime clock;
  // CAS ids below may have been issued, none above.
  std::atomic<std::uint64_t> cas_reserved{1};
  //   |63 flush_cas 20|19 the number of the last flush that is done or was replaced 0|
  std::atomic<std::uint64_t> flush{0};
  // A flush with a delay: pending while its number is not the one above.
  //   |63 second of the store's clock 32|31 0 20|19 number 0|
  std::atomic<std::uint64_t> flush_due{0};
  // Of an index that keeps its size: with another seed its sets would be too full for some of the items. 0: none.
  std::atomic<std::uint64_t> hash_seed{0};

  // Raises cas_reserved to at least `end`, in large steps. Called before an id is issued.
  void reserve_cas(std::uint64_t end) noexcept {
    constexpr std::uint64_t step = std::uint64_t{1} << 20;
    std::uint64_t now = cas_reserved.load(std::memory_order_relaxed);
    while (now < end && !cas_reserved.compare_exchange_weak(now, end + step, std::memory_order_relaxed)) {
    }
  }
};
namespace saved {
using FlushCas = BitField<20, 44>;
using FlushNumber = BitField<0, 20>;
using DueS = BitField<32, 32>;
static_assert(FlushCas::width == cas_bits);
}  // namespace saved

struct FileHeader {
  static constexpr std::uint64_t magic_now = 0x0a196d65646e6154;  // "Tandem", then two bytes that are not text
  static constexpr std::uint32_t version_now = 4;  // 2: redo records; 3: time in nanoseconds; 4: where large items lie
  // spoiled: a write of it to the disk failed; unreadable: a read failed.
  enum State : std::uint64_t { in_use = 0x75, closed = 0xc105ed, spoiled = 0xbad, unreadable = 0xbadbad };

  // Never changes once written.
  std::uint64_t magic;
  std::uint32_t version, class_count;
  std::uint64_t page_bytes, granule_bytes;
  std::uint32_t slot_bytes[SizeClasses::classes_max];
  std::uint64_t layout_hash;  // of all above
  // Changes.
  std::atomic<std::uint64_t> state;
  std::uint64_t boot_id[2];  // of the boot in which it was last opened; 0: unknown
  SavedState saved;
};
static_assert(std::is_standard_layout_v<FileHeader> && sizeof(FileHeader) <= 4096);

class MemoryFile {
 public:
  static constexpr std::uint64_t tags_at = 64 << 10;
  static constexpr std::uint64_t huge_value_bytes_at = 512 << 10;
  static constexpr std::uint64_t redo_at = 1536 << 10;
  static constexpr std::uint64_t pages_at = 2 << 20;
  static constexpr std::uint32_t redo_records = (pages_at - redo_at) / sizeof(RedoRecord);
  static constexpr PageId page_limit_max = std::uint32_t{1} << (32 - page_shift);
  static_assert(sizeof(FileHeader) <= tags_at &&
                tags_at + page_limit_max * sizeof(std::uint16_t) <= huge_value_bytes_at &&
                huge_value_bytes_at + page_limit_max * sizeof(std::uint64_t) <= redo_at);

  enum class PreviousEnd : std::uint8_t {
    nothing,   // no file, or an empty one
    closed,    // its process ended in order
    killed,    // its process was killed or crashed, but the machine has been running since
    unusable,  // a Tandem file that cannot be taken over: notice() says why. It was emptied
  };

  // Opens or creates the file (mode 0600), locks it against other processes for the lifetime of this object, and marks
  // it in use. Throws MemoryFileError when it is in use, is not a memory file, or cannot be opened.
  MemoryFile(const std::string& path, const SizeClasses& classes);
  ~MemoryFile();  // as if killed, unless closed
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  PreviousEnd previous_end() const noexcept { return previous_end_; }
  bool has_items() const noexcept {
    return previous_end_ == PreviousEnd::closed || previous_end_ == PreviousEnd::killed;
  }
  const std::string& notice() const noexcept { return notice_; }
  const std::string& path() const noexcept { return path_; }
  SavedState& saved() noexcept { return header()->saved; }

  std::atomic<std::uint16_t>* tags() const noexcept {
    return reinterpret_cast<std::atomic<std::uint16_t>*>(metadata_ + tags_at);
  }
  std::uint64_t* huge_value_bytes() const noexcept {
    return reinterpret_cast<std::uint64_t*>(metadata_ + huge_value_bytes_at);
  }
  RedoRecord* redo() const noexcept { return reinterpret_cast<RedoRecord*>(metadata_ + redo_at); }
  // A record for one worker's exclusive use, or nullptr if all are taken; and its return.
  RedoRecord* take_redo() noexcept;
  void give_redo(RedoRecord* record) noexcept;
  // One past the last page that the file has blocks for and that is not tagged as free.
  PageId page_end() const noexcept { return page_end_; }

  // Maps pages 1 .. pages at `at`, making the file as long as that. False: not possible (errno).
  bool map_pages(void* at, std::uint64_t pages) noexcept;
  // Allocates blocks for pages [first, end), so that no store to them can fail. False: there are none left.
  bool allocate(PageId first, PageId end) const noexcept;
  // Frees the blocks of pages [first, end): they then read as zero. False: the file system does not support it.
  bool discard(PageId first, PageId end) const noexcept;

  // Whether the system failed to write some of the file to its disk since the last call: an errno, or 0. The system may
  // drop such pages and read their old content again. No later process takes such a file over, as long as the system or
  // the disk keeps its header. Does not wait for the disk.
  int lost_writes() noexcept;
  // Whether this is an address in the file.
  bool has(const void* at) const noexcept;
  // Prevents later processes from taking the file over. Async-signal-safe, and touches none of its mapped bytes
  // (bus_error.hpp).
  void mark_unreadable() const noexcept;
  // Writes everything to the disk, if there is one, and marks the file closed, unless a write failed. REQUIRES: no
  // thread changes it any more.
  void close_in_order() noexcept;

 private:
  FileHeader* header() const noexcept { return reinterpret_cast<FileHeader*>(metadata_); }
  void open_locked();
  void close_locked() noexcept;
  void judge(const FileHeader& wanted);
  void make_empty(const FileHeader& wanted);
  void find_page_end();
  [[noreturn]] void fail(const std::string& why) const;
  [[noreturn]] void fail_errno(const std::string& what) const;

  std::string path_, notice_;
  int fd_ = -1;
  std::pair<dev_t, ino_t> id_{};  // of the file, while it is locked
  bool is_locked_ = false;
  char* metadata_ = nullptr;
  std::atomic<const char*> pages_ = nullptr;  // where pages are mapped
  std::atomic<std::uint64_t> pages_bytes_ = 0;
  PreviousEnd previous_end_ = PreviousEnd::nothing;
  bool is_memcacheds_ = false;
  PageId page_end_ = 1;
  std::mutex redo_mutex_;
  std::bitset<redo_records> redo_taken_;  // guarded by redo_mutex_
};

}  // namespace tandem
