// This package's exceptions, and what the store's codes become.
#pragma once
#include <tandem/tandem.h>

#include <cstddef>

#include "python.hpp"

namespace tandem::python {

// Of tandem._types; they live as long as the process.
struct Types {
  PyObject *error, *closed, *forked, *too_many_threads, *too_large, *full;
  PyObject *item, *stats, *store_items, *store_values;
};
const Types& types();
// Once, when the module is imported.
void load_types();

// Sets the exception with a text as of PyErr_Format() and throws it.
[[noreturn]] void raise(PyObject* type, const char* format, ...);
// Throws what is set.
[[noreturn]] inline void raise_set() { throw nb::python_error(); }
// For a code that tells of no result of the operation. value_bytes: of what was to be stored.
[[noreturn]] void raise_code(tandem_code code, std::size_t value_bytes = 0);
// "int", "numpy.ndarray": for messages. `into` gets at most 100 characters.
nb::object name_of_type(nb::handle object);

}  // namespace tandem::python
