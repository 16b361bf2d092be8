// A query as a device reads it, and nothing that knows a processor (as cell.hpp): what kernels need of it, with its key
// and value as offsets into the batch's input. Fingerprints and locations are columns of their own (DIDO III-A: what a
// task of a batch needs is what is moved, and no more).
#pragma once
#include <cstdint>
#include <type_traits>

#include "query/query.hpp"

namespace tandem {

struct DeviceQuery {
  // Instead of an offset: the bytes lie where no device reads them, and the query is the host's.
  static constexpr std::uint32_t outside = UINT32_MAX;

  std::uint32_t key_at, value_at;  // bytes from the begin of the batch's input; `outside`
  std::uint32_t value_bytes;
  std::uint8_t key_bytes;
  Opcode opcode;
  std::uint16_t options;  // option::*
};
static_assert(sizeof(DeviceQuery) == 16 && std::is_trivially_copyable_v<DeviceQuery>);

}  // namespace tandem
