#include "task/memory.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/yield.hpp"
#include "task/number.hpp"
#include "task/page_moves.hpp"
#include "task/store_in_place.hpp"

namespace tandem::task {
namespace {

constexpr std::uint64_t victim_bytes_per_sweep = 256 * 1024;
// How long an allocation waits for other workers' batches to end before the store counts as full.
constexpr auto epoch_wait_max = std::chrono::seconds(2);
// How long an allocation for a huge item waits for memory that devices' indexes still name, before it evicts another.
constexpr auto unretired_wait_max = std::chrono::milliseconds(500);
// The same once no batch sees that memory any more: a scheduler checks every 2 ms.
constexpr auto give_back_wait_max = std::chrono::milliseconds(5);
// Attempts to get a page from other classes, with no move in progress, before a class is out of memory.
constexpr unsigned refusals_max = 32;

struct GarbageRule {
  std::uint32_t now_s;
  std::uint64_t flush_cas;
};
GarbageRule garbage_rule(const Shared& shared) noexcept {
  return {shared.clock.now_s(), shared.flush_cas.load(std::memory_order_acquire)};
}
bool is_garbage(const GarbageRule& rule, const ItemVersion& seen) noexcept {
  return is_over(seen, rule.now_s, rule.flush_cas);
}
// Called by the heap's sweep with the state that it has read. Words of two versions are harmless: unlink() checks
// again.
bool is_garbage(const void* rule, const Item* item, std::uint64_t state) {
  return is_garbage(*static_cast<const GarbageRule*>(rule), {state, item->fixed()});
}

// Size of the item that a query will write if it builds on the key's present item; 0: it does not write one. If the
// item changes before the query runs, the query needs a slot once more. searched: what the search has found, inside
// an epoch.
std::uint64_t need_of_change(Context& context, const Query& q, Fingerprint f, Location candidate,
                             Location searched) noexcept {
  Shared& shared = context.shared;
  const bool enters = !context.epoch.active();
  if (enters) context.enter();
  std::uint64_t need_bytes = 0;
  ItemVersion seen;
  const Item* old = enters || searched == no_location ? nullptr : shared.heap.at(searched);
  if (old == nullptr || !is_live_item_of(old, q.key_view(), seen))
    old = shared.index.find(f, q.key_view(), seen, candidate);
  const bool good =
      old != nullptr && !is_over(seen, shared.clock.now_s(), shared.flush_cas.load(std::memory_order_acquire));
  if (!good) {
    // As in memcached, an append needs memory even without an item to append to: a full store answers out of memory.
    const bool piece = q.opcode == Opcode::store && !q.has(option::prefilled);
    if (piece || q.has(option::vivify))
      need_bytes = Item::total_bytes(0, q.key_bytes, q.opcode == Opcode::get ? 0 : q.value_bytes);
  } else {
    std::uint64_t value_bytes = shared.heap.value_bytes(old);
    bool writes = true;
    if (q.opcode == Opcode::store) {
      value_bytes += q.value_bytes;
    } else if (q.opcode == Opcode::arithmetic) {
      std::uint64_t number = 0;
      writes = !old->is_huge() && read_item_number(old, number);
      value_bytes =
          std::max<std::uint64_t>(value_bytes, decimal_digits(apply_delta(number, q.delta, q.has(option::decrement))));
    } else {
      writes = q.opcode == Opcode::remove;
    }
    if (writes) {
      need_bytes = Item::total_bytes(old->client_flags(), q.key_bytes, value_bytes);
      context.spared = shared.heap.location_of(old);
    }
  }
  if (enters) context.epoch.exit();
  return need_bytes;
}

std::uint64_t need_of(Context& context, const Batch& batch, std::uint32_t i) noexcept {
  const Query& q = batch.query(i);
  switch (q.slot_need()) {
    case SlotNeed::none:
      return 0;
    case SlotNeed::item:
      return Item::total_bytes(q.client_flags, q.key_bytes, q.value_bytes);
    case SlotNeed::change:
      break;
  }
  return need_of_change(context, q, batch.fingerprints()[i], batch.candidate(i), batch.locations()[i]);
}

// Whether a large value, received into the heap, will be appended or prepended.
TD_INLINE bool is_piece(const Query& q) noexcept { return q.concatenates() && q.has(option::prefilled); }

std::size_t unlink(Context& context, std::span<const Location> victims, Spare spare,
                   bool probation_failed = false) noexcept {
  return context.shared.code.unlink(context, victims, spare, probation_failed);
}

Location allocate_once(Context& context, SizeClass c, std::uint64_t item_bytes) noexcept {
  const Heap::Cache::Lock lock(context.cache);
  return context.shared.heap.allocate(context.cache, c, item_bytes);
}

// Whether the query is a set that will probably rewrite its item in place. Such a set takes a slot only if it cannot.
TD_INLINE bool will_store_in_place(const Context& context, const Batch& batch, std::uint32_t i) noexcept {
  return context.epoch.active() && is_plain_set(batch.query(i)) && batch.locations()[i] != no_location &&
         may_store_in_place(context);
}

// Gives the query a slot from the cache, if it needs one. Returns the bytes of the item that the cache has none for;
// 0: the query has what it needs, or is refused.
std::uint64_t prepare_slot(Context& context, Batch& batch, QueryState& state) noexcept {
  Heap& heap = context.shared.heap;
  const Heap::Cache::Lock lock(context.cache);
  Query& q = batch.query(state.query);
  state.slot = state.fill = no_location;
  state.refused = Status::none;
  if (is_piece(q)) {
    state.fill = batch.filled()[state.query];
    const Item* const piece = heap.at(state.fill);
    q.value = piece->value();
    q.value_bytes = static_cast<std::uint32_t>(heap.value_bytes(piece));
  } else if (q.opcode == Opcode::store && q.has(option::prefilled)) {
    state.slot = batch.filled()[state.query];
  }
  if (TD_UNLIKELY(state.refuses)) state.refused = Status::out_of_memory;
  if (state.slot != no_location || state.refused != Status::none) return 0;
  if (will_store_in_place(context, batch, state.query)) return 0;
  context.spared = no_location;
  const std::uint64_t need_bytes = need_of(context, batch, state.query);
  if (need_bytes == 0) return 0;
  if (TD_UNLIKELY(need_bytes > context.shared.policy.item_bytes_max)) {
    state.refused = Status::too_large;
    return 0;
  }
  state.slot = heap.allocate(context.cache, heap.size_class(need_bytes), need_bytes);
  return state.slot == no_location ? need_bytes : 0;
}

std::size_t victims_wanted(const Heap& heap, SizeClass c) noexcept {
  if (c == huge_class) return 1;
  return std::clamp<std::size_t>(victim_bytes_per_sweep / heap.slot_bytes(c), 1, victims_per_sweep_max);
}

// Takes a page that another class does not need for its items, whether or not the policy evicts. False: none has one.
bool take_spare(Context& context, SizeClass c) noexcept {
  // After a failure: a page that cannot be emptied now, since its class has filled up meanwhile.
  constexpr std::uint32_t calls_passed = 16;
  if (context.spares_passed != 0) {
    --context.spares_passed;
    return false;
  }
  const PageId page = context.shared.heap.pick_spare(c);
  if (page == 0) return false;
  if (move_this_page(context, page, c, Loses::nothing)) return true;
  context.spares_passed = calls_passed;
  return false;
}

// Whether CLOCK soon reaches what the class has stored last: it has few slots.
bool soon_reaches_newest(const Heap& heap, SizeClass c) noexcept {
  constexpr std::uint32_t slots_per_page_max = 8;
  constexpr std::uint64_t pages_max = 2;
  return c == huge_class || heap.classes()[c].slots_per_page <= slots_per_page_max || heap.pages_open(c) <= pages_max;
}

// Takes a page from a class that has much older items, before such a class evicts. False: no class gives a page.
bool take_before_evicting(Context& context, SizeClass c) noexcept {
  if (!context.shared.policy.evict || !soon_reaches_newest(context.shared.heap, c)) return false;
  return move_page(context, c, Heap::DonorRule::stored_earlier) != 0;
}

// After a page's worth of evictions the maintenance thread checks whether another class can spare a page.
void note_evicted(Context& context, std::uint64_t bytes) noexcept {
  if (bytes != 0) context.counters.direct_reclaims.add();
  context.evicted_bytes += bytes;
  if (context.evicted_bytes < page_bytes) return;
  context.evicted_bytes = 0;
  context.shared.maintenance.notify();
}

bool has_unretired_huge(const Shared& shared) noexcept {
  if (!shared.placement.has_unretired()) return false;
  bool found = false;
  shared.placement.for_each_unretired([&](Location l) { found |= shared.heap.class_of(l) == huge_class; });
  return found;
}

// Waits for the memory of replaced huge items, which devices' indexes or batches in flight still name. There may be no
// item to evict other than the one to be replaced next.
Location wait_for_unretired(Context& context, std::uint64_t item_bytes) noexcept {
  Shared& shared = context.shared;
  auto end = std::chrono::steady_clock::now() + unretired_wait_max;
  std::optional<std::uint64_t> stamp;  // when all of it was retired
  Location l = no_location;
  while (l == no_location && std::chrono::steady_clock::now() < end) {
    if (has_unretired_huge(shared)) {
      stamp.reset();
    } else if (!stamp) {
      stamp = shared.epochs.retire_stamp();
    } else if (shared.epochs.is_safe(*stamp)) {
      // From now on it is free, or in the cache of a thread that returns it at its next reclaim.
      end = std::min(end, std::chrono::steady_clock::now() + give_back_wait_max);
    }
    context.let_go();
    yield_processor();
    reclaim(context);
    l = allocate_once(context, huge_class, item_bytes);
  }
  return l;
}

// Allocation for a class without free slots: repeats turns until it has a slot, or the class is out of memory.
class Shortage {
 public:
  Shortage(Context& context, SizeClass c, std::uint64_t item_bytes) noexcept
      : context_(context),
        class_(c),
        item_bytes_(item_bytes),
        pages_moved_(context.shared.heap.pages_moved()),
        stamp_(context.shared.epochs.retire_stamp()) {}

