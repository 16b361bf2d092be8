#include "errors.hpp"

#include <cstdarg>

namespace tandem::python {
namespace {

Types loaded;

}  // namespace

const Types& types() { return loaded; }

void load_types() {
  const nb::object from = nb::module_::import_("tandem._types");
  const auto name = [&](const char* of) { return nb::object(from.attr(of)).release().ptr(); };
  loaded = {.error = name("Error"),
            .closed = name("Closed"),
            .forked = name("Forked"),
            .too_many_threads = name("TooManyThreads"),
            .too_large = name("TooLarge"),
            .full = name("Full"),
            .item = name("Item"),
            .stats = name("Stats"),
            .store_items = name("StoreItems"),
            .store_values = name("StoreValues")};
}

void raise(PyObject* type, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyErr_FormatV(type, format, arguments);
  va_end(arguments);
  raise_set();
}

void raise_code(tandem_code code, std::size_t value_bytes) {
  switch (code) {
    case TANDEM_TOO_LARGE:
      raise(types().too_large, "a value of %zu bytes makes an item larger than the store's item_max", value_bytes);
    case TANDEM_OUT_OF_MEMORY:
      raise(types().full, "the store has no memory for the item");
    case TANDEM_TOO_MANY_THREADS:
      raise(types().too_many_threads, "threads_max threads use the store already");
    case TANDEM_BAD_KEY:
      raise(PyExc_ValueError, "keys are 1 to 250 bytes");
    case TANDEM_NOT_A_NUMBER:
      raise(PyExc_ValueError, "the value is not a decimal number of 64 bits");
    case TANDEM_NOT_ORDERED:
      raise(PyExc_ValueError, "the store keeps no order: open it with ordered=True");
    default:
      raise(types().error, "the store answered %d", static_cast<int>(code));
  }
}

nb::object name_of_type(nb::handle object) { return nb::object(object.type().attr("__qualname__")); }

}  // namespace tandem::python
