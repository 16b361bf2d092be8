// Rows: keys and values of a fixed size in arrays.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "store.hpp"

namespace tandem::python {
namespace {

tandem_keys keys_of(const Array& keys) {
  std::size_t bytes = keys.item_bytes;
  if (keys.shape.size() == 2 && keys.item_bytes == 1 && keys.kind != Kind::boolean && keys.kind != Kind::text) {
    bytes = keys.row_bytes();
  } else if (keys.shape.size() != 1 || (keys.kind != Kind::integer && keys.kind != Kind::opaque)) {
    raise(PyExc_TypeError, "%s must be integers, or S or V of a fixed width, in one dimension, or bytes in two",
          keys.what);
  }
  if (keys.is_big_endian && keys.kind == Kind::integer && keys.item_bytes != 1) {
    raise(PyExc_TypeError, "%s must be integers in little-endian order", keys.what);
  }
  if (bytes - 1 >= key_bytes_max) raise(PyExc_ValueError, "a key is 1 to %zu bytes, not %zu", key_bytes_max, bytes);
  return {keys.data, bytes, keys.stride(), keys.length()};
}

// The bytes that an array covers: from the least to behind the last.
struct Extent {
  const char *begin, *end;
};
Extent extent_of(const Array& a, std::size_t row_bytes) {
  if (a.length() == 0 || row_bytes == 0) return {a.data, a.data};
  const std::ptrdiff_t way = a.stride() * static_cast<std::ptrdiff_t>(a.length() - 1);
  return {a.data + std::min<std::ptrdiff_t>(way, 0), a.data + std::max<std::ptrdiff_t>(way, 0) + row_bytes};
}

// Fields of one array of structures have a stride and lie between each other.
bool are_fields(const Array& a, std::size_t a_bytes, const Array& b, std::size_t b_bytes) {
  if (a.stride() != b.stride() || a.stride() <= 0) return false;
  const std::ptrdiff_t from = (b.data - a.data) % a.stride();
  const auto apart = static_cast<std::size_t>(from < 0 ? from + a.stride() : from);
  return apart >= a_bytes && apart + b_bytes <= static_cast<std::size_t>(a.stride());
}

void refuse_overlap(const Array& written, std::size_t written_bytes, const Array& other, std::size_t other_bytes) {
  const Extent a = extent_of(written, written_bytes), b = extent_of(other, other_bytes);
  if (a.begin < b.end && b.begin < a.end && !are_fields(written, written_bytes, other, other_bytes)) {
    raise(PyExc_ValueError, "%s overlaps %s", written.what, other.what);
  }
}

void check_length(const Array& a, std::size_t rows) {
  if (a.shape.empty() || a.length() != rows) {
    raise(PyExc_ValueError, "%s has %zd rows, and keys %zu", a.what, a.shape.empty() ? Py_ssize_t{-1} : a.shape[0],
          rows);
  }
}

// The bytes of a row of `out`, into which rows are written.
std::size_t out_bytes(const Array& out, std::size_t rows) {
  check_length(out, rows);
  const std::size_t bytes = out.row_bytes();
  if (rows > 1 && static_cast<std::size_t>(std::abs(out.stride())) < bytes) {
    raise(PyExc_ValueError, "the rows of %s overlap", out.what);
  }
  return bytes;
}

nb::object numpy() {
  try {
    return nb::module_::import_("numpy");
  } catch (const nb::python_error&) {
    raise(PyExc_ImportError, "this needs numpy: install it, or pass out= and found=");
  }
}

// bool[rows] of NumPy; without NumPy a memoryview of as many.
nb::object new_mask(std::size_t rows) {
  nb::object mask = nb::steal(PyImport_ImportModule("numpy"));
  if (mask.is_valid()) return mask.attr("zeros")(rows, "?");
  PyErr_Clear();
  const nb::object bytes = nb::steal(PyByteArray_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(rows)));
  std::memset(PyByteArray_AsString(bytes.ptr()), 0, rows);
  return nb::steal(PyMemoryView_FromObject(bytes.ptr())).attr("cast")("?");
}

// A mask that is filled in: of bool, or of uint8, which receives the C interface's codes.
struct Mask {
  nb::object object;
  Array array;
  Mask(nb::object of, const char* what, std::size_t rows)
      : object(std::move(of)), array(object, what, Array::Access::write) {
    check_length(array, rows);
    if (array.shape.size() != 1 || array.item_bytes != 1 ||
        (array.kind != Kind::boolean && array.kind != Kind::integer)) {
      raise(PyExc_TypeError, "%s must be of bool or uint8, in one dimension", what);
    }
    if (rows > 1 && array.stride() != 1) raise(PyExc_ValueError, "%s is not contiguous", what);
  }
  std::uint8_t* bytes() const { return reinterpret_cast<std::uint8_t*>(array.data); }
};

// Runs `call` without the interpreter's lock where there is much to do.
template <class Call>
void run(Store& s, std::size_t rows, std::size_t bytes, Call call) {
  tandem_store* const store = s.open();
  tandem_code code = 0;
  {
    const Store::LetGo let_go(s, rows >= keys_to_let_go || bytes >= bytes_to_let_go);
    code = call(store);
  }
  if (code != TANDEM_HIT) raise_code(code);
}

nb::object shape_of(nb::handle shape) {
  if (shape.is_none()) return nb::make_tuple();
  if (PyLong_Check(shape.ptr())) return nb::make_tuple(shape);
  return nb::tuple(shape);
}

nb::object new_values(nb::handle dtype, nb::handle shape, std::size_t rows) {
  if (dtype.is_none()) raise(PyExc_TypeError, "get_rows needs out=, or dtype= and shape= for an array that it makes");
  return numpy().attr("zeros")(nb::make_tuple(rows) + shape_of(shape), dtype);
}

nb::tuple get_rows(Store& s, nb::handle keys, nb::handle dtype, nb::handle shape, nb::handle out, nb::handle found) {
  s.open();
  const Array from(keys, "keys", Array::Access::read);
  const tandem_keys names = keys_of(from);
  if (!out.is_none() && (!dtype.is_none() || !shape.is_none())) {
    raise(PyExc_TypeError, "get_rows takes out=, or dtype= and shape=, not both");
  }
  const nb::object values = out.is_none() ? new_values(dtype, shape, names.count) : nb::borrow(out);
  const Array to(values, "out", Array::Access::write);
  const std::size_t value_bytes = out_bytes(to, names.count);
  const Mask mask(found.is_none() ? new_mask(names.count) : nb::borrow(found), "found", names.count);
  refuse_overlap(to, value_bytes, from, names.key_bytes);
  refuse_overlap(mask.array, 1, from, names.key_bytes);
  refuse_overlap(mask.array, 1, to, value_bytes);
  run(s, names.count, names.count * value_bytes, [&](tandem_store* store) {
    const tandem_code code =
        tandem_get_rows(store, &names, to.data, value_bytes, to.stride(), mask.bytes(), nullptr);
    if (mask.array.kind == Kind::boolean) {
      std::replace(mask.bytes(), mask.bytes() + names.count, std::uint8_t{2}, std::uint8_t{0});
    }
    return code;
  });
  return nb::make_tuple(values, mask.object);
}

nb::object set_rows(Store& s, nb::handle keys, nb::handle values, nb::handle ttl) {
  s.open();
  const std::int64_t ttl_s = ttl_of(ttl);
  const Array to(keys, "keys", Array::Access::read);
  const tandem_keys names = keys_of(to);
  const Array from(values, "values", Array::Access::read);
  check_length(from, names.count);
  const std::size_t value_bytes = from.row_bytes();
  const Mask stored(new_mask(names.count), "stored", names.count);
  bool is_too_large = false;
  run(s, names.count, names.count * value_bytes, [&](tandem_store* store) {
    std::uint8_t* const codes = stored.bytes();
    const tandem_code code = tandem_set_rows(store, &names, from.data, value_bytes, from.stride(), ttl_s, codes);
    is_too_large = code == TANDEM_HIT && names.count != 0 && codes[0] == TANDEM_TOO_LARGE;
    for (std::size_t i = 0; i < names.count; ++i) codes[i] = codes[i] == TANDEM_STORED ? 1 : 0;
    return code;
  });
  if (is_too_large) raise_code(TANDEM_TOO_LARGE, value_bytes);
  return stored.object;
}

nb::object remove_rows(Store& s, nb::handle keys) {
  s.open();
  const Array from(keys, "keys", Array::Access::read);
  const tandem_keys names = keys_of(from);
  const Mask removed(new_mask(names.count), "removed", names.count);
  run(s, names.count, 0, [&](tandem_store* store) { return tandem_remove_rows(store, &names, removed.bytes()); });
  return removed.object;
}

nb::object touch_rows(Store& s, nb::handle keys, nb::handle ttl) {
  s.open();
  const std::int64_t ttl_s = ttl_of(ttl);
  const Array of(keys, "keys", Array::Access::read);
  const tandem_keys names = keys_of(of);
  const Mask touched(new_mask(names.count), "touched", names.count);
  run(s, names.count, 0,
      [&](tandem_store* store) { return tandem_touch_rows(store, &names, ttl_s, touched.bytes()); });
  return touched.object;
}

}  // namespace

