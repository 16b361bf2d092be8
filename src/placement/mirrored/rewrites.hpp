// What a set that rewrites an item in place does beside that, for a device's replica.
#pragma once
#include <cstdint>

namespace tandem {

enum class Rewrites : std::uint8_t {
  unseen,     // nothing: no device has, or gets, copies of the values
  marked,     // marks its item: a replica with copies rests
  announced,  // announces it in the index's log, under the key's stripe: a replica has copies, or answers that are
              // known by them to be current
};

}  // namespace tandem
