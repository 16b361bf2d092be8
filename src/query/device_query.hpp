// A query as a device reads it, independent of the processor (like cell.hpp): the fields that kernels need, with key
// and value as offsets into the batch's input. Fingerprints and locations are separate columns (DIDO III-A: only what a
// task of a batch needs is moved).
#pragma once
#include <cstdint>
#include <type_traits>

#include "query/query.hpp"

namespace tandem {

struct DeviceQuery {
  // Instead of an offset: the bytes are outside the devices' memory, and the query is left to the host.
  static constexpr std::uint32_t outside = UINT32_MAX;

  std::uint32_t key_at, value_at;  // bytes from the beginning of the batch's input; or `outside`
  std::uint32_t value_bytes;
  std::uint8_t key_bytes;
  Opcode opcode;
  std::uint16_t options;  // option::*
};
static_assert(sizeof(DeviceQuery) == 16 && std::is_trivially_copyable_v<DeviceQuery>);

}  // namespace tandem
