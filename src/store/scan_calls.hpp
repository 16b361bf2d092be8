// Range reads of the embedded store.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tandem/store.hpp"
#include "task/context.hpp"

namespace tandem {

// Copies of scans' items, in memory that is kept from one call to the next.
class ScanBuffers {
 public:
  // Bytes of client flags, keys and values, from which on no item is added. One item may be larger.
  static constexpr std::size_t bytes_max = 256 * 1024;

  void clear() noexcept;
  std::size_t capacity() const noexcept { return capacity_; }
  std::span<const ScannedItem> items() const noexcept { return {items_.get(), count_}; }

  // Adds items; returns how many. A value of more than rewritten_value_bytes_max bytes is only pointed at, until
  // copy_long_values(). Throws std::bad_alloc.
  std::uint32_t add(const Heap& heap, std::span<const ScanHit> hits, bool cas);
  void copy_long_values() noexcept;

 private:
  // What is copied in pieces of 16 bytes may end so far behind an item.
  static constexpr std::size_t slack = 16;
  std::uint32_t add_short(std::span<const ScanHit> hits, bool cas) noexcept;
  bool add_any(const Heap& heap, const ScanHit& hit, bool cas);
  void grow(std::size_t bytes);

  std::unique_ptr<char[]> bytes_;
  std::unique_ptr<ScannedItem[]> items_;
  std::size_t size_ = 0, capacity_ = 0, count_ = 0, long_values_ = 0;
};

// Session::scan(). The buffers belong to the session; the visitor may scan, too. Thread safety: the context's thread.
Scanned scan_copied(Context& context, ScanBuffers& buffers, const KeyRange& range, std::size_t limit,
                    void (*visit)(void* visitor, std::span<const ScannedItem> items), void* visitor);
// Session::scan_batch(). The same.
void scan_batch_copied(Context& context, ScanBuffers& buffers, std::span<RangeScan> scans,
                       void (*visit)(void* visitor, std::size_t index, std::span<const ScannedItem> items),
                       void* visitor);
// Session::arrange(). The same.
std::uint64_t arrange_all(Context& context);

}  // namespace tandem
