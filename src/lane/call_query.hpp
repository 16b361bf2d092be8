// Requests of an embedding program as queries, and results as its replies.
//
// Thread safety: any thread.
#pragma once
#include "base/clock.hpp"
#include "heap/item_rewrite.hpp"
#include "query/query.hpp"
#include "tandem/store.hpp"

namespace tandem::lane {

inline bool is_good_key(std::string_view key) noexcept { return key.size() - 1 < key_bytes_max; }
inline std::uint16_t options_of(KeyCheck check) noexcept {
  return check == KeyCheck::caller ? option::caller_compares : std::uint16_t{0};
}

// Of a request with a key that no item can have: opcode nothing.
void fill(Query& q, const Request& request, const Clock& clock) noexcept;

// The most bytes of a key and a value that are copied for the visitor.
inline constexpr std::size_t copied_bytes_max = key_bytes_max + rewritten_value_bytes_max;
// The reply to a hit. A set may rewrite a short value while the visitor reads it, so that is copied, with its key
// before it, to `*copy`, which is advanced past it. A longer one is stable in the epoch of the query.
void fill_hit(Reply& reply, const Item* item, std::uint64_t found_state, std::uint64_t value_bytes,
              char** copy) noexcept;
// The reply to any query, likewise.
void fill_reply(Reply& reply, const Query& q, const Result& r, char** copy) noexcept;

}  // namespace tandem::lane
