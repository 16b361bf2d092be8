// Opening, closing, fork and exit.
#include "store.hpp"

#include <pthread.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::python {
namespace {

std::atomic<std::uint64_t> forks{0};  // that this process is behind: its own is the last one

std::vector<Store*>& open_stores() {
  static auto* const stores = new std::vector<Store*>;  // not destroyed before the last store
  return *stores;
}

constexpr double seconds_at_exit = 5;

void close_all() {
  const std::vector<Store*> stores = open_stores();
  for (Store* store : stores) store->close(seconds_at_exit);
}

// A number of bytes, or a text with a unit: "512MiB", "1.5g". Units are powers of 1024, as of the server's options.
std::uint64_t size_of(nb::handle size, const char* what) {
  if (PyLong_Check(size.ptr()) && !PyBool_Check(size.ptr())) {
    const unsigned long long bytes = PyLong_AsUnsignedLongLong(size.ptr());
    if (PyErr_Occurred() == nullptr) return bytes;
    PyErr_Clear();
    raise(PyExc_ValueError, "%s is out of range", what);
  }
  if (!PyUnicode_Check(size.ptr()))
    raise(PyExc_TypeError, "%s is an int or a str, not %U", what, name_of_type(size).ptr());
  const std::string text = nb::cast<std::string>(nb::str(size));
  char* end = nullptr;
  const double number = text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) == 0
                            ? -1
                            : std::strtod(text.c_str(), &end);
  std::string unit = end != nullptr ? end : "";
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* rest : {"ib", "b"}) {
    const std::size_t length = std::strlen(rest);
    if (unit.size() >= length && unit.compare(unit.size() - length, length, rest) == 0) {
      unit.resize(unit.size() - length);
      break;
    }
  }
  const std::size_t power = unit.empty() ? 0 : std::string("kmgt").find(unit) + 1;
  const double bytes = number * static_cast<double>(std::uint64_t{1} << (10 * power));
  if (number < 0 || unit.size() > 1 || (!unit.empty() && power == 0) || !(bytes < 1e18)) {
    raise(PyExc_ValueError, "%s: %R is no size such as \"512MiB\"", what, size.ptr());
  }
  return static_cast<std::uint64_t>(bytes);
}

std::int64_t whole_seconds(nb::handle ttl) {
  if (PyLong_Check(ttl.ptr()) && !PyBool_Check(ttl.ptr())) {
    int overflow = 0;
    const long long seconds = PyLong_AsLongLongAndOverflow(ttl.ptr(), &overflow);
    return overflow > 0 ? std::numeric_limits<std::int64_t>::max() : overflow < 0 ? -1 : seconds;
  }
  double seconds = 0;
  if (PyFloat_Check(ttl.ptr())) {
    seconds = PyFloat_AsDouble(ttl.ptr());
  } else if (nb::hasattr(ttl, "total_seconds")) {
    seconds = nb::cast<double>(ttl.attr("total_seconds")());
  } else {
    raise(PyExc_TypeError, "ttl is a number of seconds, a timedelta or None, not %U", name_of_type(ttl).ptr());
  }
  if (std::isnan(seconds)) raise(PyExc_ValueError, "ttl is not a number");
  return seconds >= 9e18 ? std::numeric_limits<std::int64_t>::max() : static_cast<std::int64_t>(std::ceil(seconds));
}

void open_store(Store* at, nb::handle memory, nb::handle item_max, nb::handle memory_file, bool evict, bool ordered,
                unsigned threads_max, unsigned gpus, const std::string& gpu, const std::string& preset,
                nb::handle gpu_values, const std::optional<std::string>& index) {
  constexpr std::uint64_t item_max_default = std::uint64_t{64} << 20, item_limit = std::uint64_t{1} << 30;
  tandem_options options;
  tandem_options_init(&options, sizeof options);
  options.memory_bytes = size_of(memory, "memory");
  options.item_bytes_max =
      item_max.is_none() ? std::min(item_max_default, options.memory_bytes / 2) : size_of(item_max, "item_max");
  if (options.item_bytes_max > item_limit) raise(PyExc_ValueError, "item_max is at most 1 GiB");
  options.evict = evict;
  options.ordered = ordered;
  options.threads_max = threads_max;
  options.gpus = gpus;
  options.gpu = gpu.c_str();
  options.preset = preset.c_str();
  options.gpu_value_bytes = size_of(gpu_values, "gpu_values");
  if (index) {
    if (index->empty()) raise(PyExc_ValueError, "index is empty");
    options.index = index->c_str();
  }
  std::string file;
  if (!memory_file.is_none()) {
    file = nb::cast<std::string>(nb::module_::import_("os").attr("fsdecode")(memory_file));
    if (file.empty()) raise(PyExc_ValueError, "memory_file is empty");
    options.memory_file = file.c_str();
  }
  std::string text = "memory=" + std::to_string(options.memory_bytes);
  if (!file.empty()) text += ", memory_file='" + file + "'";
  new (at) Store(options, std::move(text));
}

}  // namespace

