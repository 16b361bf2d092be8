// Calls for many keys: they give up the interpreter's lock for the store's part.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "arena.hpp"
#include "store.hpp"

namespace tandem::python {
namespace {

// The requests of a call, and what they refer to.
struct Requests {
  std::vector<tandem_request> all;
  std::vector<nb::object> keys;
  std::vector<Bytes> values;
  std::size_t bytes = 0;

  tandem_request& add(nb::object key, std::uint32_t action) {
    const std::string_view name = key_of(key);
    tandem_request request{};
    request.action = action;
    request.key = name.data();
    request.key_bytes = name.size();
    bytes += name.size();
    keys.push_back(std::move(key));
    return all.emplace_back(request);
  }
};

void run(Store& s, const Requests& requests, tandem_visitor visit, void* context) {
  tandem_store* const store = s.open();
  tandem_code code = 0;
  {
    const Store::LetGo let_go(s, requests.all.size() >= keys_to_let_go || requests.bytes >= bytes_to_let_go);
    code = tandem_execute(store, requests.all.data(), requests.all.size(), visit, context);
  }
  if (code != TANDEM_HIT) raise_code(code);
}

// What a batch of gets has read.
struct Values {
  struct Value {
    std::size_t offset, size;
    bool is_hit;
  };
  Arena arena;
  std::vector<Value> values;
};

void copy_value(void* context, std::size_t index, const tandem_reply* reply) {
  auto& read = *static_cast<Values*>(context);
  const bool is_hit = reply->code == TANDEM_HIT;
  const std::size_t offset = is_hit ? read.arena.add(reply->value, reply->value_bytes) : 0;
  read.values[index] = {offset, reply->value_bytes, is_hit};
}

nb::dict get_many(Store& s, nb::iterable keys) {
  s.open();
  Requests requests;
  for (nb::handle key : keys) requests.add(nb::borrow(key), TANDEM_GET);
  Values read;
  read.values.resize(requests.all.size());
  run(s, requests, copy_value, &read);
  if (read.arena.has_failed()) raise(PyExc_MemoryError, "no memory for the values");
  nb::dict found;
  for (std::size_t i = 0; i < read.values.size(); ++i) {
    const Values::Value& value = read.values[i];
    if (!value.is_hit) continue;
    const nb::object bytes = new_bytes(read.arena.at(value.offset), value.size);
    if (PyDict_SetItem(found.ptr(), requests.keys[i].ptr(), bytes.ptr()) != 0) raise_set();
  }
  return found;
}

void note_code(void* context, std::size_t index, const tandem_reply* reply) {
  (*static_cast<std::vector<tandem_code>*>(context))[index] = reply->code;
}

nb::list set_many(Store& s, nb::handle items, nb::handle ttl) {
  s.open();
  const std::int64_t ttl_s = ttl_of(ttl);
  Requests requests;
  const nb::object pairs = nb::hasattr(items, "items") ? nb::object(items.attr("items")()) : nb::borrow(items);
  for (nb::handle pair : nb::iter(pairs)) {
    if (!PyTuple_Check(pair.ptr()) || PyTuple_Size(pair.ptr()) != 2) {
      raise(PyExc_TypeError, "set_many takes a mapping or pairs (key, value), not %U", name_of_type(pair).ptr());
    }
    tandem_request& request = requests.add(nb::borrow(PyTuple_GetItem(pair.ptr(), 0)), TANDEM_SET);
    const Bytes& value = requests.values.emplace_back(nb::handle(PyTuple_GetItem(pair.ptr(), 1)));
    request.value = value.data();
    request.value_bytes = value.size();
    request.ttl_s = ttl_s;
    requests.bytes += value.size();
  }
  std::vector<tandem_code> codes(requests.all.size());
  run(s, requests, note_code, &codes);
  nb::list refused;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] != TANDEM_STORED) refused.append(requests.keys[i]);
  }
  return refused;
}

