#include "buffers.hpp"

#include <cstring>
#include <utility>

#include "errors.hpp"

namespace tandem::python {
namespace {

// Most often it is no subclass, which needs no call.
bool is_bytes(nb::handle object) { return Py_IS_TYPE(object.ptr(), &PyBytes_Type) || PyBytes_Check(object.ptr()); }

std::string_view text_or_bytes(nb::handle key) {
  if (is_bytes(key)) {
    char* bytes = nullptr;
    Py_ssize_t size = 0;
    PyBytes_AsStringAndSize(key.ptr(), &bytes, &size);
    return {bytes, static_cast<std::size_t>(size)};
  }
  if (PyUnicode_Check(key.ptr())) {
    Py_ssize_t size = 0;
    const char* const bytes = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
    if (bytes == nullptr) raise_set();
    return {bytes, static_cast<std::size_t>(size)};
  }
  raise(PyExc_TypeError, "a key is str or bytes, not %U", name_of_type(key).ptr());
}

// Whether a format of the struct module has objects in it: outside of names, which stand between colons.
bool has_objects(const char* format) {
  bool is_name = false;
  for (; *format != 0; ++format) {
    if (*format == ':') is_name = !is_name;
    if (*format == 'O' && !is_name) return true;
  }
  return false;
}

}  // namespace

std::string_view key_of(nb::handle key) {
  const std::string_view bytes = text_or_bytes(key);
  if (bytes.size() - 1 >= key_bytes_max) {
    raise(PyExc_ValueError, "a key is 1 to %zu bytes, not %zu", key_bytes_max, bytes.size());
  }
  return bytes;
}

std::string_view bound_of(nb::handle key) {
  const std::string_view bytes = text_or_bytes(key);
  if (bytes.size() > key_bytes_max) {
    raise(PyExc_ValueError, "a bound is at most %zu bytes, not %zu", key_bytes_max, bytes.size());
  }
  return bytes;
}

nb::object new_bytes(const char* bytes, std::size_t size) {
  nb::object made = nb::steal(PyBytes_FromStringAndSize(bytes, static_cast<Py_ssize_t>(size)));
  if (!made.is_valid()) raise_set();
  return made;
}

Bytes::Bytes(nb::handle object) {
  if (is_bytes(object)) {
    held_ = nb::borrow(object);
    char* bytes = nullptr;
    Py_ssize_t size = 0;
    PyBytes_AsStringAndSize(object.ptr(), &bytes, &size);
    data_ = bytes;
    size_ = static_cast<std::size_t>(size);
    return;
  }
  if (PyUnicode_Check(object.ptr())) raise(PyExc_TypeError, "a value is bytes, not str: encode() it");
  if (PyObject_CheckBuffer(object.ptr()) == 0) {
    raise(PyExc_TypeError, "a value is bytes or an object with the buffer protocol, not %U", name_of_type(object).ptr());
  }
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_STRIDES) != 0) raise_set();
    PyBuffer_Release(&view);
    raise(PyExc_ValueError, "the value is not contiguous: pass np.ascontiguousarray() of it");
  }
  if (view.format != nullptr && has_objects(view.format)) {
    PyBuffer_Release(&view);
    raise(PyExc_TypeError, "a value is bytes, not an array of objects");
  }
  buffer_ = view;
  data_ = static_cast<const char*>(buffer_->buf);
  size_ = static_cast<std::size_t>(buffer_->len);
}

Bytes::Bytes(Bytes&& other) noexcept
    : data_(other.data_),
      size_(other.size_),
      held_(std::move(other.held_)),
      buffer_(std::exchange(other.buffer_, std::nullopt)) {}

Bytes::~Bytes() {
  if (buffer_) PyBuffer_Release(&*buffer_);
}

Array::Array(nb::handle object, const char* name, Access access) : what(name) {
  if (PyObject_CheckBuffer(object.ptr()) != 0 && take_buffer(object.ptr(), access)) return;
  if (nb::hasattr(object, "__dlpack__")) {
    take_dlpack(object, access);
    return;
  }
  raise(PyExc_TypeError, "%s must be an array with DLPack or the buffer protocol, not %U", what,
        name_of_type(object).ptr());
}

Array::~Array() {
  if (buffer_) PyBuffer_Release(&*buffer_);
}

