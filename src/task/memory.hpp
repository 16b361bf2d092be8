// MM: slots for the items that the strip's queries will write, and the eviction that frees them (Mega-KV 7.2: batched
// allocation and eviction, CLOCK).
//
// Eviction runs outside any epoch: inside one, a worker would block the reuse of the slots that it evicts.
#pragma once
#include "task/context.hpp"
#include "task/strip_state.hpp"

namespace tandem::task {

// Prepares a slot for every query of the strip that will write an item, except sets that will probably rewrite an item
// in place. Cuts the strip at the first query for which no slot is available, so that the earlier ones can end their
// epoch. Inside an epoch it takes only free slots. Outside it also evicts, and never cuts before the strip's first
// query, which gets a slot or a reason in state.refused. REQUIRES: fingerprint() was called.
void prepare_writes(Context& context, Batch& batch, StripState& state) noexcept;
TD_INLINE void memory(Context& context, Batch& batch, StripState& state) noexcept {
  state.has_hits = false;
  if (TD_UNLIKELY(!state.plain_reads)) prepare_writes(context, batch, state);
}

// A slot for an item of so many bytes, evicting as the policy allows. no_location: nothing can be freed. REQUIRES: no
// epoch, cache not locked. `wait`: also waits for other workers' epochs; without it the call returns quickly.
Location allocate(Context& context, std::uint64_t item_bytes, bool wait) noexcept;

// Maximum number of slots that a sweep examines before its caller tries to allocate again.
inline constexpr std::size_t slots_per_sweep = 16 * 1024;
// Sweeps of a class in which CLOCK's hand surely comes to each of its items twice: it spares an item once.
constexpr std::uint64_t sweeps_of_two_turns(std::uint64_t slots) noexcept { return 2 + 2 * slots / slots_per_sweep; }

// Unlinks and retires up to `victims_max` items of the class that CLOCK chooses (with `garbage_only`, only expired and
// flushed ones). Returns their number. REQUIRES: no epoch.
std::size_t evict(Context& context, SizeClass c, std::size_t victims_max, bool garbage_only) noexcept;

// Makes retired slots free that no batch sees any more. Returns their number.
std::size_t reclaim(Context& context) noexcept;

// Reclaims expired and flushed items in at most `slots_max` of the page's slots, from `first_slot` on.
struct Reclaimed {
  std::uint32_t checked, reclaimed;  // items
  std::uint32_t next_slot;           // where to continue; 0: the page is done
};
Reclaimed reclaim_garbage(Context& context, PageId page, std::uint32_t first_slot, std::uint32_t slots_max) noexcept;

// Shortens the strip to end before query `end`, giving back the slots prepared for the rest.
void cut(Context& context, Batch& batch, StripState& state, std::uint32_t end) noexcept;

// After the strip's last query has its result: retires displaced items and returns unused slots.
void release_write_slots(Context& context, StripState& state) noexcept;
TD_INLINE void release_slots(Context& context, StripState& state) noexcept {
  if (TD_UNLIKELY(!state.plain_reads)) release_write_slots(context, state);
}

// The same for task::execute(), but for displaced items: those are retired together, before the epoch ends.
TD_INLINE void release_slots_of_one(Context& context, StripState& state) noexcept {
  if (state.plain_reads) return;
  if (TD_UNLIKELY(state.slot[0] != no_location || state.fill[0] != no_location)) release_write_slots(context, state);
}

// Retired bytes after which an epoch ends, so that other workers can use them.
inline constexpr std::uint64_t retired_bytes_per_epoch_max = 1 << 20;
// Stores between two checks whether the index should grow, each of which sums counters.
inline constexpr std::uint64_t stores_per_growth_check = 256;

}  // namespace tandem::task
