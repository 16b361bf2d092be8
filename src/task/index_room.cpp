#include "task/index_room.hpp"

#include <algorithm>
#include <chrono>

#include "base/yield.hpp"
#include "task/memory.hpp"

namespace tandem::task {
namespace {

using Steady = std::chrono::steady_clock;
using Leaves = Index::LeafSupply::State;

// How long an insertion waits for room before the store counts as full.
constexpr auto wait_max = std::chrono::seconds(2);
// After which a growth that is not refused does not come in time.
constexpr auto patience = std::chrono::milliseconds(100);
// Turns, each of a sweep's victims, in which CLOCK's choice has to empty leaves.
constexpr unsigned relief_turns_max = 32;
// Turns in which leaves are there, or are coming, and other threads may take them.
constexpr unsigned retries_max = 8;

// What an insertion without room does next.
enum class Next : std::uint8_t { retry, relieve, evict_any };

struct Candidate {
  Location location;
  std::uint64_t age;  // in CAS ids that were taken since it was stored
};

// Evicts one item from the buckets of `f`: room for an insertion in an index that cannot grow. Unread ones go first,
// and of those the one that was stored first. only_old: none of the newer half of what is stored. REQUIRES: inside an
// epoch, no Guard held.
bool evict_candidate(Context& context, Fingerprint f, std::string_view key, bool only_old) noexcept {
  Shared& shared = context.shared;
  Location locations[Index::candidates_max];
  Candidate candidates[Index::candidates_max];
  const std::uint32_t count = shared.index.candidates(f, key, locations);
  const std::uint64_t now = shared.cas_next.load(std::memory_order_relaxed);
  const std::uint64_t age_min = only_old ? shared.index.item_count() / 2 : 0;
  std::uint32_t old = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t age = (now - ItemVersion::of(shared.heap.at(locations[i])).cas()) & cas_limit;
    if (age >= age_min) candidates[old++] = {locations[i], age};
  }
  std::sort(candidates, candidates + old, [](const Candidate& a, const Candidate& b) { return a.age > b.age; });
  for (const Spare spare : {Spare::used, Spare::none}) {
    for (std::uint32_t i = 0; i < old; ++i) {
      if (shared.code.unlink(context, {&candidates[i].location, 1}, spare, false) != 0) return true;
    }
  }
  return false;
}

// Evicts any one item, while the tables are on devices that are full or have not caught up.
void make_room_elsewhere(Context& context) noexcept {
  Shared& shared = context.shared;
  shared.placement.reclaim_changes(context.cache, Overlay::Reclaim::all);
  if (!shared.placement.is_full() || !shared.policy.evict) return;
  for (std::uint32_t c = 0; c < shared.heap.class_count(); ++c) {
    if (evict(context, static_cast<SizeClass>(c), victims_per_sweep_max, false) != 0) return;
  }
  evict(context, huge_class, 1, false);
}

// Each class in proportion to its slots: the order's memory is the same for keys of all.
SizeClass next_class(Context& context) noexcept {
  const Heap& heap = context.shared.heap;
  std::uint64_t slots = 0;
  for (std::uint32_t c = 0; c < heap.class_count(); ++c) slots += heap.slots_total(static_cast<SizeClass>(c));
  // Multiples of the golden ratio are spread evenly.
  const std::uint32_t spread = ++context.relief_turn * 0x9e3779b9u;
  std::uint64_t at = slots * spread >> 32;
  for (std::uint32_t c = 0; c < heap.class_count(); ++c) {
    const std::uint64_t here = heap.slots_total(static_cast<SizeClass>(c));
    if (at < here) return static_cast<SizeClass>(c);
    at -= here;
  }
  return huge_class;
}

// Evicts items of CLOCK's choice, wherever their keys are, so that leaves become empty, and merges those.
void relieve_order(Context& context, std::size_t items) noexcept {
  constexpr unsigned in_vain_max = 4;  // CLOCK spares an item once
  Shared& shared = context.shared;
  for (unsigned in_vain = 0; items != 0 && in_vain < in_vain_max;) {
    const SizeClass c = next_class(context);
    const std::size_t evicted = evict(context, c, c == huge_class ? 1 : std::min(items, victims_per_sweep_max), false);
    in_vain = evicted != 0 ? 0 : in_vain + 1;
    items -= evicted;
  }
  shared.index.merge_fallen();
}

}  // namespace

bool make_index_room(Context& context, Fingerprint f, std::string_view key) noexcept {
  Shared& shared = context.shared;
  context.let_go();
  unsigned turns = 0, retries = 0;
  const auto start = Steady::now();
  do {
    context.enter();
    // Maintenance may be busy, or a leaf's memory not be there by the time that it looks.
    const bool is_late = shared.index.is_ordered() && Steady::now() - start > patience;
    const bool refused = !shared.index.grows() || shared.growth_refused.load(std::memory_order_relaxed) || is_late;
    const bool evicts = refused && shared.policy.evict;
    const bool has_room = shared.index.make_room(f, key);
    const std::uint32_t unpaid = evicts ? shared.index.take_unpaid_leaves() : 0;
    const bool asks = evicts && (!has_room || unpaid != 0);
    const Index::LeafSupply leaves = asks ? shared.index.leaf_supply() : Index::LeafSupply{};
    // A leaf's keys may all be new: one of them goes at once only if it is not, else only if nothing else helps.
    Next next = Next::evict_any;
    if (asks && shared.index.is_ordered()) {
      if (leaves.state == Leaves::none && turns++ < relief_turns_max) next = Next::relieve;
      if (leaves.state != Leaves::none && retries++ < retries_max) next = Next::retry;
    }
    const bool evicted = !has_room && evicts && evict_candidate(context, f, key, next != Next::evict_any);
    context.epoch.exit();
    if (TD_UNLIKELY(!has_room && refused && !evicts)) return false;
    // A leaf is paid for with as many items as one has, before leaves have run out.
    if (unpaid != 0 && leaves.state != Leaves::enough) relieve_order(context, std::size_t{unpaid} * leaves.leaf_items);
    if (evicted && shared.index.is_ordered()) relieve_order(context, victims_per_sweep_max);
    if (has_room || evicted) return true;
    if (next == Next::relieve) relieve_order(context, victims_per_sweep_max);
    if (next == Next::retry && leaves.state == Leaves::coming) shared.epochs.synchronize();
    make_room_elsewhere(context);
    if (next == Next::evict_any) shared.maintenance.notify();
    yield_processor();
  } while (Steady::now() - start < wait_max);
  context.enter();
  const bool done = shared.index.make_room(f, key) || (shared.policy.evict && evict_candidate(context, f, key, false));
  context.epoch.exit();
  return done;
}

}  // namespace tandem::task