// Runs the action for each key, and counts the replies that have the code.
std::size_t count_of(Store& s, nb::iterable keys, std::uint32_t action, std::int64_t ttl_s, tandem_code wanted) {
  Requests requests;
  for (nb::handle key : keys) requests.add(nb::borrow(key), action).ttl_s = ttl_s;
  std::vector<tandem_code> codes(requests.all.size());
  run(s, requests, note_code, &codes);
  return static_cast<std::size_t>(std::count(codes.begin(), codes.end(), wanted));
}

std::size_t delete_many(Store& s, nb::iterable keys) {
  s.open();
  return count_of(s, keys, TANDEM_REMOVE, 0, TANDEM_REMOVED);
}

std::size_t touch_many(Store& s, nb::iterable keys, nb::handle ttl) {
  s.open();
  return count_of(s, keys, TANDEM_TOUCH, ttl_of(ttl), TANDEM_HIT);
}

nb::object stats(Store& s) {
  tandem_stats now;
  tandem_get_stats(s.open(), &now, sizeof now);
  return nb::handle(types().stats)(now.items, now.item_bytes, now.memory_used_bytes, now.memory_limit_bytes,
                                   now.index_bytes, now.gets, now.hits, now.misses, now.stores, now.evictions,
                                   now.expired);
}

// Counts a small store's items, as the statistics know of those that are gone only when their memory is taken back.
std::size_t length(Store& s) {
  constexpr std::uint64_t to_count = 1 << 16;
  tandem_store* const store = s.open();
  tandem_stats now;
  tandem_get_stats(store, &now, sizeof now);
  if (now.items > to_count) return now.items;
  std::size_t count = 0;
  tandem_code code = 0;
  {
    const Store::LetGo let_go(s, now.items >= keys_to_let_go);
    code = tandem_for_each(
        store, [](void* to, const char*, std::size_t, const tandem_reply*) { ++*static_cast<std::size_t*>(to); }, &count);
  }
  if (code != TANDEM_HIT) raise_code(code);
  return count;
}

}  // namespace

void define_many(nb::module_&, nb::class_<Store>& type) {
  type.def("get_many", &get_many, nb::arg("keys"),
           nb::sig("def get_many(self, keys: collections.abc.Iterable[_Key]) -> dict[_Key, bytes]"),
           "The values of the keys that have one, by the keys as given.")
      .def("set_many", &set_many, nb::arg("items"), nb::arg("ttl") = nb::none(),
           nb::sig("def set_many(self, items: collections.abc.Mapping[_Key, typing_extensions.Buffer] | "
                   "collections.abc.Iterable[tuple[_Key, typing_extensions.Buffer]], "
                   "ttl: float | datetime.timedelta | None = None) -> list[_Key]"),
           "Stores the values, in order, and returns the keys that were not stored: too large, or no room.")
      .def("delete_many", &delete_many, nb::arg("keys"),
           nb::sig("def delete_many(self, keys: collections.abc.Iterable[str | bytes]) -> int"),
           "Removes the items and returns how many there were.")
      .def("touch_many", &touch_many, nb::arg("keys"), nb::arg("ttl").none(),
           nb::sig("def touch_many(self, keys: collections.abc.Iterable[str | bytes], "
                   "ttl: float | datetime.timedelta | None) -> int"),
           "Gives the items another ttl and returns how many there were.")
      .def("stats", &stats, nb::sig("def stats(self) -> tandem._types.Stats"), "What the store holds and has done.")
      .def("__len__", &length, nb::sig("def __len__(self) -> int"),
           "How many items there are. Above 65,536 they are not counted: those that have expired or were cleared belong to "
           "it until their memory is taken back.")
      .def("clear", [](Store& s) { tandem_clear(s.open()); }, nb::sig("def clear(self) -> None"),
           "Removes every item.");
}

}  // namespace tandem::python
