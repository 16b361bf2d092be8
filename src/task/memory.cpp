#include "task/memory.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "base/yield.hpp"
#include "task/evict.hpp"
#include "task/number.hpp"
#include "task/page_move.hpp"

namespace tandem::task {
namespace {

// How long a huge item waits for what devices' indexes still name, before another goes for it.
constexpr auto unretired_wait_max = std::chrono::milliseconds(500);
// The same once no batch sees it any more: a scheduler looks every 2 ms.
constexpr auto give_back_wait_max = std::chrono::milliseconds(5);
// Attempts to get a page from other classes, while none was on its way to any, before a class is out of memory.
constexpr unsigned refusals_max = 32;

// Bytes of the item that a query will write which builds on the key's present item; 0: none. The item may change until
// the query runs: then the strip is cut there.
std::uint64_t need_of_change(Context& context, const Query& q, Fingerprint f, Location candidate) noexcept {
  Shared& shared = context.shared;
  const bool enters = !context.epoch.active();
  if (enters) context.enter();
  std::uint64_t need_bytes = 0;
  std::uint64_t state = 0;
  const Item* const old = shared.index.find(f, q.key_view(), state, candidate);
  const bool good = old != nullptr && !is_expired(state, shared.clock.now_s()) &&
                    !is_flushed(old, state, shared.flush_cas.load(std::memory_order_acquire));
  if (!good) {
    if (q.has(option::vivify))
      need_bytes = Item::total_bytes(0, q.key_bytes, q.opcode == Opcode::get ? 0 : q.value_bytes);
  } else {
    std::uint64_t value_bytes = shared.heap.value_bytes(old);
    bool writes = true;
    if (q.opcode == Opcode::store) {
      value_bytes += q.value_bytes;
    } else if (q.opcode == Opcode::arithmetic) {
      std::uint64_t number = 0;
      writes = !old->is_huge() && read_number({old->value(), value_bytes}, number);
      value_bytes =
          std::max<std::uint64_t>(value_bytes, decimal_digits(apply_delta(number, q.delta, q.has(option::decrement))));
    } else {
      writes = q.opcode == Opcode::remove;
    }
    if (writes) need_bytes = Item::total_bytes(old->client_flags(), q.key_bytes, value_bytes);
  }
  if (enters) context.epoch.exit();
  return need_bytes;
}

std::uint64_t need_of(Context& context, const Query& q, Fingerprint f, Location candidate) noexcept {
  switch (q.slot_need()) {
    case SlotNeed::none:
      return 0;
    case SlotNeed::item:
      return Item::total_bytes(q.client_flags, q.key_bytes, q.value_bytes);
    case SlotNeed::change:
      break;
  }
  return need_of_change(context, q, f, candidate);
}

// A large value that was received into the heap, to be added to another.
TD_INLINE bool is_piece(const Query& q) noexcept { return q.concatenates() && q.has(option::prefilled); }

Location allocate_once(Context& context, SizeClass c, std::uint64_t item_bytes) noexcept {
  const Heap::Cache::Lock lock(context.cache);
  return context.shared.heap.allocate(context.cache, c, item_bytes);
}

// A store whose item MM can write whole: it needs nothing of an item that is there.
TD_INLINE bool is_whole_store(const Query& q) noexcept {
  return q.opcode == Opcode::store && !q.concatenates() && !q.has(option::prefilled);
}

// What a query needs that is no whole store, or one that is refused.
std::uint64_t prepare_other(Context& context, Batch& batch, StripState& state, std::uint32_t i) noexcept {
  const Heap& heap = context.shared.heap;
  Query& q = batch.query(i);
  const std::uint32_t at = state.at(i);
  if (is_piece(q)) {
    state.fill[at] = batch.filled()[i];
    const Item* const piece = heap.at(batch.filled()[i]);
    q.value = piece->value();
    q.value_bytes = static_cast<std::uint32_t>(heap.value_bytes(piece));
  } else if (q.opcode == Opcode::store && q.has(option::prefilled)) {
    state.slot[at] = batch.filled()[i];
  }
  if (TD_UNLIKELY(state.refuse_first && at == 0)) state.refused[at] = Status::out_of_memory;
  if (state.slot[at] != no_location || state.refused[at] != Status::none) return 0;
  return need_of(context, q, batch.fingerprints()[i], batch.candidate(i));
}

// Items up to this size are written while the cache is locked, by few instructions and soon after their prefetch;
// larger ones would hold the lock for long.
constexpr std::uint64_t written_locked_max = 1024;

TD_INLINE void write(Context& context, const Query& q, Location slot, std::uint32_t now_s) noexcept {
  context.shared.heap.write_small(slot, q.key_view(), q.client_flags, {q.value, q.value_bytes}, q.expiry_s, now_s,
                                  q.has(option::binary_key));
}

// Gives the strip's queries from `i` on what the cache has at hand. Returns the first one that needs more, or the
// strip's end. Of `unwritten`, bit k is set when the strip's query k has a slot that it is still to be written to.
std::uint32_t prepare_slots(Context& context, Batch& batch, StripState& state, std::uint32_t i,
                            std::uint32_t& unwritten) noexcept {
  Heap& heap = context.shared.heap;
  const Heap::Cache::Lock lock(context.cache);
  for (; i < state.strip.end; ++i) {
    const Query& q = batch.query(i);
    const std::uint32_t at = state.at(i);
    state.slot[at] = state.fill[at] = no_location;
    state.refused[at] = Status::none;
    const bool whole = is_whole_store(q) && !(TD_UNLIKELY(state.refuse_first) && at == 0);
    const std::uint64_t need_bytes = TD_LIKELY(whole) ? Item::total_bytes(q.client_flags, q.key_bytes, q.value_bytes)
                                                      : prepare_other(context, batch, state, i);
    if (need_bytes == 0) continue;
    if (TD_UNLIKELY(need_bytes > context.shared.policy.item_bytes_max)) {
      state.refused[at] = Status::too_large;
      continue;
    }
    const Location slot = heap.allocate(context.cache, heap.size_class(need_bytes), need_bytes);
    state.slot[at] = slot;
    if (whole && TD_LIKELY(need_bytes <= written_locked_max && slot != no_location)) {
      write(context, q, slot, state.now_s);
      continue;
    }
    if (whole) unwritten |= 1u << at;
    if (TD_UNLIKELY(slot == no_location)) {
      state.need_bytes = need_bytes;
      return i;
    }
  }
  return i;
}

// New keys' items go on probation; what replaces an item was asked for by its writer.
void admit(Context& context, StripState& state) noexcept {
  Heap& heap = context.shared.heap;
  for (std::uint32_t i = 0; i < state.published_count; ++i) {
    const StripState::Published& p = state.published[i];
    const SizeClass c = heap.class_of(p.location);
    if (c == huge_class) continue;
    if (p.is_new_key) {
      heap.probation()->admit(c, p.location, p.fingerprint, heap.slots_total(c));
    } else {
      heap.probation()->release(p.location);
    }
  }
  state.published_count = 0;
}

std::size_t victims_wanted(const Heap& heap, SizeClass c) noexcept {
  if (c == huge_class) return 1;
  return std::clamp<std::size_t>(victim_bytes_per_sweep / heap.slot_bytes(c), 1, victims_per_sweep_max);
}

bool has_unretired_huge(const Shared& shared) noexcept {
  if (!shared.index.has_unretired()) return false;
  bool found = false;
  for (std::uint32_t i = 0; i < shared.index.overlay_count() && !found; ++i) {
    shared.index.overlay(i).for_each_displaced([&](Location l) { found |= shared.heap.class_of(l) == huge_class; });
  }
  return found;
}

// What huge items left that were replaced a moment ago, and which devices' indexes or others' batches still name. There
// may be no other item to evict but the one that is to be replaced next.
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
      // From now on it is had, or in the cache of a thread that gives it back at its next look.
      end = std::min(end, std::chrono::steady_clock::now() + give_back_wait_max);
    }
    context.let_go();
    yield_processor();
    reclaim(context);
    l = allocate_once(context, huge_class, item_bytes);
  }
  return l;
}

}  // namespace

