// The bytes of keys and values follow from a key's number alone: any reader can tell whether a value is right, and runs
// with different seeds can share one filled server.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "bench/workload/spec.hpp"

namespace tandem::workload {

// A key of b bytes ends in the lowest 4 * min(b, 16) bits of its number in hexadecimal, padded with 'k' in front.
// 8-byte keys are unique below 2^32, keys of 9 .. 15 bytes below 2^36 .. 2^60, longer ones always. If sizes follow a
// model, numbers of one size differ in their digits and all other numbers in their length.
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
  // The number of the key with these bytes; nullopt: no number has it.
  std::optional<std::uint64_t> number_of(std::string_view bytes) const noexcept;

  std::uint64_t keys() const noexcept { return keys_; }  // without inserts
  const Sizes& value_sizes() const noexcept { return value_sizes_; }
  // Whether the order of the keys' bytes is that of their numbers.
  bool is_in_order() const noexcept { return key_sizes_.low == key_sizes_.high; }

 private:
  std::uint64_t keys_;
  Sizes key_sizes_, value_sizes_;
};

inline constexpr std::uint32_t key_bytes_min = 8, key_bytes_max = 250;

}  // namespace tandem::workload
