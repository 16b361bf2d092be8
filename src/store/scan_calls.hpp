// KeyRange reads of the embedded store.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/platform.hpp"
#include "tandem/store.hpp"
#include "task/context.hpp"

namespace tandem {

// Memory for the copies of scans' items, kept from one call to the next.
class ScanBuffers {
 public:
  struct Place {
    std::uint32_t begin, value_bytes;
    std::uint32_t flags, key_bytes;
    std::uint64_t cas;
    const char* long_value;  // to be copied when the snapshot is complete; else nullptr
  };

  void clear() noexcept {
    size_ = 0;
    count_ = 0;
  }
  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return capacity_; }
  std::size_t count() const noexcept { return count_; }
  char* bytes() const noexcept { return bytes_.get(); }
  const Place& place(std::size_t i) const noexcept { return places_[i]; }
  // Room for one more item, of so many bytes. Throws std::bad_alloc.
  struct Room {
    Place& place;
    char* bytes;
  };
  TD_INLINE Room add(std::size_t bytes) {
    if (TD_UNLIKELY(size_ + bytes > capacity_)) grow(size_ + bytes);
    if (TD_UNLIKELY(places_ == nullptr)) places_ = std::make_unique<Place[]>(scan_items_max);
    const Room room{places_[count_++], bytes_.get() + size_};
    room.place.begin = static_cast<std::uint32_t>(size_);
    size_ += bytes;
    return room;
  }

 private:
  void grow(std::size_t bytes);

  std::unique_ptr<char[]> bytes_;
  std::unique_ptr<Place[]> places_;
  std::size_t size_ = 0, capacity_ = 0, count_ = 0;
};

// Session::scan(). The buffers belong to the session; the visitor may scan, too. Thread safety: the context's thread.
Scanned scan_copied(Context& context, ScanBuffers& buffers, const KeyRange& range, std::size_t limit,
                    void (*visit)(void* visitor, const ScannedItem& item), void* visitor);
// Session::arrange(). The same.
std::uint64_t arrange_all(Context& context);

}  // namespace tandem
