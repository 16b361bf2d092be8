// include/tandem/tandem.h over the embedded store: exceptions and C++ types never cross it.
#include "embedded/c_store.hpp"

#include <tandem/tandem.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/large_copy.hpp"
#include "base/platform.hpp"
#include "embedded/session.hpp"
#include "heap/memory_file.hpp"
#include "index/scan.hpp"

namespace tandem {
namespace {

constexpr unsigned number_of(Action action) { return static_cast<unsigned>(action); }
static_assert(number_of(Action::get) == TANDEM_GET && number_of(Action::touch) == TANDEM_TOUCH &&
              number_of(Action::set) == TANDEM_SET && number_of(Action::add) == TANDEM_ADD &&
              number_of(Action::replace) == TANDEM_REPLACE && number_of(Action::append) == TANDEM_APPEND &&
              number_of(Action::prepend) == TANDEM_PREPEND &&
              number_of(Action::compare_and_set) == TANDEM_COMPARE_AND_SET &&
              number_of(Action::remove) == TANDEM_REMOVE && number_of(Action::increment) == TANDEM_INCREMENT &&
              number_of(Action::decrement) == TANDEM_DECREMENT &&
              number_of(Action::compare_and_remove) == TANDEM_COMPARE_AND_REMOVE &&
              number_of(Action::exchange) == TANDEM_EXCHANGE && number_of(Action::take) == TANDEM_TAKE);
// The layouts that programs were compiled with. Changing them needs a new soname; the options may grow at their end.
static_assert(offsetof(tandem_options, ordered) == 56 && sizeof(tandem_options) == 104 && sizeof(tandem_value) == 40 &&
              sizeof(tandem_request) == 64 && sizeof(tandem_reply) == 40 && sizeof(tandem_stats) == 96 &&
              sizeof(tandem_range) == 40 && sizeof(tandem_scanned) == 272 && sizeof(tandem_range_scan) == 320 &&
              sizeof(tandem_keys) == 32);

#define TANDEM_TEXT_OF(number) #number
#define TANDEM_TEXT(number) TANDEM_TEXT_OF(number)
static_assert(std::string_view(TANDEM_VERSION) == TANDEM_TEXT(TANDEM_VERSION_MAJOR) "." TANDEM_TEXT(
                                                      TANDEM_VERSION_MINOR) "." TANDEM_TEXT(TANDEM_VERSION_PATCH));

Request request_of(const tandem_request& r) noexcept {
  return {.action = static_cast<Action>(r.action),
          .key = view(r.key, r.key_bytes),
          .value = view(r.value, r.value_bytes),
          .ttl_s = r.ttl_s,
          .flags = r.flags,
          .cas = r.cas,
          .delta = r.delta};
}

tandem_reply reply_of(const Reply& r) noexcept {
  return {.code = c_code_of(r.code),
          .flags = r.flags,
          .value = r.value.data(),
          .value_bytes = r.value.size(),
          .cas = r.cas,
          .number = r.number};
}

// Whether the range is one that this version knows.
bool is_known(const tandem_range& r) noexcept {
  return std::all_of(std::begin(r.reserved), std::end(r.reserved), [](std::uint8_t byte) { return byte == 0; });
}

KeyRange range_of(const tandem_range& r) noexcept {
  return {.begin = view(r.begin, r.begin_bytes),
          .end = view(r.end, r.end_bytes),
          .after_begin = r.after_begin != 0,
          .reverse = r.reverse != 0};
}

// Runs body(), which throws std::logic_error without an order.
template <class F>
tandem_code guarded_scan(F&& body) noexcept {
  return guarded([&] {
    try {
      body();
    } catch (const std::logic_error&) {
      return tandem_code{TANDEM_NOT_ORDERED};
    }
    return tandem_code{TANDEM_HIT};
  });
}

// The same of body(KeyRange).
template <class F>
tandem_code scan_range(const tandem_range* range, F&& body) noexcept {
  const tandem_range r = range != nullptr ? *range : tandem_range{};
  if (!is_known(r)) return TANDEM_BAD_REQUEST;
  return guarded_scan([&] { body(range_of(r)); });
}

tandem_reply reply_of(const ScannedItem& item) noexcept {
  return {.code = TANDEM_HIT,
          .flags = item.flags,
          .value = item.value.data(),
          .value_bytes = item.value.size(),
          .cas = item.cas,
          .number = 0};
}

// Leaves `last` as it is if the scan is done.
void tell(tandem_scanned& to, const Scanned& end) noexcept {
  to.count = end.count;
  to.done = end.done ? 1 : 0;
  if (!end.done) to.last_bytes = static_cast<std::uint32_t>(end.last.copy(to.last, sizeof to.last));
}

// C++'s form of a batch, which tells C's of the scans that were made.
struct ScanBatch {
  static constexpr std::size_t not_made = ~std::size_t{0};
  explicit ScanBatch(std::span<tandem_range_scan> batch) : told(batch) {
    scans.reserve(batch.size());
    for (const tandem_range_scan& s : batch)
      scans.push_back(
          {.range = range_of(s.range), .limit = static_cast<std::size_t>(s.limit), .scanned = {.count = not_made}});
  }
  ScanBatch(const ScanBatch&) = delete;
  ScanBatch& operator=(const ScanBatch&) = delete;
  ~ScanBatch() {
    for (std::size_t i = 0; i < scans.size() && scans[i].scanned.count != not_made; ++i) {
      tell(told[i].scanned, scans[i].scanned);
    }
  }
  std::span<tandem_range_scan> told;
  std::vector<RangeScan> scans;
};

// The fields that both versions of a growing structure know, over the defaults.
tandem_options known_part(const tandem_options& given);

tandem_options defaults() noexcept {
  const Options o;
  return {.struct_bytes = sizeof(tandem_options),
          .memory_bytes = o.memory_bytes,
          .item_bytes_max = o.item_bytes_max,
          .hash_seed = o.hash_seed,
          .memory_file = nullptr,
          .item_bytes_expected = o.item_bytes_expected,
          .threads_max = o.threads_max,
          .evict = o.evict,
          .huge_pages = o.huge_pages,
          .ordered = o.ordered,
          .arrange = o.arrange,
          .gpu_value_bytes = o.gpu_value_bytes,
          .gpu = nullptr,
          .preset = nullptr,
          .gpus = o.gpus,
          .reserved = 0,
          .index = nullptr};
}

tandem_options known_part(const tandem_options& given) {
  // No version's size: memory that tandem_options_init() has not seen.
  constexpr std::size_t least = offsetof(tandem_options, item_bytes_max), most = 4096;
  if (given.struct_bytes < least || given.struct_bytes > most || given.struct_bytes % alignof(tandem_options) != 0)
    throw std::invalid_argument("options were not initialised: call tandem_options_init()");
  // Fields that only a newer program knows must be 0.
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&given);
  for (std::size_t i = sizeof given; i < given.struct_bytes; ++i) {
    if (bytes[i] != 0) throw std::invalid_argument("an option that this version of the library does not know is set");
  }
  tandem_options known = defaults();
  std::memcpy(&known, &given, std::min(given.struct_bytes, sizeof known));
  return known;
}

Options store_options(const tandem_options& o) {
  if (o.reserved != 0) throw std::invalid_argument("an option that this version of the library does not know is set");
  Options options{.memory_bytes = o.memory_bytes,
                  .item_bytes_max = o.item_bytes_max,
                  .item_bytes_expected = o.item_bytes_expected,
                  .threads_max = o.threads_max,
                  .evict = o.evict != 0,
                  .huge_pages = o.huge_pages != 0,
                  .ordered = o.ordered != 0,
                  .arrange = o.arrange != 0,
                  .memory_file = o.memory_file != nullptr ? o.memory_file : "",
                  .hash_seed = o.hash_seed,
                  .gpus = o.gpus,
                  .gpu_value_bytes = o.gpu_value_bytes};
  if (o.gpu != nullptr) options.gpu = o.gpu;
  if (o.preset != nullptr) options.preset = o.preset;
  if (o.index != nullptr) options.index = o.index;
  return options;
}

void say(char* error, std::size_t error_bytes, const char* what) noexcept {
  if (error == nullptr || error_bytes == 0) return;
  const std::size_t length = std::min(std::strlen(what), error_bytes - 1);
  std::memcpy(error, what, length);
  error[length] = 0;
}

// Runs one request and passes its reply to `take`, which returns the code.
template <class Take>
tandem_code run_one(tandem_store* store, const Request& request, Take take) noexcept {
  return guarded([&] {
    tandem_code code = TANDEM_OUT_OF_MEMORY;
    OneCall::execute(store->store.here(), request, [&](const Reply& reply) { code = take(reply); });
    return code;
  });
}

tandem_code run_one(tandem_store* store, const Request& request) noexcept {
  return run_one(store, request, [](const Reply& reply) { return c_code_of(reply.code); });
}

TD_NOINLINE bool grow(tandem_value& value, std::size_t bytes) noexcept {
  const std::size_t capacity = std::max<std::size_t>(bytes, 16);
  void* const grown = std::realloc(value.bytes, capacity);
  if (grown == nullptr) return false;
  value.bytes = static_cast<char*>(grown);
  value.capacity = capacity;
  return true;
}

// Copies the value of a reply that has one. Returns the call's code.
TD_INLINE tandem_code keep_value(tandem_value* value, const Reply& reply) noexcept {
  if ((reply.code != Code::hit && reply.code != Code::removed) || value == nullptr) return c_code_of(reply.code);
  if (TD_UNLIKELY(reply.value.size() > value->capacity || value->bytes == nullptr) && !grow(*value, reply.value.size()))
    return TANDEM_OUT_OF_MEMORY;
  if (!reply.value.empty()) copy_from_heap(value->bytes, reply.value.data(), reply.value.size());
  value->size = reply.value.size();
  value->cas = reply.cas;
  value->flags = reply.flags;
  return c_code_of(reply.code);
}

tandem_code run_for_value(tandem_store* store, const Request& request, tandem_value* value) noexcept {
  return run_one(store, request, [value](const Reply& reply) { return keep_value(value, reply); });
}

tandem_code count(tandem_store* store, const Request& request, std::uint64_t* number) noexcept {
  return run_one(store, request, [number](const Reply& reply) {
    if (reply.code == Code::hit && number != nullptr) *number = reply.number;
    return c_code_of(reply.code);
  });
}

}  // namespace
}  // namespace tandem

