// Eviction: what CLOCK or the index gives up, unlinked and retired (Mega-KV 7.2).
//
// It runs outside any epoch: a worker inside one could never get back what it has just evicted.
#pragma once
#include <chrono>
#include <cstddef>
#include <span>

#include "task/context.hpp"

namespace tandem::task {

// Victims of one sweep: enough to hide the misses of unlinking them behind each other, and one magazine of slots.
inline constexpr std::size_t victims_per_sweep_max = 64;
inline constexpr std::uint64_t victim_bytes_per_sweep = 256 * 1024;
// A sweep looks at no more slots than this before it lets its caller try again.
inline constexpr std::size_t slots_per_sweep = 16 * 1024;
// How long an allocation waits for other workers' batches to end before the store counts as full.
inline constexpr auto epoch_wait_max = std::chrono::seconds(2);

enum class Mercy : std::uint8_t { spare_good, spare_used, none };

// Unlinks the victims that are still there, sparing what became good or used again since they were chosen, and retires
// them. `probation_failed`: their keys are to be remembered. REQUIRES: inside the epoch in which they were found.
std::size_t unlink(Context& context, std::span<const Location> victims, Mercy mercy,
                   bool probation_failed = false) noexcept;

// Unlinks up to `victims_max` items of the class that CLOCK gives up (with `garbage_only`, just expired and flushed
// ones) and retires them. Returns how many. REQUIRES: no epoch.
std::size_t evict(Context& context, SizeClass c, std::size_t victims_max, bool garbage_only) noexcept;

// Of a page's slots from `first_slot` on, at most `slots_max`: gives back the items that are expired or flushed.
struct Reclaimed {
  std::uint32_t checked, reclaimed;  // items
  std::uint32_t next_slot;           // where to go on; 0: the page is done
};
Reclaimed reclaim_garbage(Context& context, PageId page, std::uint32_t first_slot, std::uint32_t slots_max) noexcept;

// Gives back what this worker has retired, as far as its epoch is over. Returns how many slots. REQUIRES: no Guard
// held.
std::size_t reclaim(Context& context) noexcept;

// Room in the buckets of `f` after an insertion found none and no displacement path: waits for the index to grow, or,
// if it cannot, evicts one of the items there. False: neither worked in time. REQUIRES: no epoch, no Guard held.
bool make_index_room(Context& context, Fingerprint f) noexcept;

}  // namespace tandem::task
