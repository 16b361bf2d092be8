// tandem._core: the store for Python, over the C interface.
#include "errors.hpp"
#include "store.hpp"

namespace tandem::python {
namespace {

// Views over the items, as a dict has them.
void define_views(nb::class_<Store>& type) {
  type.def("keys", [](nb::handle self) { return nb::module_::import_("collections.abc").attr("KeysView")(self); },
           nb::sig("def keys(self) -> collections.abc.KeysView[str | bytes]"))
      .def("values", [](nb::handle self) { return nb::handle(types().store_values)(self); },
           nb::sig("def values(self) -> collections.abc.ValuesView[bytes]"))
      .def("items", [](nb::handle self) { return nb::handle(types().store_items)(self); },
           nb::sig("def items(self) -> collections.abc.ItemsView[str | bytes, bytes]"))
      .def("popitem",
           [](nb::handle self) -> nb::object {
             for (nb::handle key : nb::iter(self)) {
               nb::object value = self.attr("pop")(key, nb::none());
               if (!value.is_none()) return nb::make_tuple(key, value);
             }
             raise(PyExc_KeyError, "the store is empty");
           },
           nb::sig("def popitem(self) -> tuple[str | bytes, bytes]"), "Removes an item and returns it.");
  const nb::object mapping = nb::module_::import_("collections.abc").attr("MutableMapping");
  type.attr("update") = mapping.attr("update");
}

void refuse_subinterpreters() {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    raise(PyExc_ImportError, "tandem does not work in subinterpreters");
  }
}

}  // namespace
}  // namespace tandem::python

NB_MODULE(_core, module) {
  using namespace tandem::python;  // NOLINT(google-build-using-namespace)
  refuse_subinterpreters();
  load_types();
  module.attr("__version__") = tandem_version();
  nb::class_<Store> type(module, "Store", nb::type_slots(direct_slots()),
                         nb::sig("class Store(collections.abc.MutableMapping[str | bytes, bytes])"),
                         "A store in this process: a mapping from keys (str, as UTF-8, or bytes; 1 to 250 bytes) to "
                         "bytes. A full store evicts what was not used lately; items expire at their ttl. It may be "
                         "used from all threads at once.");
  define_opening(type);
  define_single(type);
  define_many(module, type);
  define_scans(module, type);
  define_rows(type);
  define_views(type);
  watch_process(module);
}
