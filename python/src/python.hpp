// The interpreter and nanobind. The buffer protocol is in the stable ABI from Python 3.11 on; its structure and
// functions have been the same since 3.0, so this declares them where the headers leave them out (floor 3.10).
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

#if defined(Py_LIMITED_API) && Py_LIMITED_API + 0 < 0x030b0000
extern "C" {
struct Py_buffer {
  void* buf;
  PyObject* obj;
  Py_ssize_t len;
  Py_ssize_t itemsize;
  int readonly;
  int ndim;
  char* format;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  Py_ssize_t* suboffsets;
  void* internal;
};
int PyObject_CheckBuffer(PyObject* object);
int PyObject_GetBuffer(PyObject* object, Py_buffer* view, int flags);
void PyBuffer_Release(Py_buffer* view);
}
inline constexpr int PyBUF_SIMPLE = 0, PyBUF_FORMAT = 4, PyBUF_STRIDES = 0x18, PyBUF_C_CONTIGUOUS = 0x38;
#endif