using namespace tandem;  // NOLINT(google-build-using-namespace): the rest is the C API

extern "C" {

const char* tandem_version(void) { return TANDEM_VERSION; }

void tandem_options_init(tandem_options* options, size_t struct_bytes) {
  std::memset(static_cast<void*>(options), 0, struct_bytes);
  tandem_options known = defaults();
  known.struct_bytes = struct_bytes;
  std::memcpy(options, &known, std::min(struct_bytes, sizeof known));
}

tandem_store* tandem_open(const tandem_options* options, char* error, size_t error_bytes) {
  const auto failed = [&](int number, const char* what) {
    say(error, error_bytes, what);
    errno = number;
    return nullptr;
  };
  try {
    say(error, error_bytes, "");
    return new tandem_store(store_options(options != nullptr ? known_part(*options) : defaults()));
  } catch (const std::invalid_argument& bad) {
    return failed(EINVAL, bad.what());
  } catch (const std::bad_alloc& none) {
    return failed(ENOMEM, none.what());
  } catch (const std::system_error& system) {
    return failed(system.code().value(), system.what());
  } catch (const MemoryFileError& file) {
    return failed(EIO, file.what());
  } catch (const std::exception& other) {
    return failed(ENODEV, other.what());
  }
}

void tandem_close(tandem_store* store) { delete store; }

tandem_code tandem_get(tandem_store* store, const char* key, size_t key_bytes, tandem_value* value) {
  return guarded([&] {
    tandem_code code = TANDEM_OUT_OF_MEMORY;
    OneCall::get(store->store.here(), view(key, key_bytes),
                 [&](const Reply& reply) { code = keep_value(value, reply); });
    return code;
  });
}

void tandem_value_free(tandem_value* value) {
  std::free(value->bytes);
  *value = {};
}

tandem_code tandem_set(tandem_store* store, const char* key, size_t key_bytes, const char* value, size_t value_bytes,
                       int64_t ttl_s, uint32_t flags) {
  return run_one(store, {.action = Action::set,
                         .key = view(key, key_bytes),
                         .value = view(value, value_bytes),
                         .ttl_s = ttl_s,
                         .flags = flags});
}

tandem_code tandem_add(tandem_store* store, const char* key, size_t key_bytes, const char* value, size_t value_bytes,
                       int64_t ttl_s, uint32_t flags) {
  return run_one(store, {.action = Action::add,
                         .key = view(key, key_bytes),
                         .value = view(value, value_bytes),
                         .ttl_s = ttl_s,
                         .flags = flags});
}

tandem_code tandem_replace(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                           size_t value_bytes, int64_t ttl_s, uint32_t flags) {
  return run_one(store, {.action = Action::replace,
                         .key = view(key, key_bytes),
                         .value = view(value, value_bytes),
                         .ttl_s = ttl_s,
                         .flags = flags});
}

tandem_code tandem_append(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                          size_t value_bytes) {
  return run_one(store, {.action = Action::append, .key = view(key, key_bytes), .value = view(value, value_bytes)});
}

tandem_code tandem_prepend(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                           size_t value_bytes) {
  return run_one(store, {.action = Action::prepend, .key = view(key, key_bytes), .value = view(value, value_bytes)});
}

tandem_code tandem_compare_and_set(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                                   size_t value_bytes, uint64_t cas, int64_t ttl_s, uint32_t flags) {
  return run_one(store, {.action = Action::compare_and_set,
                         .key = view(key, key_bytes),
                         .value = view(value, value_bytes),
                         .ttl_s = ttl_s,
                         .flags = flags,
                         .cas = cas});
}

tandem_code tandem_remove(tandem_store* store, const char* key, size_t key_bytes) {
  return run_one(store, {.action = Action::remove, .key = view(key, key_bytes)});
}

tandem_code tandem_touch(tandem_store* store, const char* key, size_t key_bytes, int64_t ttl_s) {
  return run_one(store, {.action = Action::touch, .key = view(key, key_bytes), .ttl_s = ttl_s});
}

tandem_code tandem_increment(tandem_store* store, const char* key, size_t key_bytes, uint64_t delta, uint64_t* number) {
  return count(store, {.action = Action::increment, .key = view(key, key_bytes), .delta = delta}, number);
}

tandem_code tandem_decrement(tandem_store* store, const char* key, size_t key_bytes, uint64_t delta, uint64_t* number) {
  return count(store, {.action = Action::decrement, .key = view(key, key_bytes), .delta = delta}, number);
}

tandem_code tandem_execute(tandem_store* store, const tandem_request* requests, size_t request_count,
                           tandem_visitor visit, void* context) {
  const auto is_known = [](const tandem_request& r) { return r.action <= TANDEM_TAKE; };
  if (!std::all_of(requests, requests + request_count, is_known)) return TANDEM_BAD_REQUEST;
  return guarded([&] {
    constexpr std::size_t at_once = 256;  // on the stack
    std::array<Request, at_once> some;
    Session& session = store->store.here();
    for (std::size_t first = 0; first < request_count; first += at_once) {
      const std::size_t n = std::min(at_once, request_count - first);
      for (std::size_t i = 0; i < n; ++i) some[i] = request_of(requests[first + i]);
      session.execute(std::span(some.data(), n), [&](std::size_t i, const Reply& reply) {
        const tandem_reply told = reply_of(reply);
        visit(context, first + i, &told);
      });
    }
    return tandem_code{TANDEM_HIT};
  });
}

tandem_code tandem_for_each(tandem_store* store, tandem_item_visitor visit, void* context) {
  return guarded([&] {
    store->store.for_each([&](std::string_view key, const Reply& item) {
      const tandem_reply told = reply_of(item);
      visit(context, key.data(), key.size(), &told);
    });
    return tandem_code{TANDEM_HIT};
  });
}

void tandem_range_of_prefix(tandem_range* range, const char* prefix, size_t prefix_bytes, char* above) {
  if (prefix_bytes != 0) std::memcpy(above, prefix, prefix_bytes);
  *range = {.begin = prefix,
            .begin_bytes = prefix_bytes,
            .end = above,
            .end_bytes = end_of_prefix(above, prefix_bytes),
            .after_begin = 0,
            .reverse = 0,
            .reserved = {}};
}

void tandem_go_on_behind(tandem_range* range, const tandem_scanned* scanned) {
  KeyRange rest{.reverse = range->reverse != 0};
  rest.go_on_behind({scanned->last, scanned->last_bytes});
  if (rest.reverse) {
    range->end = rest.end.data();
    range->end_bytes = rest.end.size();
  } else {
    range->begin = rest.begin.data();
    range->begin_bytes = rest.begin.size();
    range->after_begin = 1;
  }
}

tandem_code tandem_scan(tandem_store* store, const tandem_range* range, size_t limit, tandem_item_visitor visit,
                        void* context, tandem_scanned* scanned) {
  if (limit == 0) return TANDEM_BAD_REQUEST;
  return scan_range(range, [&](const KeyRange& r) {
    const Scanned end = store->store.here().scan(r, limit, [&](const ScannedItem& item) {
      const tandem_reply told = reply_of(item);
      visit(context, item.key.data(), item.key.size(), &told);
    });
    if (scanned == nullptr) return;
    *scanned = {};
    tell(*scanned, end);
  });
}

tandem_code tandem_scan_batch(tandem_store* store, tandem_range_scan* scans, size_t scan_count,
                              tandem_batch_item_visitor visit, void* context) {
  const auto is_good = [](const tandem_range_scan& s) { return s.limit != 0 && is_known(s.range); };
  if (!std::all_of(scans, scans + scan_count, is_good)) return TANDEM_BAD_REQUEST;
  return guarded_scan([&] {
    ScanBatch batch(std::span(scans, scan_count));
    store->store.here().scan_batch(batch.scans, [&](std::size_t i, const ScannedItem& item) {
      const tandem_reply told = reply_of(item);
      visit(context, i, item.key.data(), item.key.size(), &told);
    });
  });
}

tandem_code tandem_remove_range(tandem_store* store, const tandem_range* range, uint64_t* removed) {
  return scan_range(range, [&](const KeyRange& r) {
    const std::uint64_t count = store->store.here().remove_range(r);
    if (removed != nullptr) *removed = count;
  });
}

tandem_code tandem_arrange(tandem_store* store, uint64_t* moved) {
  return scan_range(nullptr, [&](const KeyRange&) {
    const std::uint64_t count = store->store.here().arrange();
    if (moved != nullptr) *moved = count;
  });
}

void tandem_clear(tandem_store* store) { store->store.clear(); }

void tandem_get_stats(tandem_store* store, tandem_stats* stats, size_t struct_bytes) {
  const Stats s = store->store.stats();
  const tandem_stats known{.struct_bytes = struct_bytes,
                           .items = s.items,
                           .item_bytes = s.item_bytes,
                           .memory_used_bytes = s.memory_used_bytes,
                           .memory_limit_bytes = s.memory_limit_bytes,
                           .index_bytes = s.index_bytes,
                           .gets = s.gets,
                           .hits = s.hits,
                           .misses = s.misses,
                           .stores = s.stores,
                           .evictions = s.evictions,
                           .expired = s.expired};
  std::memset(static_cast<void*>(stats), 0, struct_bytes);
  std::memcpy(stats, &known, std::min(struct_bytes, sizeof known));
}

tandem_code tandem_exchange(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                            size_t value_bytes, int64_t ttl_s, uint32_t flags, tandem_value* old) {
  return run_for_value(store,
                       {.action = Action::exchange,
                        .key = view(key, key_bytes),
                        .value = view(value, value_bytes),
                        .ttl_s = ttl_s,
                        .flags = flags},
                       old);
}

tandem_code tandem_take(tandem_store* store, const char* key, size_t key_bytes, tandem_value* old) {
  return run_for_value(store, {.action = Action::take, .key = view(key, key_bytes)}, old);
}

}  // extern "C"