Location allocate(Context& context, std::uint64_t item_bytes, bool wait) noexcept {
  Shared& shared = context.shared;
  const SizeClass c = shared.heap.size_class(item_bytes);
  Location l = allocate_once(context, c, item_bytes);
  if (TD_LIKELY(l != no_location)) return l;
  if (c == huge_class && shared.index.on_device() && (shared.heap.retired_bytes() != 0 || has_unretired_huge(shared))) {
    l = wait ? wait_for_unretired(context, item_bytes) : no_location;
    if (l != no_location || !wait) return l;
  }
  const bool garbage_only = !shared.policy.evict;
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t fruitless = 0;
  unsigned refusals = 0;
  std::uint64_t pages_moved = shared.heap.pages_moved();
  // What was retired before it is back once it is safe, but for what output points to.
  std::uint64_t stamp = shared.epochs.retire_stamp(), bytes_coming = 0;
  do {
    // What was evicted a moment ago is enough, once somebody's batch has ended.
    if (shared.epochs.is_safe(stamp)) bytes_coming = 0;
    std::size_t evicted = 0;
    if (bytes_coming < item_bytes) evicted = evict(context, c, victims_wanted(shared.heap, c), garbage_only);
    const std::uint64_t evicted_bytes = evicted * (c == huge_class ? page_bytes : shared.heap.slot_bytes(c));
    bytes_coming += evicted_bytes;
    // A page's worth of evictions is a reason to look whether another class can spare a page.
    context.evicted_bytes += evicted_bytes;
    if (context.evicted_bytes >= page_bytes) {
      context.evicted_bytes = 0;
      shared.maintenance.notify();
    }
    const std::size_t reclaimed = reclaim(context);
    l = allocate_once(context, c, item_bytes);
    if (l != no_location) return l;
    if (!wait) return no_location;
    context.let_go();
    if (evicted + reclaimed != 0) stamp = shared.epochs.retire_stamp();
    if (evicted + reclaimed != 0 || shared.index.has_unretired() ||
        (shared.heap.retired_bytes() != 0 && !shared.epochs.is_safe(stamp))) {
      yield_processor();  // somebody's batch still sees what was retired
      continue;
    }
    // CLOCK spares an item once: after two turns without a victim the class has none. A class without slots starves:
    // another one helps out.
    const std::uint64_t slots = shared.heap.class_stats(c).slots_total;
    const std::uint64_t sweeps_of_two_turns = 2 + 2 * slots / slots_per_sweep;
    if (slots != 0 && shared.heap.pages_open(c) != 0 && ++fruitless <= sweeps_of_two_turns) continue;
    if (!shared.policy.evict) {
      // What output points to, or another's cache has, may be back in a moment.
      if (shared.heap.retired_bytes() == 0 || ++refusals == refusals_max) break;
      stamp = shared.epochs.retire_stamp();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      continue;
    }
    if (move_from(context, shared.heap.pick_donor(c, Heap::DonorRule::any, refusals), c) != 0) {
      fruitless = refusals = 0;
      stamp = shared.epochs.retire_stamp();
      continue;
    }
    // A page that is on its way, or was a moment ago, or that somebody just fills, is not had at the first attempt.
    const std::uint64_t moved = shared.heap.pages_moved();
    if (moved != pages_moved) refusals = 0;
    pages_moved = moved;
    if (!shared.heap.is_moving_pages() && ++refusals == refusals_max) break;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  } while (std::chrono::steady_clock::now() - start < epoch_wait_max);
  shared.heap.count_out_of_memory(c);
  return no_location;
}

