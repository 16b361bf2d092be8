#include "task/alone.hpp"

#include "base/hash.hpp"
#include "base/ticks.hpp"
#include "task/index_room.hpp"
#include "task/memory.hpp"
#include "task/settled.hpp"

namespace tandem::task {
namespace {

// The search on the host.
void find(Context& context, Batch& batch) noexcept {
  const Query& q = batch.query(0);
  ItemVersion seen;
  const Item* const item = q.operation().has_key
                               ? context.shared.index.find(batch.fingerprints()[0], q.key_view(), seen, no_location)
                               : nullptr;
  batch.locations()[0] = item != nullptr ? context.shared.heap.location_of(item) : no_location;
}

// Ends the epoch, and before it what the query has used.
class Used {
 public:
  Used(Context& context, QueryState& one) noexcept : context_(context), one_(one) { context.enter(); }
  Used(const Used&) = delete;
  Used& operator=(const Used&) = delete;
  ~Used() {
    if (is_done) {
      release_slots(context_, one_);
      if (context_.displaced_count != 0) context_.retire_displaced();
    }
    context_.epoch.exit();
  }
  bool is_done = false;

 private:
  Context& context_;
  QueryState& one_;
};

// In an epoch, where devices alone have the index: whether the key is hot, so that none of them is asked.
bool find_hot(Context& context, Batch& batch) noexcept {
  const HotTable* const hot = context.shared.placement.hot();
  const HotTable::Seen seen = hot != nullptr ? hot->find(batch.fingerprints()[0]) : HotTable::Seen{};
  if (!seen.is_hot) return false;
  batch.locations()[0] = seen.location;
  batch.found = {.end = 1};
  return true;
}

// In an epoch, when MM has run. by_hot: nothing has searched for the key.
Settled execute(Context& context, Batch& batch, QueryState& one, Answer& answer, bool by_hot) {
  Shared& shared = context.shared;
  Used used(context, one);
  Settled settled = Settled::needs_slot;
  if (TD_UNLIKELY(by_hot)) by_hot = find_hot(context, batch);
  // What a device has found may be discarded by then.
  if (TD_LIKELY(!shared.placement.wants_search() || batch.searched_at(0))) {
    one.now_s = shared.clock.now_s();
    one.flush_cas = shared.flush_cas.load(std::memory_order_acquire);
    if (TD_LIKELY(!batch.searched_at(0))) find(context, batch);
    settled = shared.code.execute(context, batch, one);
  }
  if (TD_LIKELY(settled == Settled::done)) {
    used.is_done = true;
    if (TD_UNLIKELY(by_hot)) context.counters.hot_queries.add();
    answer.answer();
  } else {
    release_unused(context, batch, one);
    if (TD_UNLIKELY(by_hot)) batch.leave_found();  // the epoch has ended that it was found in
  }
  return settled;
}

}  // namespace

void execute_alone(Context& context, Batch& batch, Answer& answer) {
  Shared& shared = context.shared;
  const Query& q = batch.query(0);
  batch.leave_found();
  context.tasks.queries_total.add();
  context.retired_bytes = 0;
  QueryState one;
  one.plain_read = q.is_plain_read();
  one.is_prepared = true;
  for (auto settled = Settled::needs_slot; settled != Settled::done;) {
    batch.fingerprints()[0] =
        q.operation().has_key ? fingerprint_of(q.key, q.key_bytes, shared.hash_seed) : Fingerprint{1, 0};
    const HotTable* const hot = shared.placement.hot();
    // A hint: it may turn cold before the epoch begins, and is searched for then.
    const bool by_hot = TD_UNLIKELY(hot != nullptr) && !batch.searched_at(0) && q.operation().has_key &&
                        hot->find(batch.fingerprints()[0]).is_hot;
    if (TD_UNLIKELY(context.remote != nullptr) && shared.placement.wants_search() && !batch.searched_at(0) && !by_hot) {
      const std::uint64_t from = cycles_now();
      context.remote->let_go();  // of what was asked for others
      context.remote->search(batch, 0);
      context.waited_ticks += cycles_now() - from;
    }
    if (!one.plain_read) static_cast<void>(prepare_write(context, batch, one));
    // A slot that was refused is not asked for again.
    one.refuses = one.refused == Status::out_of_memory;
    settled = execute(context, batch, one, answer, by_hot);
    if (TD_UNLIKELY(settled == Settled::needs_room))
      one.refuses = !make_index_room(context, batch.fingerprints()[0], q.key_view());
  }
  if (TD_LIKELY(context.remote == nullptr)) return;
  context.remote->end();
  shared.placement.reclaim_changes(context.cache);
}

}  // namespace tandem::task
