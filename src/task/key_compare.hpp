// Access marks of a hit on its item.
#pragma once
#include <span>

#include "task/context.hpp"
#include "task/query_state.hpp"

namespace tandem::task {

// Whether a hit has something to write: CLOCK's bit, "fetched", or the access second when it is older than a minute.
inline constexpr std::uint64_t access_marks = word::Accessed::mask | word::Fetched::mask;
inline constexpr std::uint64_t access_refresh_s = 60;
TD_INLINE std::uint64_t access_age_s(std::uint64_t state, std::uint32_t now_s) noexcept {
  return (now_s - word::AccessS::get(state)) & word::AccessS::limit;
}
TD_INLINE bool needs_mark(std::uint64_t state, std::uint32_t now_s, std::uint64_t bits = access_marks) noexcept {
  return (state & bits) != bits || access_age_s(state, now_s) >= access_refresh_s;
}

// Marks a hit in the item's header; writes nothing if the marks are recent. A concurrent change of the word discards
// the mark, which is only a hint.
TD_INLINE void mark_access(Item* item, std::uint64_t state, std::uint32_t now_s,
                           std::uint64_t bits = access_marks) noexcept {
  if (TD_LIKELY(!needs_mark(state, now_s, bits))) return;
  std::uint64_t now = state | bits;
  if (access_age_s(state, now_s) >= access_refresh_s) now = word::AccessS::put(now, now_s);
  item->state_word.compare_exchange_strong(state, now, std::memory_order_relaxed, std::memory_order_relaxed);
}

// The same for items that a device has read. REQUIRES: an epoch that was entered before it searched.
void mark_reads(const Shared& shared, std::span<const Location> items) noexcept;

}  // namespace tandem::task