// False: the object has a buffer that cannot be told in this protocol, such as one of bfloat16.
bool Array::take_buffer(PyObject* object, Access access) {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    const nb::python_error refused;  // takes it: no code of the object may run while it is set
    if (nb::hasattr(object, "__dlpack__")) return false;
    throw refused;
  }
  buffer_ = view;
  const auto refuse = [&](PyObject* type, const char* text) {
    PyBuffer_Release(&*buffer_);
    buffer_.reset();
    raise(type, text, what);
  };
  if (access == Access::write && view.readonly != 0) refuse(PyExc_ValueError, "%s is read-only");
  const char* const format = view.format != nullptr ? view.format : "B";
  if (has_objects(format)) refuse(PyExc_TypeError, "%s is an array of objects");
  data = static_cast<char*>(view.buf);
  item_bytes = static_cast<std::size_t>(view.itemsize);
  if (view.shape != nullptr) {
    shape.assign(view.shape, view.shape + view.ndim);
  } else if (view.ndim != 0) {
    shape.assign(1, view.itemsize != 0 ? view.len / view.itemsize : 0);
  }
  if (view.strides != nullptr) {
    strides.assign(view.strides, view.strides + view.ndim);
  } else {  // without gaps, as ctypes leaves it
    strides.assign(shape.size(), view.itemsize);
    for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  }
  take_format(format);
  return true;
}

void Array::take_format(const char* format) {
  while (std::strchr("<>=@!|", *format) != nullptr && *format != 0) {
    is_big_endian = *format == '>' || *format == '!';
    ++format;
  }
  const char* type = format;
  while (*type >= '0' && *type <= '9') ++type;
  if (*type == 0 || type[1] != 0) return;  // structures
  if (std::strchr("bBhHiIlLqQnN", *type) != nullptr && type == format) kind = Kind::integer;
  if (*type == '?') kind = Kind::boolean;
  if (*type == 's' || *type == 'x' || *type == 'c') kind = Kind::opaque;
  if (*type == 'w') kind = Kind::text;
}

void Array::take_dlpack(nb::handle object, Access access) {
  nb::ndarray<nb::ro>& tensor = tensor_;
  if (!nb::try_cast(object, tensor)) {
    PyErr_Clear();
    raise(PyExc_TypeError, "%s is an array that DLPack cannot lend", what);
  }
  if (access == Access::write) {
    nb::ndarray<> writable;
    if (!nb::try_cast(object, writable)) {
      PyErr_Clear();
      raise(PyExc_ValueError, "%s is read-only", what);
    }
  }
  const int device = tensor.device_type();
  if (device != nb::device::cpu::value && device != nb::device::cuda_host::value) {
    raise(PyExc_ValueError, "%s is in a device's memory: copy it to the host", what);
  }
  const nb::dlpack::dtype type = tensor.dtype();
  if (type.bits * type.lanes % 8 != 0) raise(PyExc_TypeError, "%s has elements that are not whole bytes", what);
  item_bytes = static_cast<std::size_t>(type.bits) * type.lanes / 8;
  data = static_cast<char*>(const_cast<void*>(tensor.data()));
  for (std::size_t i = 0; i < tensor.ndim(); ++i) {
    shape.push_back(static_cast<std::ptrdiff_t>(tensor.shape(i)));
    strides.push_back(static_cast<std::ptrdiff_t>(tensor.stride(i)) * static_cast<std::ptrdiff_t>(item_bytes));
  }
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  if (type.lanes == 1 && (code == nb::dlpack::dtype_code::Int || code == nb::dlpack::dtype_code::UInt))
    kind = Kind::integer;
  if (code == nb::dlpack::dtype_code::Bool) kind = Kind::boolean;
}

std::size_t Array::row_bytes() const {
  std::size_t bytes = item_bytes;
  for (std::size_t i = shape.size(); i-- > 1;) {
    if (shape[i] > 1 && strides[i] != static_cast<std::ptrdiff_t>(bytes)) {
      raise(PyExc_ValueError, "the rows of %s are not contiguous: pass np.ascontiguousarray() of it", what);
    }
    bytes *= static_cast<std::size_t>(shape[i]);
  }
  return bytes;
}

}  // namespace tandem::python
