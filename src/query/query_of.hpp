// For tests: a query whose strings are the caller's.
#pragma once
#include <string_view>

#include "query/query.hpp"

namespace tandem {

inline Query query_of(Opcode opcode, std::string_view key, std::string_view value = {}) {
  Query q{};
  q.opcode = opcode;
  q.key = key.data();
  q.key_bytes = static_cast<std::uint8_t>(key.size());
  q.value = value.data();
  q.value_bytes = static_cast<std::uint32_t>(value.size());
  return q;
}

}  // namespace tandem
