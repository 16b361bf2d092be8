// Of include/tandem/tandem.h: batches of keys and values in the caller's arrays, and reads into its memory.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "base/large_copy.hpp"
#include "embedded/c_store.hpp"
#include "embedded/session.hpp"

namespace tandem {
namespace {

constexpr std::size_t rows_at_once = 1024;
constexpr std::size_t row_key_bytes_max = 250;

bool are_good(const tandem_keys& keys) noexcept { return keys.key_bytes - 1 < row_key_bytes_max; }

// Values that lie in an array.
template <class Byte>
struct Rows {
  Byte* first;
  std::size_t bytes;
  std::ptrdiff_t stride;
  Byte* at(std::size_t i) const noexcept { return first + static_cast<std::ptrdiff_t>(i) * stride; }
};

Rows<const char> keys_of(const tandem_keys& keys) noexcept {
  return {static_cast<const char*>(keys.bytes), keys.key_bytes, keys.stride};
}

// Calls run(first, count) for parts of the rows.
template <class Run>
tandem_code in_parts(const tandem_keys& keys, Run&& run) noexcept {
  if (!are_good(keys)) return TANDEM_BAD_KEY;
  return guarded([&] {
    for (std::size_t first = 0; first < keys.count; first += rows_at_once) {
      run(first, std::min(rows_at_once, keys.count - first));
    }
    return tandem_code{TANDEM_HIT};
  });
}

// Runs `all`, with the key of each row in its place, and calls visit(row, Reply).
template <class Fill, class Visit>
tandem_code execute_rows(tandem_store* store, const tandem_keys& keys, const Request& all, Fill fill,
                         Visit visit) noexcept {
  std::unique_ptr<Request[]> requests;
  const Rows<const char> key = keys_of(keys);
  return in_parts(keys, [&](std::size_t first, std::size_t count) {
    Session& session = store->store.here();
    if (!requests) {
      requests = std::make_unique_for_overwrite<Request[]>(count);
      std::fill_n(requests.get(), count, all);
    }
    for (std::size_t i = 0; i < count; ++i) {
      requests[i].key = {key.at(first + i), key.bytes};
      fill(requests[i], first + i);
    }
    session.execute(std::span<const Request>(requests.get(), count),
                    [&](std::size_t i, const Reply& reply) { visit(first + i, reply); });
  });
}

constexpr auto keep = [](Request&, std::size_t) {};

}  // namespace
}  // namespace tandem

using namespace tandem;  // NOLINT(google-build-using-namespace): the rest is the C API

extern "C" {

tandem_code tandem_get_into(tandem_store* store, const char* key, size_t key_bytes, void* out, size_t capacity,
                            tandem_reply* reply) {
  return guarded([&] {
    tandem_code code = TANDEM_OUT_OF_MEMORY;
    OneCall::get(store->store.here(), view(key, key_bytes), [&](const Reply& r) {
      code = c_code_of(r.code);
      if (r.code != Code::hit) return;
      if (r.value.size() > capacity) {
        code = TANDEM_TOO_LARGE;
      } else if (!r.value.empty()) {
        copy_from_heap(static_cast<char*>(out), r.value.data(), r.value.size());
      }
      if (reply == nullptr) return;
      *reply = {.code = code,
                .flags = r.flags,
                .value = static_cast<const char*>(out),
                .value_bytes = r.value.size(),
                .cas = r.cas,
                .number = 0};
    });
    return code;
  });
}

tandem_code tandem_get_rows(tandem_store* store, const tandem_keys* keys, void* values, size_t value_bytes,
                            ptrdiff_t value_stride, uint8_t* found, size_t* hits) {
  const Rows<const char> key = keys_of(*keys);
  const Rows<char> to{static_cast<char*>(values), value_bytes, value_stride};
  std::array<std::string_view, rows_at_once> views;
  std::size_t copied = 0;
  const tandem_code code = in_parts(*keys, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) views[i] = {key.at(first + i), key.bytes};
    store->store.here().get_batch(std::span(views.data(), count), [&](std::size_t i, const Reply& reply) {
      std::uint8_t seen = 0;
      if (reply.code == Code::hit) {
        seen = reply.value.size() == value_bytes ? 1 : 2;
        if (seen == 1 && value_bytes != 0) copy_from_heap(to.at(first + i), reply.value.data(), reply.value.size());
        copied += seen == 1;
      }
      if (found != nullptr) found[first + i] = seen;
    });
  });
  if (hits != nullptr) *hits = copied;
  return code;
}

tandem_code tandem_set_rows(tandem_store* store, const tandem_keys* keys, const void* values, size_t value_bytes,
                            ptrdiff_t value_stride, int64_t ttl_s, uint8_t* codes) {
  const Rows<const char> from{static_cast<const char*>(values), value_bytes, value_stride};
  return execute_rows(
      store, *keys, {.action = Action::set, .key = {}, .ttl_s = ttl_s},
      [&](Request& request, std::size_t i) { request.value = view(from.at(i), value_bytes); },
      [&](std::size_t i, const Reply& reply) {
        if (codes != nullptr) codes[i] = static_cast<std::uint8_t>(reply.code);
      });
}

tandem_code tandem_remove_rows(tandem_store* store, const tandem_keys* keys, uint8_t* found) {
  return execute_rows(store, *keys, {.action = Action::remove, .key = {}}, keep,
                      [&](std::size_t i, const Reply& reply) {
                        if (found != nullptr) found[i] = reply.code == Code::removed;
                      });
}

tandem_code tandem_touch_rows(tandem_store* store, const tandem_keys* keys, int64_t ttl_s, uint8_t* found) {
  return execute_rows(store, *keys, {.action = Action::touch, .key = {}, .ttl_s = ttl_s}, keep,
                      [&](std::size_t i, const Reply& reply) {
                        if (found != nullptr) found[i] = reply.code == Code::hit;
                      });
}

}  // extern "C"
