// Range reads of the embedded store.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tandem/store.hpp"
#include "task/context.hpp"

namespace tandem {

// Where a scan's items are when it is not the scan's own copies, each in its place: some items are too long for those,
// or have expired. Kept from one call to the next.
class ScanBuffers {
 public:
  // Bytes of client flags, keys and values, from which on no item is added. One item may be larger.
  static constexpr std::size_t bytes_max = 256 * 1024;

  void clear() noexcept;
  std::size_t capacity() const noexcept { return capacity_; }
  const ScannedItems::Place* places() const noexcept { return places_.get(); }
  std::uint32_t count() const noexcept { return count_; }

  // Adds copies; returns how many. Throws std::bad_alloc. A long item's value of more than rewritten_value_bytes_max
  // bytes is copied by copy_long_values().
  std::uint32_t add(const Heap& heap, const ScanCopies& copies, std::uint32_t first, std::uint32_t count);
  void copy_long_values() noexcept;

 private:
  bool has_room(std::size_t bytes) const noexcept { return count_ == 0 || item_bytes_ + bytes <= bytes_max; }
  bool add_long(const Heap& heap, const Item& item, const ItemVersion& seen);
  void reserve(std::size_t bytes);

  // A value that is copied last.
  struct LongValue {
    const char* from;
    char* to;
    std::size_t bytes;
  };
  std::unique_ptr<ScannedItems::Place[]> places_;
  std::unique_ptr<char[]> bytes_;  // copies of long items
  std::unique_ptr<LongValue[]> long_values_;
  std::size_t item_bytes_ = 0;  // of all items
  std::size_t size_ = 0, capacity_ = 0;
  std::uint32_t count_ = 0, long_value_count_ = 0;
};

// Session::scan(). The buffers belong to the session; the visitor may scan, too. Thread safety: the context's thread.
Scanned scan_copied(Context& context, ScanBuffers& buffers, const KeyRange& range, std::size_t limit,
                    void (*visit)(void* visitor, const ScannedItems& items), void* visitor);
// Session::scan_batch(). The same.
void scan_batch_copied(Context& context, ScanBuffers& buffers, std::span<RangeScan> scans,
                       void (*visit)(void* visitor, std::size_t index, const ScannedItems& items), void* visitor);
// Session::arrange(). The same.
std::uint64_t arrange_all(Context& context);

}  // namespace tandem
