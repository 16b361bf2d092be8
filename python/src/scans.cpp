// Walks over keys and items.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arena.hpp"
#include "store.hpp"

namespace tandem::python {
namespace {

// Copies of keys and values, one behind the other, handed out one by one.
struct Copies {
  struct Item {
    std::size_t offset, value_bytes;
    std::uint32_t key_bytes;
  };
  Arena arena;
  std::vector<Item> items;
  std::size_t next = 0;
  bool has_failed = false;

  void add(const char* key, std::size_t key_bytes, const tandem_reply* item) noexcept {
    try {
      const std::size_t offset = arena.add(key, key_bytes);
      if (item != nullptr) arena.add(item->value, item->value_bytes);
      items.push_back({offset, item != nullptr ? item->value_bytes : 0, static_cast<std::uint32_t>(key_bytes)});
    } catch (const std::bad_alloc&) {
      has_failed = true;
    }
  }
  void check() const {
    if (has_failed || arena.has_failed()) raise(PyExc_MemoryError, "no memory for the items");
  }
  void clear() {
    arena.clear();
    items.clear();
    next = 0;
  }
  nb::object key(const Item& item) const {
    return new_bytes(arena.at(item.offset), item.key_bytes);
  }
  nb::object value(const Item& item) const {
    return new_bytes(arena.at(item.offset + item.key_bytes), item.value_bytes);
  }
};

struct KeyIterator {
  Copies keys;
  nb::object next() {
    if (keys.next == keys.items.size()) throw nb::stop_iteration();
    return keys.key(keys.items[keys.next++]);
  }
};

nb::object iterate(Store& s) {
  tandem_store* const store = s.open();
  nb::object iterator = nb::cast(new KeyIterator, nb::rv_policy::take_ownership);
  Copies& keys = nb::cast<KeyIterator&>(iterator).keys;
  tandem_code code = 0;
  {
    const Store::LetGo let_go(s, true);
    code = tandem_for_each(
        store,
        [](void* to, const char* key, std::size_t key_bytes, const tandem_reply*) {
          static_cast<Copies*>(to)->add(key, key_bytes, nullptr);
        },
        &keys);
  }
  if (code != TANDEM_HIT) raise_code(code);
  keys.check();
  return iterator;
}

// Pages of an ordered store's items, each a snapshot of its own.
struct ItemIterator {
  nb::object store;
  std::string begin, end;
  bool is_after_begin = false, is_reverse = false, is_done = false;
  bool is_reading = false;  // without the interpreter's lock: no other thread may use the page
  std::size_t left = std::numeric_limits<std::size_t>::max();
  Copies page;

  void read_page() {
    Store& s = nb::cast<Store&>(store);
    while (page.next == page.items.size() && !is_done) {
      tandem_store* const open = s.open();
      page.clear();
      tandem_range range{};
      range.begin = begin.data();
      range.begin_bytes = begin.size();
      range.end = end.data();
      range.end_bytes = end.size();
      range.after_begin = is_after_begin ? 1 : 0;
      range.reverse = is_reverse ? 1 : 0;
      tandem_scanned scanned{};
      tandem_code code = 0;
      is_reading = true;
      {
        const Store::LetGo let_go(s, true);
        code = tandem_scan(
            open, &range, std::min<std::size_t>(left, 1024),
            [](void* to, const char* key, std::size_t key_bytes, const tandem_reply* item) {
              static_cast<Copies*>(to)->add(key, key_bytes, item);
            },
            &page, &scanned);
      }
      is_reading = false;
      if (code != TANDEM_HIT) raise_code(code);
      page.check();
      left -= std::min(left, page.items.size());
      is_done = scanned.done != 0 || left == 0;
      if (is_done) return;
      if (is_reverse) {
        end.assign(scanned.last, scanned.last_bytes);
      } else {
        begin.assign(scanned.last, scanned.last_bytes);
        is_after_begin = true;
      }
    }
  }
  nb::object next() {
    if (is_reading) raise(PyExc_ValueError, "another thread is in this iterator");
    read_page();
    if (page.next == page.items.size()) throw nb::stop_iteration();
    const Copies::Item& item = page.items[page.next++];
    return nb::make_tuple(page.key(item), page.value(item));
  }
};

// The least text above all that begin with `prefix`; empty: there is none.
std::string above(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

nb::object scan(nb::handle self, nb::handle prefix, nb::handle start, nb::handle stop, bool reverse, nb::handle limit) {
  nb::cast<Store&>(self).open();
  auto* const scanning = new ItemIterator;
  nb::object iterator = nb::cast(scanning, nb::rv_policy::take_ownership);
  scanning->store = nb::borrow(self);
  scanning->is_reverse = reverse;
  scanning->begin = bound_of(prefix);
  scanning->end = above(scanning->begin);
  if (!start.is_none()) scanning->begin = std::max(scanning->begin, std::string(bound_of(start)));
  if (!stop.is_none()) {
    const std::string bound(bound_of(stop));
    if (bound.empty()) scanning->is_done = true;  // nothing is below it
    if (scanning->end.empty() || bound < scanning->end) scanning->end = bound;
  }
  if (!scanning->end.empty() && scanning->begin >= scanning->end) scanning->is_done = true;
  if (!limit.is_none()) {
    const Py_ssize_t most = PyNumber_AsSsize_t(limit.ptr(), PyExc_OverflowError);
    if (most == -1 && PyErr_Occurred() != nullptr) raise_set();
    if (most < 0) raise(PyExc_ValueError, "limit is not negative");
    scanning->left = static_cast<std::size_t>(most);
    if (most == 0) scanning->is_done = true;
  }
  scanning->read_page();
  return iterator;
}

}  // namespace

void define_scans(nb::module_& module, nb::class_<Store>& type) {
  const auto itself = [](nb::handle self) { return nb::borrow(self); };
  nb::class_<KeyIterator>(module, "_KeyIterator", nb::sig("class _KeyIterator(collections.abc.Iterator[bytes])"))
      .def("__iter__", itself, nb::sig("def __iter__(self) -> typing_extensions.Self"))
      .def("__next__", &KeyIterator::next, nb::sig("def __next__(self) -> bytes"));
  nb::class_<ItemIterator>(module, "_ItemIterator",
                           nb::sig("class _ItemIterator(collections.abc.Iterator[tuple[bytes, bytes]])"))
      .def("__iter__", itself, nb::sig("def __iter__(self) -> typing_extensions.Self"))
      .def("__next__", &ItemIterator::next, nb::sig("def __next__(self) -> tuple[bytes, bytes]"));
  type.def("__iter__", &iterate, nb::sig("def __iter__(self) -> collections.abc.Iterator[bytes]"),
           "The keys that the store has now. Items may be evicted or expire before they are reached.")
      .def("scan", &scan, nb::arg("prefix") = nb::bytes(""), nb::arg("start") = nb::none(),
           nb::arg("stop") = nb::none(), nb::arg("reverse") = false, nb::arg("limit") = nb::none(),
           nb::sig("def scan(self, prefix: str | bytes = b\"\", start: str | bytes | None = None, stop: str | bytes | "
                   "None = None, reverse: bool = False, limit: int | None = None) -> "
                   "collections.abc.Iterator[tuple[bytes, bytes]]"),
           "Items in the order of their keys' bytes, from `start` up to but not including `stop`. Each thousand is a "
           "snapshot. ValueError: the store was opened without ordered=True.");
}

}  // namespace tandem::python
