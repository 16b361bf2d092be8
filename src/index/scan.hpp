// What an ordered index returns of a range of keys (Index::scan()), and how its caller checks that it was a snapshot.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "heap/heap.hpp"
#include "heap/item.hpp"
#include "heap/item_rewrite.hpp"
#include "index/scan_copies.hpp"

namespace tandem {

// Keys in the byte order of memcmp; a key sorts before those that it is a prefix of.
struct ScanRange {
  std::string_view begin = {};  // the lowest key, inclusive; empty: unbounded
  std::string_view end = {};    // the end, exclusive; empty: unbounded
  bool after_begin = false;     // excludes `begin`
  bool reverse = false;         // from the end downwards
  std::uint32_t fetched = 0;    // hint: so many first items need not be fetched

  constexpr bool is_below(std::string_view key) const noexcept { return key < begin || (after_begin && key == begin); }
  constexpr bool is_above(std::string_view key) const noexcept { return !end.empty() && key >= end; }
};

// Makes a prefix of `count` bytes the least key above all keys that begin with it. Returns its length; 0: there is
// none, and the range has no end.
constexpr std::size_t end_of_prefix(char* bytes, std::size_t count) noexcept {
  while (count != 0 && bytes[count - 1] == '\xff') --count;
  if (count != 0) ++bytes[count - 1];
  return count;
}

// A scan to come: Index::prefetch_scans().
struct ScanStart {
  ScanRange range;
  std::uint32_t limit;  // of items
};

// Where the first items of scans to come were: hints, which need no epoch.
struct ScansAhead {
  static constexpr std::uint32_t scans_max = 16, items_max = 128;
  struct Scan {
    std::uint32_t count;
    std::array<Location, items_max> items;
  };
  std::array<Scan, scans_max> scans;
};

struct ScanResult {
  std::uint32_t count = 0;  // of copies added
  bool done = false;        // the range has no further key
};

// Words of the index that every change of a key in the scanned part of the range advances, as they were during a scan.
// Belongs to one thread; its words are valid in the epoch of the scan.
class ScanStamp {
 public:
  static constexpr std::uint32_t words_max = 128;

  void clear() noexcept { count_ = 0; }
  bool is_full() const noexcept { return count_ == words_max; }
  std::uint32_t count() const noexcept { return count_; }
  // REQUIRES: it is not full; `seen` was loaded with acquire, before anything that it stands for was read.
  void add(const std::atomic<std::uint64_t>& word, std::uint64_t seen) noexcept { words_[count_++] = {&word, seen}; }

  // No key of the range was added, removed or given another item since the words were read. What the caller has read
  // since then, with loads that this one's fence orders, belongs to one moment, if the copies' items are still so, too.
  bool is_unchanged() const noexcept {
    std::atomic_thread_fence(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (words_[i].word->load(std::memory_order_relaxed) != words_[i].seen) return false;
    }
    return true;
  }

 private:
  struct Seen {
    const std::atomic<std::uint64_t>* word;
    std::uint64_t seen;
  };
  std::uint32_t count_ = 0;
  Seen words_[words_max];
};

// Receives the good items of one snapshot of a range (task::scan()).
class ScanSink {
 public:
  ScanSink() = default;
  ScanSink(const ScanSink&) = delete;
  ScanSink& operator=(const ScanSink&) = delete;
  virtual ~ScanSink() = default;
  // What was given so far is void: it did not belong to one moment.
  virtual void restart() = 0;
  // The copies [first, first + count): items in order, each at its copy's version. Short values that are copied from
  // the items may be rewritten meanwhile, and are void then. Returns how many were taken; if that is not all, the
  // snapshot ends before the next one. REQUIRES of the sink: it takes the snapshot's first one.
  virtual std::uint32_t items(const Heap& heap, const ScanCopies& copies, std::uint32_t first, std::uint32_t count) = 0;
  // What was given is one moment's. Values of more than rewritten_value_bytes_max bytes never change: they may be
  // copied here, where no writer voids the copy. In the epoch of the items.
  virtual void complete() {}
};

// One with items that take longer than a call does.
class ItemSink : public ScanSink {
 public:
  // An item at version `seen`: its copy or, of a long one, the item itself. False: it was not taken, and the snapshot
  // ends before it.
  virtual bool item(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes) = 0;
  std::uint32_t items(const Heap& heap, const ScanCopies& copies, std::uint32_t first, std::uint32_t count) final {
    for (std::uint32_t i = 0; i < count; ++i) {
      const Item& of = copies.whole(first + i);
      if (!item(of, copies.version(first + i), heap.value_bytes(&of))) return i;
    }
    return count;
  }
};

// How a snapshot ended.
struct ScanEnd {
  std::uint32_t count = 0;  // of items given
  bool done = false;        // the range has no further key
  bool failed = false;      // nothing could be given, for want of memory
  std::uint8_t last_bytes = 0;
  char last[key_bytes_max];  // unless done: the last key that was looked at; what comes next lies behind it
  std::string_view last_key() const noexcept { return {last, last_bytes}; }
};

}  // namespace tandem