  // Evicts the bytes still missing and tries again. no_location: goes_on() tells whether to take another turn.
  Location evict_and_allocate() noexcept {
    Shared& shared = context_.shared;
    // The memory evicted so far is enough, once the batches that see it have ended.
    if (shared.epochs.is_safe(stamp_)) bytes_coming_ = 0;
    std::size_t evicted = 0;
    if (bytes_coming_ < item_bytes_)
      evicted = evict(context_, class_, victims_wanted(shared.heap, class_), !shared.policy.evict);
    const std::uint64_t evicted_bytes = evicted * (class_ == huge_class ? page_bytes : shared.heap.slot_bytes(class_));
    bytes_coming_ += evicted_bytes;
    note_evicted(context_, evicted_bytes);
    freed_ = evicted + reclaim(context_);
    return allocate_once(context_, class_, item_bytes_);
  }

  // After a turn without a slot: waits, or has a page moved to the class. False: there is no memory.
  bool goes_on() noexcept {
    Shared& shared = context_.shared;
    context_.let_go();
    if (freed_ != 0) stamp_ = shared.epochs.retire_stamp();
    if (freed_ != 0 || shared.placement.has_unretired() ||
        (shared.heap.retired_bytes() != 0 && !shared.epochs.is_safe(stamp_))) {
      yield_processor();  // a batch still sees the retired slots
      return true;
    }
    // CLOCK spares an item once, so after two turns without a victim the class has none, and needs a page of another
    // class.
    const std::uint64_t slots = shared.heap.class_stats(class_).slots_total;
    if (slots != 0 && shared.heap.pages_open(class_) != 0 && ++fruitless_ <= sweeps_of_two_turns(slots)) return true;
    return shared.policy.evict ? move_page_here() : wait_for_retired();
  }

