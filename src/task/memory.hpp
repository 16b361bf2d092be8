// MM: slots for what the strip's queries will write, and the eviction that frees them (Mega-KV 7.2: batched allocation
// and eviction, CLOCK).
//
// Eviction runs outside any epoch: a worker inside one could never get back what it has just evicted.
#pragma once
#include "task/context.hpp"
#include "task/strip_state.hpp"

namespace tandem::task {

// Prepares a slot for every query of the strip that will write an item, but for sets that will probably rewrite the
// item that is there; cuts the strip at the first one that needs a slot when none can be had at once, so that what
// stands before it can end its epoch. Inside an epoch it takes only what is free; outside it evicts, and the strip's
// first query is never cut: it gets its slot or a reason in state.refused. REQUIRES: fingerprint() was called.
void prepare_writes(Context& context, Batch& batch, StripState& state) noexcept;
TD_INLINE void memory(Context& context, Batch& batch, StripState& state) noexcept {
  state.displaced_count = state.published_count = 0;
  state.has_hits = false;
  if (TD_UNLIKELY(!state.plain_reads)) prepare_writes(context, batch, state);
}

// A slot for an item of so many bytes, evicting as the policy allows. no_location: nothing can be freed. REQUIRES: no
// epoch, cache not locked. `wait`: also waits for other workers' epochs; without it the call returns quickly.
Location allocate(Context& context, std::uint64_t item_bytes, bool wait) noexcept;

// Unlinks up to `victims_max` items of the class that CLOCK gives up (with `garbage_only`, just expired and flushed
// ones) and retires them. Returns how many. REQUIRES: no epoch.
std::size_t evict(Context& context, SizeClass c, std::size_t victims_max, bool garbage_only) noexcept;

// Of a page's slots from `first_slot` on, at most `slots_max`: gives back the items that are expired or flushed.
struct Reclaimed {
  std::uint32_t checked, reclaimed;  // items
  std::uint32_t next_slot;           // where to go on; 0: the page is done
};
Reclaimed reclaim_garbage(Context& context, PageId page, std::uint32_t first_slot, std::uint32_t slots_max) noexcept;

// Takes a page from the class that can best spare it, whose items move or are evicted, and gives it to class `to` (or,
// for huge_class, to the budget); or evicts a huge item, whose pages go to the budget. Returns how many pages there are
// to have; 0: none, or something holds it that does not end soon. Waits for the batches in flight. REQUIRES: no epoch.
std::uint64_t move_page(Context& context, SizeClass to, Heap::DonorRule rule) noexcept;
// The same with a page of class `from`, whatever that class makes of its pages, if it has more than one.
bool move_page(Context& context, SizeClass from, SizeClass to) noexcept;

// Shortens the strip to end before query `end`, giving back the slots prepared for the rest.
void cut(Context& context, Batch& batch, StripState& state, std::uint32_t end) noexcept;

// After the strip's last query is settled: retires what its writes displaced and gives back the slots they did not use.
// Returns the bytes of the slots that were retired.
std::uint64_t settle_writes(Context& context, StripState& state) noexcept;
TD_INLINE std::uint64_t settle_memory(Context& context, StripState& state) noexcept {
  return TD_LIKELY(state.plain_reads) ? 0 : settle_writes(context, state);
}

// A new key's item goes on probation; what replaces an item was asked for by its writer. REQUIRES: heap.probation().
inline void admit(Heap& heap, const StripState::Published& p) noexcept {
  const SizeClass c = heap.class_of(p.location);
  if (c == huge_class) return;
  if (p.is_new_key) {
    heap.probation()->admit(c, p.location, p.fingerprint, heap.slots_total(c));
  } else {
    heap.probation()->release(p.location);
  }
}

// With so many bytes of retired slots an epoch ends: what others could use waits for it.
inline constexpr std::uint64_t retired_bytes_per_epoch_max = 1 << 20;
// After so many stores somebody asks whether the index is to grow, which takes a sum over counters.
inline constexpr std::uint64_t stores_per_growth_check = 256;

// Room in the buckets of `f` after an insertion found none and no displacement path: waits for the index to grow, or,
// if it cannot, evicts one of the items there. False: neither worked in time. REQUIRES: no epoch, no Guard held.
bool make_index_room(Context& context, Fingerprint f) noexcept;

}  // namespace tandem::task
