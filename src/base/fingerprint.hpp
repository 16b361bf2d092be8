// The index's representation of a key (Mega-KV 4.1): a 32-bit signature, never 0 (0 marks an empty cell), and a 32-bit
// bucket hash.
#pragma once
#include <cstdint>

namespace tandem {

struct Fingerprint {
  std::uint32_t signature;
  std::uint32_t hash;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};
static_assert(sizeof(Fingerprint) == 8);

}  // namespace tandem
