// Methods that the interpreter calls without nanobind's dispatch, which costs more than a get itself: their arguments are
// taken as they lie, and their exceptions are converted here.
#pragma once
#include <array>
#include <cstddef>
#include <exception>
#include <new>

#include "errors.hpp"
#include "store.hpp"

namespace tandem::python {

// The store of a tandem.Store. Throws TypeError where its __init__ did not run.
inline Store& store_of(PyObject* self) {
  if (!nb::inst_ready(self)) raise(PyExc_TypeError, "the store was not opened: its __init__() did not run");
  return *nb::inst_ptr<Store>(self);
}

// What body() returns; `failed`, with the interpreter's exception set, if it throws.
template <class Result, class Body>
Result called(Result failed, Body body) noexcept {
  try {
    return body();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return failed;
}

// The parameters of a method: the first `positional` may be given by place, the first `required` must be given.
template <std::size_t count>
struct Parameters {
  const char* method;
  std::array<const char*, count> names;
  std::size_t required, positional;
};

// Arguments as of METH_FASTCALL | METH_KEYWORDS.
struct Arguments {
  PyObject* const* values;
  std::size_t positional;
  PyObject* names;  // of the keywords, whose values follow; or null
};

// Throws TypeError for a keyword that is none, or given twice.
void take_keywords(const Arguments& given, const char* method, const char* const* names, std::size_t count,
                   PyObject** to);
[[noreturn]] void raise_count(const char* method, std::size_t positional, std::size_t given);
[[noreturn]] void raise_absent(const char* method, const char* name);

// Puts the arguments where their parameters are in `to`, which has the defaults. Throws TypeError.
template <std::size_t count>
void bind(const Parameters<count>& parameters, const Arguments& given, std::array<PyObject*, count>& to) {
  if (given.positional > parameters.positional) raise_count(parameters.method, parameters.positional, given.positional);
  for (std::size_t i = 0; i < given.positional; ++i) to[i] = given.values[i];
  if (given.names != nullptr) take_keywords(given, parameters.method, parameters.names.data(), count, to.data());
  for (std::size_t i = given.positional; i < parameters.required; ++i) {
    if (to[i] == nullptr) raise_absent(parameters.method, parameters.names[i]);
  }
}

}  // namespace tandem::python
