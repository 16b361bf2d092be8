// MM: slots for the items that queries will write, and the eviction that frees them (Mega-KV 7.2: batched eviction,
// CLOCK).
//
// Eviction runs outside any epoch: inside one, a worker would block the reuse of the slots that it evicts.
#pragma once
#include "task/context.hpp"
#include "task/query_state.hpp"

namespace tandem::task {

// Prepares a slot for the item that the query will write, except for a set that will probably rewrite an item in place.
// Outside an epoch it also evicts, and there is a slot or a reason in state.refused. Inside one it takes only free
// slots; false: there is none. REQUIRES: the query's fingerprint is in the batch's column.
bool prepare_write(Context& context, Batch& batch, QueryState& state) noexcept;

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

// Gives back what was prepared for a query that has not been executed. A value received earlier stays in the batch,
// where prepare_write() finds it again.
void release_unused(Context& context, const Batch& batch, QueryState& state) noexcept;

// When the query's result has been used: returns an unused slot. Displaced items are retired together, before the epoch
// ends.
void release_slot(Context& context, QueryState& state) noexcept;
TD_INLINE void release_slots(Context& context, QueryState& state) noexcept {
  if (TD_UNLIKELY(state.slot != no_location || state.fill != no_location)) release_slot(context, state);
}

// Retired bytes after which an epoch ends, so that other workers can use them.
inline constexpr std::uint64_t retired_bytes_per_epoch_max = 1 << 20;
// Stores between two checks whether the index should grow, each of which sums counters.
inline constexpr std::uint64_t stores_per_growth_check = 256;

}  // namespace tandem::task
