// Calls for one key: they keep the interpreter's lock, but for long values.
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "direct.hpp"

namespace tandem::python {
namespace {

constexpr std::size_t short_value = 2048;

[[noreturn]] void raise_missing(nb::handle key) {
  PyErr_SetObject(PyExc_KeyError, key.ptr());
  raise_set();
}

// A number of 64 bits without a sign.
std::uint64_t number_of(nb::handle number, const char* what) {
  if (!PyLong_Check(number.ptr()))
    raise(PyExc_TypeError, "%s is an int, not %U", what, name_of_type(number).ptr());
  const unsigned long long value = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    raise(PyExc_ValueError, "%s is out of range", what);
  }
  return value;
}

std::uint32_t flags_of(nb::handle flags) {
  const std::uint64_t number = number_of(flags, "flags");
  if (number > std::numeric_limits<std::uint32_t>::max()) raise(PyExc_ValueError, "flags is out of range");
  return static_cast<std::uint32_t>(number);
}

// The value as bytes, or an invalid object if there is none. One copy for a long value; none of it is made by a visitor.
nb::object read(Store& s, std::string_view key, tandem_reply& reply) {
  tandem_store* const store = s.open();
  char bytes[short_value];
  tandem_code code = tandem_get_into(store, key.data(), key.size(), bytes, sizeof bytes, &reply);
  if (code == TANDEM_HIT) return new_bytes(bytes, reply.value_bytes);
  while (code == TANDEM_TOO_LARGE) {
    const std::size_t size = reply.value_bytes;
    nb::object value = new_bytes(nullptr, size);
    char* const to = PyBytes_AsString(value.ptr());
    {
      const Store::LetGo let_go(s, size >= bytes_to_let_go);
      code = tandem_get_into(store, key.data(), key.size(), to, size, &reply);
    }
    if (code == TANDEM_HIT && reply.value_bytes == size) return value;
    if (code == TANDEM_HIT) return new_bytes(to, reply.value_bytes);
    if (code == TANDEM_TOO_LARGE) s.open();  // it may have been closed meanwhile
  }
  if (code == TANDEM_MISS) return {};
  raise_code(code);
}

// get(key, default=None)
PyObject* get(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) noexcept {
  static constexpr Parameters<2> parameters{.method = "get", .names = {"key", "default"}, .required = 1, .positional = 2};
  return called<PyObject*>(nullptr, [&] {
    std::array<PyObject*, 2> given{nullptr, Py_None};
    bind(parameters, {values, static_cast<std::size_t>(count), names}, given);
    tandem_reply reply;
    nb::object value = read(store_of(self), key_of(given[0]), reply);
    return value.is_valid() ? value.release().ptr() : nb::borrow(given[1]).release().ptr();
  });
}

// store[key]
PyObject* get_item(PyObject* self, PyObject* key) noexcept {
  return called<PyObject*>(nullptr, [&] {
    tandem_reply reply;
    nb::object value = read(store_of(self), key_of(key), reply);
    if (!value.is_valid()) raise_missing(key);
    return value.release().ptr();
  });
}

// For tandem.Cache: value and flags, or None.
PyObject* get_data(PyObject* self, PyObject* key) noexcept {
  return called<PyObject*>(nullptr, [&] {
    tandem_reply reply;
    const nb::object value = read(store_of(self), key_of(key), reply);
    return value.is_valid() ? nb::make_tuple(value, reply.flags).release().ptr() : nb::none().release().ptr();
  });
}

nb::object gets(Store& s, nb::handle key) {
  tandem_reply reply;
  const nb::object value = read(s, key_of(key), reply);
  return value.is_valid() ? nb::handle(types().item)(value, reply.flags, reply.cas) : nb::none();
}

// key in store
int contains(PyObject* self, PyObject* key) noexcept {
  return called(-1, [&] {
    const std::string_view wanted = key_of(key);
    const tandem_code code = tandem_get_into(store_of(self).open(), wanted.data(), wanted.size(), nullptr, 0, nullptr);
    if (code != TANDEM_HIT && code != TANDEM_TOO_LARGE && code != TANDEM_MISS) raise_code(code);
    return code != TANDEM_MISS ? 1 : 0;
  });
}

// A write of a value. call(store, key, value).
template <class Call>
tandem_code write(Store& s, nb::handle key, nb::handle value, Call call) {
  const std::string_view to = key_of(key);
  const Bytes bytes(value);
  tandem_store* const store = s.open();
  tandem_code code = 0;
  {
    const Store::LetGo let_go(s, bytes.size() >= bytes_to_let_go);
    code = call(store, to, std::string_view(bytes.data(), bytes.size()));
  }
  if (code != TANDEM_STORED && code != TANDEM_NOT_STORED && code != TANDEM_EXISTS && code != TANDEM_MISS &&
      code != TANDEM_HIT) {
    raise_code(code, bytes.size());
  }
  return code;
}

using Storing = tandem_code (*)(tandem_store*, const char*, std::size_t, const char*, std::size_t, std::int64_t,
                                std::uint32_t);
template <Storing call>
bool store_with(Store& s, nb::handle key, nb::handle value, std::int64_t ttl_s, std::uint32_t flags) {
  return write(s, key, value, [&](tandem_store* store, std::string_view k, std::string_view v) {
           return call(store, k.data(), k.size(), v.data(), v.size(), ttl_s, flags);
         }) == TANDEM_STORED;
}

template <Storing call>
bool store_value(Store& s, nb::handle key, nb::handle value, nb::handle ttl, nb::handle flags) {
  return store_with<call>(s, key, value, ttl_of(ttl), flags_of(flags));
}

// set(key, value, ttl=None, *, flags=0)
PyObject* set(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) noexcept {
  static constexpr Parameters<4> parameters{
      .method = "set", .names = {"key", "value", "ttl", "flags"}, .required = 2, .positional = 3};
  return called<PyObject*>(nullptr, [&] {
    std::array<PyObject*, 4> given{nullptr, nullptr, Py_None, nullptr};
    bind(parameters, {values, static_cast<std::size_t>(count), names}, given);
    const std::uint32_t flags = given[3] == nullptr ? 0 : flags_of(given[3]);
    store_with<tandem_set>(store_of(self), given[0], given[1], ttl_of(given[2]), flags);
    return nb::none().release().ptr();
  });
}

using Concatenate = tandem_code (*)(tandem_store*, const char*, std::size_t, const char*, std::size_t);
template <Concatenate call>
bool concatenate(Store& s, nb::handle key, nb::handle value) {
  return write(s, key, value, [](tandem_store* store, std::string_view k, std::string_view v) {
           return call(store, k.data(), k.size(), v.data(), v.size());
         }) == TANDEM_STORED;
}

bool compare_and_set(Store& s, nb::handle key, nb::handle value, std::uint64_t cas, nb::handle ttl, nb::handle flags) {
  const std::int64_t ttl_s = ttl_of(ttl);
  const std::uint32_t kept = flags_of(flags);
  return write(s, key, value, [&](tandem_store* store, std::string_view k, std::string_view v) {
           return tandem_compare_and_set(store, k.data(), k.size(), v.data(), v.size(), cas, ttl_s, kept);
         }) == TANDEM_STORED;
}

bool remove(Store& s, nb::handle key) {
  const std::string_view from = key_of(key);
  const tandem_code code = tandem_remove(s.open(), from.data(), from.size());
  if (code != TANDEM_REMOVED && code != TANDEM_MISS) raise_code(code);
  return code == TANDEM_REMOVED;
}

// store[key] = value; del store[key], where value is null
int set_item(PyObject* self, PyObject* key, PyObject* value) noexcept {
  return called(-1, [&] {
    Store& s = store_of(self);
    if (value != nullptr) {
      store_with<tandem_set>(s, key, value, 0, 0);
    } else if (!remove(s, key)) {
      raise_missing(key);
    }
    return 0;
  });
}

bool touch(Store& s, nb::handle key, nb::handle ttl) {
  const std::string_view of = key_of(key);
  const tandem_code code = tandem_touch(s.open(), of.data(), of.size(), ttl_of(ttl));
  if (code != TANDEM_HIT && code != TANDEM_MISS) raise_code(code);
  return code == TANDEM_HIT;
}

// The item that a write returns.
struct Old {
  tandem_value value{};
  Old() = default;
  Old(const Old&) = delete;
  Old& operator=(const Old&) = delete;
  ~Old() { tandem_value_free(&value); }
  nb::object bytes() const { return new_bytes(value.bytes, value.size); }
};

nb::object exchange(Store& s, nb::handle key, nb::handle value, nb::handle ttl, nb::handle flags) {
  const std::int64_t ttl_s = ttl_of(ttl);
  const std::uint32_t kept = flags_of(flags);
  Old old;
  const tandem_code code = write(s, key, value, [&](tandem_store* store, std::string_view k, std::string_view v) {
    return tandem_exchange(store, k.data(), k.size(), v.data(), v.size(), ttl_s, kept, &old.value);
  });
  return code == TANDEM_HIT ? old.bytes() : nb::none();
}

nb::object pop(Store& s, nb::handle key, nb::handle otherwise) {
  const std::string_view from = key_of(key);
  Old old;
  const tandem_code code = tandem_take(s.open(), from.data(), from.size(), &old.value);
  if (code == TANDEM_REMOVED) return old.bytes();
  if (code != TANDEM_MISS) raise_code(code);
  if (otherwise.is_valid() && otherwise.ptr() != types().error) return nb::borrow(otherwise);
  raise_missing(key);
}

nb::object set_default(Store& s, nb::handle key, nb::handle value) {
  for (;;) {
    tandem_reply reply;
    nb::object there = read(s, key_of(key), reply);
    if (there.is_valid()) return there;
    if (store_with<tandem_add>(s, key, value, 0, 0)) {
      const Bytes bytes(value);
      return new_bytes(bytes.data(), bytes.size());
    }
  }
}

nb::object increment(Store& s, nb::handle key, nb::handle by, nb::handle initial, nb::handle ttl) {
  const std::string_view of = key_of(key);
  const nb::object zero = nb::int_(0);
  const bool is_down = PyLong_Check(by.ptr()) && PyObject_RichCompareBool(by.ptr(), zero.ptr(), Py_LT) == 1;
  const std::uint64_t delta = number_of(is_down ? -nb::borrow(by) : nb::borrow(by), "by");
  const std::int64_t ttl_s = ttl_of(ttl);
  const std::uint64_t first = initial.is_none() ? 0 : number_of(initial, "initial");
  for (;;) {
    std::uint64_t number = 0;
    const tandem_code code = (is_down ? tandem_decrement : tandem_increment)(s.open(), of.data(), of.size(), delta, &number);
    if (code == TANDEM_HIT) return nb::int_(number);
    if (code != TANDEM_MISS) raise_code(code);
    if (initial.is_none()) raise_missing(key);
    std::array<char, 24> text;
    const char* const end = std::to_chars(text.begin(), text.end(), first).ptr;
    const tandem_code added = tandem_add(s.open(), of.data(), of.size(), text.data(),
                                         static_cast<std::size_t>(end - text.data()), ttl_s, 0);
    if (added == TANDEM_STORED) return nb::int_(first);
    if (added != TANDEM_NOT_STORED) raise_code(added);
  }
}

nb::object get_into(Store& s, nb::handle key, nb::handle out) {
  const std::string_view of = key_of(key);
  const Array to(out, "out", Array::Access::write);
  const std::size_t row_bytes = to.row_bytes();
  if (to.length() > 1 && to.stride() != static_cast<std::ptrdiff_t>(row_bytes)) {
    raise(PyExc_ValueError, "out is not contiguous");
  }
  const std::size_t capacity = row_bytes * (to.shape.empty() ? 1 : to.length());
  tandem_store* const store = s.open();
  tandem_reply reply{};
  tandem_code code = 0;
  {
    const Store::LetGo let_go(s, capacity >= bytes_to_let_go);
    code = tandem_get_into(store, of.data(), of.size(), to.data, capacity, &reply);
  }
  if (code == TANDEM_HIT) return nb::int_(reply.value_bytes);
  if (code == TANDEM_MISS) return nb::none();
  if (code == TANDEM_TOO_LARGE) {
    raise(PyExc_ValueError, "out has %zu bytes, and the value %zu", capacity, reply.value_bytes);
  }
  raise_code(code);
}

#define TANDEM_KEY "key: str | bytes"
#define TANDEM_VALUE "value: typing_extensions.Buffer"
#define TANDEM_TTL "ttl: float | datetime.timedelta | None = None"

void define_reads(nb::class_<Store>& type) {
  type.def("gets", &gets, nb::arg("key"),
           nb::sig("def gets(self, " TANDEM_KEY ") -> tandem._types.Item | None"),
           "The value with its flags and cas, or None.")
      .def("get_into", &get_into, nb::arg("key"), nb::arg("out"),
           nb::sig("def get_into(self, " TANDEM_KEY ", out: typing_extensions.Buffer) -> int | None"),
           "Copies the value to the start of `out`, once, and returns its length; None if there is none. ValueError if "
           "`out` is shorter: nothing is copied then.");
}

void define_writes(nb::class_<Store>& type) {
  type.def("add", &store_value<tandem_add>, nb::arg("key"), nb::arg("value"), nb::arg("ttl") = nb::none(),
           nb::kw_only(), nb::arg("flags") = 0,
           nb::sig("def add(self, " TANDEM_KEY ", " TANDEM_VALUE ", " TANDEM_TTL ", *, flags: int = 0) -> bool"),
           "Stores the value if there is none. Whether it did.")
      .def("replace", &store_value<tandem_replace>, nb::arg("key"), nb::arg("value"), nb::arg("ttl") = nb::none(),
           nb::kw_only(), nb::arg("flags") = 0,
           nb::sig("def replace(self, " TANDEM_KEY ", " TANDEM_VALUE ", " TANDEM_TTL ", *, flags: int = 0) -> bool"),
           "Stores the value if there is one. Whether it did.")
      .def("exchange", &exchange, nb::arg("key"), nb::arg("value"), nb::arg("ttl") = nb::none(), nb::kw_only(),
           nb::arg("flags") = 0,
           nb::sig("def exchange(self, " TANDEM_KEY ", " TANDEM_VALUE ", " TANDEM_TTL
                   ", *, flags: int = 0) -> bytes | None"),
           "Stores the value and returns the one that was there, both at once; None if there was none. What is refused "
           "leaves the old value.")
      .def("append", &concatenate<tandem_append>, nb::arg("key"), nb::arg("value"),
           nb::sig("def append(self, " TANDEM_KEY ", " TANDEM_VALUE ") -> bool"),
           "Adds to the end of a value; its flags and ttl stay. False if there is none.")
      .def("prepend", &concatenate<tandem_prepend>, nb::arg("key"), nb::arg("value"),
           nb::sig("def prepend(self, " TANDEM_KEY ", " TANDEM_VALUE ") -> bool"), "The same in front of it.")
      .def("cas", &compare_and_set, nb::arg("key"), nb::arg("value"), nb::arg("cas"), nb::arg("ttl") = nb::none(),
           nb::kw_only(), nb::arg("flags") = 0,
           nb::sig("def cas(self, " TANDEM_KEY ", " TANDEM_VALUE ", cas: int, " TANDEM_TTL
                   ", *, flags: int = 0) -> bool"),
           "Stores the value if the item is still the one that `gets` returned with this `cas`. Whether it did.")
      .def("incr", &increment, nb::arg("key"), nb::arg("by") = 1, nb::arg("initial") = nb::none(),
           nb::arg("ttl") = nb::none(),
           nb::sig("def incr(self, " TANDEM_KEY ", by: int = 1, initial: int | None = None, " TANDEM_TTL ") -> int"),
           "Adds to a decimal number of 64 bits, and returns the new one: above it wraps, below 0 it stops. Without a "
           "value it stores and returns `initial`, with that ttl; KeyError if that is None.");
}

void define_removals(nb::class_<Store>& type) {
  type.def("delete", &remove, nb::arg("key"), nb::sig("def delete(self, " TANDEM_KEY ") -> bool"),
           "Removes the item. Whether there was one.")
      .def("touch", &touch, nb::arg("key"), nb::arg("ttl").none(),
           nb::sig("def touch(self, " TANDEM_KEY ", ttl: float | datetime.timedelta | None) -> bool"),
           "Gives the item another ttl; None: it does not expire. Whether there is one.")
      .def("pop", &pop, nb::arg("key"), nb::arg("default").none() = nb::handle(types().error),
           nb::sig("def pop(self, key: str | bytes, default: typing.Any = ...) -> typing.Any"),
           "Removes the item and returns its value, both at once; without one `default`, or KeyError.")
      .def("setdefault", &set_default, nb::arg("key"), nb::arg("default"),
           nb::sig("def setdefault(self, key: str | bytes, default: typing_extensions.Buffer) -> bytes"),
           "The value; `default`, which is stored, if there is none.");
}

template <class Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

const PyType_Slot* direct_slots() {
  constexpr int by_name = METH_FASTCALL | METH_KEYWORDS;
  static std::array<PyMethodDef, 4> methods{{
      {"get", reinterpret_cast<PyCFunction>(slot(get)), by_name,
       "get($self, key, default=None)\n--\n\nThe value, or `default`."},
      {"set", reinterpret_cast<PyCFunction>(slot(set)), by_name,
       "set($self, key, value, ttl=None, *, flags=0)\n--\n\n"
       "Stores the value. ttl: seconds from now, rounded up; None: it does not expire."},
      {"_get_data", get_data, METH_O, nullptr},
      {nullptr, nullptr, 0, nullptr},
  }};
  static const std::array<PyType_Slot, 5> slots{{{Py_tp_methods, methods.data()},
                                                 {Py_mp_subscript, slot(get_item)},
                                                 {Py_mp_ass_subscript, slot(set_item)},
                                                 {Py_sq_contains, slot(contains)},
                                                 {0, nullptr}}};
  return slots.data();
}

void define_single(nb::class_<Store>& type) {
  define_reads(type);
  define_writes(type);
  define_removals(type);
}

}  // namespace tandem::python