void prepare_writes(Context& context, Batch& batch, StripState& state) noexcept {
  const bool in_epoch = context.epoch.active();
  std::uint32_t unwritten = 0;
  for (std::uint32_t i = state.strip.begin; (i = prepare_slots(context, batch, state, i, unwritten)) != state.strip.end;
       ++i) {
    const bool first = i == state.strip.begin;
    Location& slot = state.slot[state.at(i)];
    if (!in_epoch) slot = allocate(context, state.need_bytes, first);
    if (slot != no_location) continue;
    if (in_epoch || !first) {
      state.strip.end = i;
      break;
    }
    state.refused[0] = Status::out_of_memory;
  }
  for (; TD_UNLIKELY(unwritten != 0); unwritten &= unwritten - 1) {
    const std::uint32_t i = state.strip.begin + static_cast<std::uint32_t>(std::countr_zero(unwritten));
    if (i >= state.strip.end) break;
    const Location slot = state.slot[state.at(i)];
    if (slot == no_location) continue;
    const Query& q = batch.query(i);
    Item* const item = context.shared.heap.format(slot, q.key_view(), q.client_flags, q.value_bytes, q.expiry_s,
                                                  state.now_s, q.has(option::binary_key));
    std::memcpy(item->value(), q.value, q.value_bytes);
  }
}

void cut(Context& context, Batch& batch, StripState& state, std::uint32_t end) noexcept {
  const Heap::Cache::Lock lock(context.cache);
  for (std::uint32_t i = end; i < state.strip.end; ++i) {
    const Location slot = state.slot[state.at(i)];
    // What was filled before stays where memory() will look for it again.
    if (slot == no_location || (batch.query(i).has(option::prefilled) && slot == batch.filled()[i])) continue;
    context.shared.heap.release(context.cache, slot);
  }
  state.strip.end = end;
}

std::uint64_t settle_writes(Context& context, StripState& state) noexcept {
  Heap& heap = context.shared.heap;
  const Heap::Cache::Lock lock(context.cache);
  for (std::uint32_t i = 0; i < state.strip.size(); ++i) {
    if (state.slot[i] != no_location) heap.release(context.cache, state.slot[i]);
    if (state.fill[i] != no_location) heap.release(context.cache, state.fill[i]);
  }
  if (TD_UNLIKELY(state.published_count != 0)) admit(context, state);
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < state.displaced_count; ++i) bytes += heap.retire(context.cache, state.displaced[i]);
  return bytes;
}

}  // namespace tandem::task
