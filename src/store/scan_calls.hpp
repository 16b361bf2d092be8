// KeyRange reads of the embedded store.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/platform.hpp"
#include "tandem/store.hpp"
#include "task/context.hpp"

namespace tandem {

// Copies of scans' items, in memory that is kept from one call to the next.
class ScanBuffers {
 public:
  void clear() noexcept;
  std::size_t capacity() const noexcept { return capacity_; }
  std::span<const ScannedItem> items() const noexcept { return {items_.get(), count_}; }

  // Adds an item at version `seen`. A value of more than rewritten_value_bytes_max bytes is only pointed at, until
  // copy_long_values(). False: there is one, and with another one they would have more than `bytes_max` bytes. Throws
  // std::bad_alloc.
  TD_INLINE bool add(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes, bool cas,
                     std::size_t bytes_max);
  void copy_long_values() noexcept;

 private:
  // What is copied in pieces of 16 bytes may end up to so many behind an item.
  static constexpr std::size_t slack = 16;
  bool make_room(std::size_t bytes, std::size_t bytes_max);

  std::unique_ptr<char[]> bytes_;
  std::unique_ptr<ScannedItem[]> items_;
  std::size_t size_ = 0, capacity_ = 0, count_ = 0, long_values_ = 0;
};

TD_INLINE bool ScanBuffers::add(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes, bool cas,
                                std::size_t bytes_max) {
  // These bits are constant while the item is live. Its flags, if it has any, are copied with its key.
  const std::size_t key_bytes = word::KeyBytes::get(seen.fixed), flag_bytes = word::HasFlags::get(seen.fixed) * 4;
  const std::size_t bytes = flag_bytes + key_bytes + value_bytes;
  if (TD_UNLIKELY(size_ + bytes + slack > capacity_ || size_ + bytes > bytes_max) && !make_room(bytes, bytes_max))
    return false;
  char* const to = bytes_.get() + size_;
  size_ += bytes;
  const bool is_long = value_bytes > rewritten_value_bytes_max;
  racing_copy_pieces(to, item.bytes() + sizeof(Item), is_long ? flag_bytes + key_bytes : bytes);
  ScannedItem& copy = items_[count_++];
  const char* const key = to + flag_bytes;
  copy.key = {key, key_bytes};
  copy.value = {key + key_bytes, value_bytes};
  copy.flags = 0;
  if (TD_UNLIKELY(flag_bytes != 0)) std::memcpy(&copy.flags, to, sizeof copy.flags);
  copy.cas = cas ? seen.cas() : 0;
  if (TD_UNLIKELY(is_long)) {
    copy.value = {item.value(), value_bytes};
    ++long_values_;
  }
  return true;
}

// Session::scan(). The buffers belong to the session; the visitor may scan, too. Thread safety: the context's thread.
Scanned scan_copied(Context& context, ScanBuffers& buffers, const KeyRange& range, std::size_t limit,
                    void (*visit)(void* visitor, const ScannedItem& item), void* visitor);
// Session::arrange(). The same.
std::uint64_t arrange_all(Context& context);

}  // namespace tandem
