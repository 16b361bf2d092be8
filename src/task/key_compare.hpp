// KC: does the candidate hold the query's key, and is it still good? Settles plain reads (DIDO III-A; Mega-KV 7.3
// `get`).
#pragma once
#include <cstring>

#include "task/context.hpp"
#include "task/strip_state.hpp"

namespace tandem::task {

// Settles all queries of a strip of plain reads. REQUIRES: inside an epoch, after search(), state.plain_reads.
void key_compare(Context& context, Batch& batch, StripState& state) noexcept;

// Settles one plain read (Opcode::get without touch, vivify or recache), or a debug query.
void key_compare_one(Context& context, Batch& batch, StripState& state, std::uint32_t i) noexcept;

// Marks a hit in the item's header: CLOCK's bit, "fetched", and the access second when it is older than a minute. A hit
// on an item that was hit lately writes nothing. Loses silently against a concurrent change of the word: it is a hint.
TD_INLINE void mark_access(Item* item, std::uint64_t state, std::uint32_t now_s,
                           std::uint64_t bits = word::Accessed::mask | word::Fetched::mask) noexcept {
  constexpr std::uint64_t refresh_s = 60;
  const std::uint64_t age_s = (now_s - word::AccessS::get(state)) & word::AccessS::limit;
  if (TD_LIKELY((state & bits) == bits && age_s < refresh_s)) return;
  std::uint64_t now = state | bits;
  if (age_s >= refresh_s) now = word::AccessS::put(now, now_s);
  item->state_word.compare_exchange_strong(state, now, std::memory_order_relaxed, std::memory_order_relaxed);
}

// Equality of a query's key with an item's, cheap for the short keys that caches hold: two overlapping words up to 16
// bytes, four up to 32.
TD_INLINE bool keys_equal(const char* a, const char* b, std::size_t n) noexcept {
  const auto differ = [a, b]<class Word>(Word, std::size_t at) {
    Word x, y;
    std::memcpy(&x, a + at, sizeof x);
    std::memcpy(&y, b + at, sizeof y);
    return x ^ y;
  };
  constexpr std::uint64_t word8 = 0;
  constexpr std::uint32_t word4 = 0;
  if (n >= 8) {
    if (n <= 16) return (differ(word8, 0) | differ(word8, n - 8)) == 0;
    if (n <= 32) return (differ(word8, 0) | differ(word8, 8) | differ(word8, n - 16) | differ(word8, n - 8)) == 0;
    return std::memcmp(a, b, n) == 0;
  }
  if (n >= 4) return (differ(word4, 0) | differ(word4, n - 4)) == 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

}  // namespace tandem::task
