// The bytes of keys and values, which follow from a key's number and the seed alone: whoever reads a value can tell
// whether it is right.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "workload/spec.hpp"

namespace tandem::workload {

// Thread safety: immutable.
class KeySpace {
 public:
  explicit KeySpace(const Spec& spec);

  std::uint32_t key_bytes(std::uint64_t key) const noexcept;
  std::uint32_t value_bytes(std::uint64_t key) const noexcept;
  // Writes key_bytes(key) bytes, without spaces or control characters; returns the end.
  char* write_key(std::uint64_t key, char* out) const noexcept;
  // Writes value_bytes(key) bytes, any 8-bit values; returns the end.
  char* write_value(std::uint64_t key, char* out) const noexcept;
  bool is_key(std::uint64_t key, std::string_view bytes) const noexcept;
  bool is_value(std::uint64_t key, std::string_view bytes) const noexcept;

 private:
  Sizes key_sizes_, value_sizes_;
  std::uint64_t seed_;
};

}  // namespace tandem::workload
