// C memory that visitors copy to, for Python objects that are made when the call is over.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace tandem::python {

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { std::free(bytes_); }

  // Appends the bytes and returns where they begin. Without memory nothing is appended, and has_failed() from then on.
  std::size_t add(const char* bytes, std::size_t size) noexcept {
    if (size > capacity_ - size_ && !grow(size)) return 0;
    if (size != 0) std::memcpy(bytes_ + size_, bytes, size);
    size_ += size;
    return size_ - size;
  }
  bool has_failed() const noexcept { return has_failed_; }
  const char* at(std::size_t offset) const noexcept { return bytes_ + offset; }
  std::size_t size() const noexcept { return size_; }
  void clear() noexcept { size_ = 0; }

 private:
  bool grow(std::size_t more) noexcept {
    const std::size_t wanted = size_ + more;
    const std::size_t capacity = wanted > 2 * capacity_ ? wanted + 256 : 2 * capacity_;
    void* const bytes = has_failed_ ? nullptr : std::realloc(bytes_, capacity);
    has_failed_ = bytes == nullptr;
    if (has_failed_) return false;
    bytes_ = static_cast<char*>(bytes);
    capacity_ = capacity;
    return true;
  }

  char* bytes_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
  bool has_failed_ = false;
};

}  // namespace tandem::python
