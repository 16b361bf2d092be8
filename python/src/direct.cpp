#include "direct.hpp"

#include <algorithm>

namespace tandem::python {

void take_keywords(const Arguments& given, const char* method, const char* const* names, std::size_t count,
                   PyObject** to) {
  const Py_ssize_t keywords = PyTuple_Size(given.names);
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    PyObject* const keyword = PyTuple_GetItem(given.names, i);
    const auto is_it = [keyword](const char* name) { return PyUnicode_CompareWithASCIIString(keyword, name) == 0; };
    const auto at = static_cast<std::size_t>(std::find_if(names, names + count, is_it) - names);
    if (at == count) raise(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", method, keyword);
    if (at < given.positional) raise(PyExc_TypeError, "%s() got multiple values for argument '%U'", method, keyword);
    to[at] = given.values[given.positional + static_cast<std::size_t>(i)];
  }
}

void raise_count(const char* method, std::size_t positional, std::size_t given) {
  raise(PyExc_TypeError, "%s() takes at most %zu arguments by place, not %zu", method, positional, given);
}

void raise_absent(const char* method, const char* name) {
  raise(PyExc_TypeError, "%s() misses the argument '%s'", method, name);
}

}  // namespace tandem::python
