// Bytes and arrays of the caller: keys, values, rows. Nothing is copied.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "python.hpp"

namespace tandem::python {

inline constexpr std::size_t key_bytes_max = 250;

// The bytes of a str (as UTF-8) or bytes object, which must outlive them. Throws TypeError; ValueError for a length that
// no key has.
std::string_view key_of(nb::handle key);
// The same for a bound of a scan, which may be empty.
std::string_view bound_of(nb::handle key);

// A new bytes object; from nullptr one that is to be filled in. Throws MemoryError.
nb::object new_bytes(const char* bytes, std::size_t size);

// Bytes of any object that has some; holds it.
class Bytes {
 public:
  explicit Bytes(nb::handle object);
  ~Bytes();
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  Bytes(Bytes&& other) noexcept;
  Bytes& operator=(Bytes&&) = delete;
  const char* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
  nb::object held_;
  std::optional<Py_buffer> buffer_;
};

// What its elements are.
enum class Kind { integer, boolean, text, opaque, other };

// An array in the host's memory, by DLPack or the buffer protocol.
class Array {
 public:
  enum class Access { read, write };
  // `what` names the argument. Throws TypeError: no array, or one of objects; ValueError: read-only, on a device.
  Array(nb::handle object, const char* what, Access access);
  ~Array();
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  std::size_t length() const { return shape.empty() ? 0 : static_cast<std::size_t>(shape[0]); }
  // Bytes from one element of the first dimension to the next.
  std::ptrdiff_t stride() const { return strides.empty() ? 0 : strides[0]; }
  // Of what one element of the first dimension has, which must be without gaps: throws ValueError.
  std::size_t row_bytes() const;

  const char* what;
  char* data = nullptr;
  std::size_t item_bytes = 0;
  Kind kind = Kind::other;
  bool is_big_endian = false;
  std::vector<std::ptrdiff_t> shape, strides;  // of bytes

 private:
  bool take_buffer(PyObject* object, Access access);
  void take_dlpack(nb::handle object, Access access);
  void take_format(const char* format);
  std::optional<Py_buffer> buffer_;
  nb::ndarray<nb::ro> tensor_;  // holds what DLPack lent
};

}  // namespace tandem::python