void define_rows(nb::class_<Store>& type) {
  type.def("get_rows", &get_rows, nb::arg("keys"), nb::arg("dtype") = nb::none(), nb::arg("shape") = nb::none(),
           nb::kw_only(), nb::arg("out") = nb::none(), nb::arg("found") = nb::none(),
           nb::sig("def get_rows(self, keys: typing.Any, dtype: typing.Any = None, shape: int | "
                   "collections.abc.Sequence[int] | None = None, *, out: typing.Any = None, found: typing.Any = None) -> "
                   "tuple[typing.Any, typing.Any]"),
           "Copies a value of fixed size for each key, and returns (values, found). keys: integers (their bytes, "
           "little-endian), S or V of 1 to 250 bytes at full width, or uint8[n, k]. Into `out`, whose rows are "
           "contiguous, or a new array of `dtype` and `shape` a row. A row stays as it was, 0 in a new array, where "
           "there is no value of that many bytes. found: bool[n]; in a uint8 array of your own 2 tells that the value "
           "has another length.")
      .def("set_rows", &set_rows, nb::arg("keys"), nb::arg("values"), nb::arg("ttl") = nb::none(),
           nb::sig("def set_rows(self, keys: typing.Any, values: typing.Any, ttl: float | datetime.timedelta | None = "
                   "None) -> typing.Any"),
           "Stores a row of `values` for each key, in order: of equal keys the last remains. Returns bool[n]: stored. "
           "Dtype and shape are not kept.")
      .def("remove_rows", &remove_rows, nb::arg("keys"), nb::sig("def remove_rows(self, keys: typing.Any) -> typing.Any"),
           "Removes the items. Returns bool[n]: there was one.")
      .def("touch_rows", &touch_rows, nb::arg("keys"), nb::arg("ttl").none(),
           nb::sig("def touch_rows(self, keys: typing.Any, ttl: float | datetime.timedelta | None) -> typing.Any"),
           "Gives the items another ttl; None: they do not expire. Returns bool[n]: there is one.");
}

}  // namespace tandem::python
