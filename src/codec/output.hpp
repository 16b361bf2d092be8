// Response bytes to be sent: a contiguous buffer plus references to large values, which are sent from their items, and
// to replies that a device has written. The worker sends parts of it by send() or an iovec.
//
// Thread safety: one thread at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/platform.hpp"
#include "heap/item.hpp"

namespace tandem {

// Values up to this size are copied into the output; larger ones are pinned in the heap until they are sent.
inline constexpr std::uint32_t copied_value_bytes_max = 16 * 1024;

class Output {
 public:
  // `bytes` at `external`, to be sent when the buffer's first `offset` bytes have been: pinned at `pin` or, with
  // no_location, lent.
  struct Segment {
    const char* external;
    std::uint64_t offset;
    std::uint64_t bytes;
    Location pin;
  };

  Output() = default;
  Output(Output&& other) noexcept;
  Output& operator=(Output&& other) noexcept;
  ~Output();  // unpins nothing

  // At least `bytes` of room at the end; valid until the next reserve() or append(). Throws std::bad_alloc, then
  // nothing has changed.
  TD_INLINE char* reserve(std::size_t bytes) {
    if (TD_UNLIKELY(capacity_ - size_ < bytes)) grow(bytes);
    return data_ + size_;
  }
  TD_INLINE void commit(std::size_t bytes) noexcept { size_ += bytes; }
  TD_INLINE void append(const char* p, std::size_t bytes) {
    if (bytes == 0) return;
    std::memcpy(reserve(bytes), p, bytes);
    size_ += bytes;
  }
  TD_INLINE void append(std::string_view s) { append(s.data(), s.size()); }
  // The caller has pinned the item at `pin` in the heap; sending or dropping the output unpins it.
  void append_pinned(const char* p, std::uint64_t bytes, Location pin);
  // The caller keeps the bytes in place until the output is sent or dropped.
  void append_borrowed(const char* p, std::uint64_t bytes) {
    external_.push_back({p, size_, bytes, no_location});
    borrowed_bytes_ += bytes;
  }

  const char* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }  // buffer bytes, pinned ones not counted
  std::uint64_t pinned_bytes() const noexcept { return pinned_bytes_; }
  std::uint64_t borrowed_bytes() const noexcept { return borrowed_bytes_; }
  std::uint64_t external_bytes() const noexcept { return pinned_bytes_ + borrowed_bytes_; }
  bool empty() const noexcept { return size_ == 0 && external_.empty(); }
  // Pinned and lent stretches in order, each spliced in at its offset of the buffer.
  const std::vector<Segment>& externals() const noexcept { return external_; }
  // Returns to an earlier state: `bytes` of buffer, `externals` pinned stretches. REQUIRES: the caller has unpinned, or
  // moved elsewhere, those beyond. Keeps the memory; release() frees it.
  void truncate(std::size_t bytes, std::size_t externals) noexcept;
  void clear() noexcept { truncate(0, 0); }
  // REQUIRES: empty().
  void release() noexcept;
  std::size_t capacity() const noexcept { return capacity_; }

 private:
  TD_NOINLINE void grow(std::size_t bytes);
  char* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
  std::uint64_t pinned_bytes_ = 0, borrowed_bytes_ = 0;
  std::vector<Segment> external_;
};

}  // namespace tandem
