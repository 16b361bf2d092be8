// Publication of a new item: the last step of each write that makes one.
#pragma once
#include "index/index_kind.hpp"
#include "task/context.hpp"
#include "task/evict-inl.hpp"
#include "task/settled.hpp"
#include "task/store_in_place.hpp"

namespace tandem::task {

// The key's item under its stripe. An expired or flushed item is `found` (its cell is reused), but not `good`.
struct PresentItem {
  Item* found = nullptr;
  Item* good = nullptr;
  ItemVersion seen{};
};

// `item`: what the guard's find() has just returned.
template <IndexGuard G>
TD_INLINE PresentItem judge(G& guard, Item* item, const StripTime& time) noexcept {
  PresentItem at{.found = item};
  if (item != nullptr) {
    at.seen = guard.version();
    if (!is_over(at.seen, time.now_s, time.flush_cas)) at.good = item;
  }
  return at;
}

// Puts the key's new item on probation. One that replaces a good item counts as requested. REQUIRES: heap.probation().
inline void admit(Heap& heap, Fingerprint f, Location l, bool is_new_key) noexcept {
  const SizeClass c = heap.class_of(l);
  if (c == huge_class) return;
  if (is_new_key) {
    heap.probation()->admit(c, l, f, heap.slots_total(c));
  } else {
    heap.probation()->release(l);
  }
}

// A slot with an item that is complete except for its CAS id and its state word.
struct Publication {
  Fingerprint f;
  Location slot;
  std::uint32_t expiry_s;
  std::uint64_t keep;  // state bits beside state, CAS, expiry and access second
};

// Gives the slot's item its CAS id, and publishes it in place of the item that the guard has found, or as a new key's:
// then a full set evicts one of its own. flushed, changed, needs_room: the key has not changed. Thread safety: the
// guard's stripe is held.
template <IndexGuard G>
TD_INLINE Settled publish_slot(Context& context, G& guard, const Publication& what, const PresentItem& old,
                               const StripTime& time, ItemVersion& published) noexcept {
  if constexpr (requires { guard.find_victim(); }) {
    if (TD_UNLIKELY(old.found == nullptr && !guard.has_room())) {
      const Item* const victim = evict_from_set(context, guard, time);
      if (victim == nullptr) return Settled::needs_room;
      context.displace(victim);
    }
  }
  Heap& heap = context.shared.heap;
  Item* const item = heap.at(what.slot);
  const std::uint64_t cas = context.cas.next(context.shared, old.found != nullptr ? guard.version().cas() : 0);
  // The old item was judged by the strip's flush mark. With an id above a later mark its contents would survive that
  // flush.
  if (TD_UNLIKELY(cas == 0 || context.shared.flush_cas.load(std::memory_order_acquire) != time.flush_cas))
    return Settled::flushed;
  published.fixed = word::CasLow::put(item->fixed(), cas & word::CasLow::limit);
  item->set_fixed(published.fixed);
  published.state = static_cast<std::uint64_t>(ItemState::live) |
                    (what.keep & (word::Accessed::mask | word::Fetched::mask | word::Stale::mask | word::Win::mask)) |
                    word::CasHigh::put(0, cas >> word::CasLow::width) | word::AccessS::put(0, time.now_s) |
                    word::ExpiryS::put(0, what.expiry_s);
  const IndexPut put = guard.put(what.slot, published.state);
  if (TD_UNLIKELY(put != IndexPut::done)) return put == IndexPut::changed ? Settled::changed : Settled::needs_room;
  if (TD_UNLIKELY(heap.probation() != nullptr)) admit(heap, what.f, what.slot, old.good == nullptr);
  if (old.found != nullptr) context.displace(old.found);
  return Settled::done;
}

}  // namespace tandem::task