 private:
  bool move_page_here() noexcept {
    Heap& heap = context_.shared.heap;
    if (move_page(context_, class_, Heap::DonorRule::any, refusals_) != 0) {
      fruitless_ = refusals_ = 0;
      stamp_ = context_.shared.epochs.retire_stamp();
      return true;
    }
    // The first attempt fails on a page that is moving, has just moved, or is being filled.
    const std::uint64_t moved = heap.pages_moved();
    if (moved != pages_moved_) refusals_ = 0;
    pages_moved_ = moved;
    if (!heap.is_moving_pages() && ++refusals_ == refusals_max) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    return true;
  }
  // Slots that output pins, or that another cache holds, may be returned soon.
  bool wait_for_retired() noexcept {
    if (context_.shared.heap.retired_bytes() == 0 || ++refusals_ == refusals_max) return false;
    stamp_ = context_.shared.epochs.retire_stamp();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    return true;
  }

  Context& context_;
  const SizeClass class_;
  const std::uint64_t item_bytes_;
  std::uint64_t pages_moved_;
  std::uint64_t stamp_;  // once it is safe, slots retired before it are free, except pinned ones
  std::uint64_t bytes_coming_ = 0, fruitless_ = 0;
  std::size_t freed_ = 0;  // in the last turn
  unsigned refusals_ = 0;
};

}  // namespace

std::size_t reclaim(Context& context) noexcept {
  context.shared.placement.reclaim_changes(context.cache, Overlay::Reclaim::all);
  const Heap::Cache::Lock lock(context.cache);
  return context.shared.heap.reclaim_all(context.cache);
}

std::size_t evict(Context& context, SizeClass c, std::size_t victims_max, bool garbage_only) noexcept {
  const GarbageRule rule = garbage_rule(context.shared);
  Location victims[victims_per_sweep_max];
  const std::span<Location> wanted(victims, std::min(victims_max, victims_per_sweep_max));
  context.enter();
  const Heap::Swept swept = context.shared.heap.sweep(c, wanted, slots_per_sweep, is_garbage, &rule);
  const Spare spare = garbage_only ? Spare::good : Spare::used;
  const std::size_t evicted =
      swept.found == 0 ? 0 : unlink(context, wanted.first(swept.found), spare, swept.from_probation != 0);
  context.epoch.exit();
  return evicted;
}

Reclaimed reclaim_garbage(Context& context, PageId page, std::uint32_t first_slot, std::uint32_t slots_max) noexcept {
  Shared& shared = context.shared;
  const GarbageRule rule = garbage_rule(shared);
  Location victims[victims_per_sweep_max];
  std::size_t count = 0;
  Reclaimed result{};
  const auto give_back = [&] {
    result.reclaimed += static_cast<std::uint32_t>(unlink(context, {victims, count}, Spare::good));
    count = 0;
  };
  context.enter();
  result.next_slot = shared.heap.visit_slots(page, first_slot, slots_max, [&](Location l, const Item* item) {
    ++result.checked;
    if (TD_LIKELY(!is_garbage(rule, ItemVersion::of(item)))) return;
    victims[count++] = l;
    if (count == victims_per_sweep_max) give_back();
  });
  if (count != 0) give_back();
  context.epoch.exit();
  const Heap::Cache::Lock lock(context.cache);
  shared.heap.reclaim(context.cache);
  return result;
}

Location allocate(Context& context, std::uint64_t item_bytes, bool wait) noexcept {
  Shared& shared = context.shared;
  const SizeClass c = shared.heap.size_class(item_bytes);
  Location l = allocate_once(context, c, item_bytes);
  if (TD_LIKELY(l != no_location)) return l;
  if (c == huge_class && shared.placement.retires_displaced() &&
      (shared.heap.retired_bytes() != 0 || has_unretired_huge(shared))) {
    l = wait ? wait_for_unretired(context, item_bytes) : no_location;
    if (l != no_location || !wait) return l;
  }
  // Other classes give one page at a time, so for an item of many pages evicting another huge item is faster.
  constexpr std::uint64_t taken_bytes_max = 8 * page_bytes;
  const auto start = std::chrono::steady_clock::now();
  // Without waiting no page can be emptied: the caller comes again and waits, before anything is evicted.
  if (!wait && (soon_reaches_newest(shared.heap, c) || (context.spares_passed == 0 && shared.heap.has_spare(c))))
    return no_location;
  Shortage shortage(context, c, item_bytes);
  do {
    if (wait && (take_spare(context, c) || (item_bytes <= taken_bytes_max && take_before_evicting(context, c)))) {
      l = allocate_once(context, c, item_bytes);
    } else {
      l = shortage.evict_and_allocate();
      if (l == no_location && !wait) return no_location;
      if (l == no_location && !shortage.goes_on()) break;
    }
    if (l != no_location) return l;
  } while (std::chrono::steady_clock::now() - start < epoch_wait_max);
  shared.heap.count_out_of_memory(c);
  return no_location;
}

bool prepare_write(Context& context, Batch& batch, QueryState& state) noexcept {
  const std::uint64_t missing_bytes = prepare_slot(context, batch, state);
  const bool in_epoch = context.epoch.active();
  if (TD_UNLIKELY(missing_bytes != 0) && !in_epoch) {
    state.slot = allocate(context, missing_bytes, true);
    if (state.slot == no_location) state.refused = Status::out_of_memory;
  }
  context.spared = no_location;
  return missing_bytes == 0 || !in_epoch;
}

void release_unused(Context& context, const Batch& batch, QueryState& state) noexcept {
  const Location slot = std::exchange(state.slot, no_location);
  const Query& q = batch.query(state.query);
  if (slot == no_location || (q.has(option::prefilled) && !is_piece(q))) return;
  const Heap::Cache::Lock lock(context.cache);
  context.shared.heap.release(context.cache, slot);
}

void release_slot(Context& context, QueryState& state) noexcept {
  Heap& heap = context.shared.heap;
  const Heap::Cache::Lock lock(context.cache);
  if (state.slot != no_location) heap.release(context.cache, state.slot);
  if (state.fill != no_location) heap.release(context.cache, state.fill);
}

}  // namespace tandem::task
