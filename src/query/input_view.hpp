// A batch's queries and their input as a kernel sees them, and nothing that knows a processor (as cell.hpp). A query
// points to its key with the host's address; where the kernel finds it is that address's distance from the arena's, in
// the arena as the device has it.
#pragma once
#include <cstdint>
#include <type_traits>

#include "device/device_ptr.hpp"
#include "index/cuckoo/cell.hpp"
#include "query/query.hpp"

namespace tandem {

struct InputView {
  const Query* queries;
  const char* arena;
  std::uint64_t arena_bytes;
  std::uint64_t host_address;  // of the arena

  // Where `bytes` bytes lie that the host has at `p`. nullptr: outside the arena, where no device can read them.
  TD_WORD const char* find(const char* p, std::uint64_t bytes) const {
    const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(p) - host_address;
    return bytes <= arena_bytes && offset <= arena_bytes - bytes ? arena + offset : nullptr;
  }
  TD_WORD const char* key(std::uint64_t i) const { return find(queries[i].key, queries[i].key_bytes); }
  TD_WORD const char* value(std::uint64_t i) const { return find(queries[i].value, queries[i].value_bytes); }
};
static_assert(std::is_trivially_copyable_v<InputView>);

// The same as the host names them.
struct DeviceInput {
  DevicePtr<const Query> queries;
  DevicePtr<const char> arena;
  std::uint64_t arena_bytes = 0;
  std::uint64_t host_address = 0;
};

}  // namespace tandem
