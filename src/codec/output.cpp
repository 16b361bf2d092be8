#include "codec/output.hpp"

#include <cstdlib>
#include <new>
#include <utility>

namespace tandem {
namespace {
constexpr std::size_t capacity_bytes_min = 16 * 1024;
}  // namespace

Output::Output(Output&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)),
      pinned_bytes_(std::exchange(other.pinned_bytes_, 0)),
      borrowed_bytes_(std::exchange(other.borrowed_bytes_, 0)),
      external_(std::move(other.external_)) {
  other.external_.clear();
}

Output& Output::operator=(Output&& other) noexcept {
  if (this != &other) {
    std::free(data_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    pinned_bytes_ = std::exchange(other.pinned_bytes_, 0);
    borrowed_bytes_ = std::exchange(other.borrowed_bytes_, 0);
    external_ = std::move(other.external_);
    other.external_.clear();
  }
  return *this;
}

Output::~Output() { std::free(data_); }

void Output::append_pinned(const char* p, std::uint64_t bytes, Location pin) {
  external_.push_back({p, size_, bytes, pin});
  pinned_bytes_ += bytes;
}

void Output::truncate(std::size_t bytes, std::size_t externals) noexcept {
  TD_DEBUG_ASSERT(bytes <= size_ && externals <= external_.size());
  for (std::size_t i = externals; i < external_.size(); ++i) {
    (external_[i].pin != no_location ? pinned_bytes_ : borrowed_bytes_) -= external_[i].bytes;
  }
  external_.resize(externals);
  size_ = bytes;
}

void Output::release() noexcept {
  TD_DEBUG_ASSERT(empty());
  std::free(std::exchange(data_, nullptr));
  capacity_ = 0;
  external_.shrink_to_fit();
}

void Output::grow(std::size_t bytes) {
  std::size_t capacity = capacity_ == 0 ? capacity_bytes_min : capacity_;
  while (capacity - size_ < bytes) {
    if (capacity > SIZE_MAX / 2) throw std::bad_alloc();
    capacity *= 2;
  }
  void* data;
  while ((data = std::realloc(data_, capacity)) == nullptr) {  // as operator new does
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
  data_ = static_cast<char*>(data);
  capacity_ = capacity;
}

}  // namespace tandem