std::int64_t ttl_of(nb::handle ttl) {
  constexpr std::int64_t relative_max = std::int64_t{60} * 60 * 24 * 30;  // larger numbers are Unix time
  if (ttl.is_none()) return 0;
  const std::int64_t seconds = whole_seconds(ttl);
  if (seconds <= 0) raise(PyExc_ValueError, "ttl is above 0, or None: never");
  if (seconds <= relative_max) return seconds;
  const std::int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  return seconds > std::numeric_limits<std::int64_t>::max() - now ? seconds : now + seconds;
}

Store::Store(const tandem_options& options, std::string text)
    : store_(nullptr), forks_(forks.load(std::memory_order_relaxed)), text_(std::move(text)) {
  char error[512];
  int number = 0;
  {
    nb::gil_scoped_release release;
    store_ = tandem_open(&options, error, sizeof error);
    number = errno;
  }
  if (store_ != nullptr) {
    open_stores().push_back(this);
    return;
  }
  switch (number) {
    case EINVAL:
      raise(PyExc_ValueError, "%s", error);
    case ENOMEM:
      raise(PyExc_MemoryError, "%s", error);
    case ENODEV:
      raise(types().error, "%s", error);
    default:
      PyErr_SetObject(PyExc_OSError, nb::make_tuple(number, error).ptr());
      raise_set();
  }
}

Store::~Store() {
  std::erase(open_stores(), this);
  if (store_ != nullptr && !is_forked()) tandem_close(store_);
}

bool Store::is_forked() const { return forks_ != forks.load(std::memory_order_relaxed); }

tandem_store* Store::open() const {
  if (is_forked()) {
    raise(types().forked, "the store was opened before the fork, by the parent: open it after the fork");
  }
  if (store_ == nullptr) raise(types().closed, "the store is closed");
  return store_;
}

void Store::close(double seconds) {
  if (store_ == nullptr || is_forked()) return;
  tandem_store* const closing = std::exchange(store_, nullptr);
  std::erase(open_stores(), this);
  const nb::gil_scoped_release release;
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (busy_.load(std::memory_order_acquire) != 0) {
    if (std::chrono::steady_clock::now() > until) return;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  tandem_close(closing);
}

void watch_process(nb::module_& module) {
  const auto in_child = [] { forks.fetch_add(1, std::memory_order_relaxed); };
  if (pthread_atfork(nullptr, nullptr, in_child) != 0) raise(PyExc_MemoryError, "pthread_atfork");
  module.def("_close_all", &close_all);
  nb::module_::import_("atexit").attr("register")(module.attr("_close_all"));
}

void define_opening(nb::class_<Store>& type) {
  constexpr double for_ever = 1e9;
  type.def("__init__", &open_store, nb::kw_only(), nb::arg("memory") = "1GiB", nb::arg("item_max") = nb::none(),
           nb::arg("memory_file") = nb::none(), nb::arg("evict") = true, nb::arg("ordered") = false,
           nb::arg("threads_max") = 1024, nb::arg("gpus") = 0, nb::arg("gpu") = "cuda", nb::arg("preset") = "auto",
           nb::arg("gpu_values") = 0, nb::arg("index") = nb::none(),
           nb::sig("def __init__(self, *, memory: int | str = \"1GiB\", item_max: int | str | None = None, "
                   "memory_file: str | os.PathLike[str] | None = None, evict: bool = True, ordered: bool = False, "
                   "threads_max: int = 1024, gpus: int = 0, gpu: str = \"cuda\", preset: str = \"auto\", "
                   "gpu_values: int | str = 0, index: str | None = None) -> None"),
           "Opens a store.\n\n"
           "memory: of items and index, 4 MiB to 128 GiB. item_max: the largest item, key and header included; 64 MiB, "
           "and at most half of `memory`. memory_file: items lie in this file and outlive the process. evict: False: a "
           "full store refuses with `Full`. ordered: keeps the keys in order, for `scan`. threads_max: that may use the "
           "store at once. index: its kind, in place of the preset's: cuckoo, set_associative (of a fixed size, evicts), "
           "hash_tree (ordered), slab_list. Sizes are bytes or a text with a unit, a power of 1024.")
      .def("close", [](Store& s) { s.close(for_ever); }, nb::sig("def close(self) -> None"),
           "Closes the store and frees its memory. It waits for batches that other threads are in; every later call "
           "raises `Closed`. Closing again is nothing.")
      .def_prop_ro("closed", &Store::is_closed, nb::sig("def closed(self) -> bool"), "Whether `close` was called.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> typing_extensions.Self"))
      .def("__exit__", [](Store& s, nb::handle, nb::handle, nb::handle) { s.close(for_ever); },
           nb::arg("kind").none(), nb::arg("error").none(), nb::arg("trace").none(),
           nb::sig("def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, "
                   "trace: types.TracebackType | None) -> None"))
      .def("__repr__",
           [](const Store& s) { return "<tandem.Store " + s.text() + (s.is_closed() ? ", closed>" : ">"); })
      .def("__reduce__", [](const Store&) -> nb::object {
        raise(PyExc_TypeError, "a Store cannot be pickled: each process opens its own, or talks to a server");
      }, nb::sig("def __reduce__(self) -> typing.NoReturn"));
}

}  // namespace tandem::python
