// Publication of a new item: the last step of a set beside the old item, in the executor and in the fast lane.
#pragma once
#include "index/index_kind.hpp"
#include "task/context.hpp"
#include "task/settled.hpp"
#include "task/store_in_place.hpp"

namespace tandem::task {

// A slot whose item is complete except for its CAS id and its state word.
struct Publication {
  Location slot;
  std::uint32_t expiry_s;
  std::uint64_t keep;  // state bits beside state, CAS, expiry and access second
};

// Gives the slot's item its CAS id, and publishes it in place of the item that the guard has found, or as a new key's.
// `replaces`: the guard has found an item. flushed, changed, needs_room: nothing has changed. Thread safety: the
// guard's stripe is held.
template <IndexGuard G>
Settled publish_slot(Context& context, G& guard, const Publication& what, bool replaces, const StripTime& time,
                     ItemVersion& published) noexcept {
  Item* const item = context.shared.heap.at(what.slot);
  const std::uint64_t cas = context.cas.next(context.shared, replaces ? guard.version().cas() : 0);
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
  if (TD_LIKELY(put == IndexPut::done)) return Settled::done;
  return put == IndexPut::changed ? Settled::changed : Settled::needs_room;
}

}  // namespace tandem::task
