// CuckooIndex::Guard: one writer's hold on one key (write protocol 1 to 3).
//
// Under the stripe no other thread changes a cell of this signature in the key's buckets, so those are read relaxed
// (the lock acquired them) and changed by plain release stores. Only an empty cell is contended, by writers of other
// keys: it is claimed by a compare-and-swap.
#include <bit>

#include "index/cuckoo/cuckoo_index.hpp"
#include "index/cuckoo/lanes_scalar.hpp"
#include "index/index_kind.hpp"

namespace tandem {

std::unique_ptr<KeyHold> CuckooIndex::hold(Fingerprint f) { return std::make_unique<GuardHold<CuckooIndex>>(*this, f); }

CuckooIndex::Guard::~Guard() {
  if (changed_) {
    lock_.unlock_changed(index_.launch());
  } else {
    lock_.unlock_unchanged();
  }
}

namespace {

Cell read_cell(const std::uint64_t* cell) noexcept { return {ScalarLanes::at(cell).load(std::memory_order_relaxed)}; }

void write_cell(std::uint64_t* cell, Cell now) noexcept {
  ScalarLanes::at(cell).store(now.bits, std::memory_order_release);
}

bool may_be_live(const Item* item) noexcept {
  const std::uint64_t state = item->state_word.load(std::memory_order_relaxed);
  return Item::state_of(state) == ItemState::live || is_rewriting(state);
}

// Called before an item is killed: waits for a thread that rewrites it, and fails if it has been rewritten.
bool lock_to_kill(Item* item, ItemVersion& version) noexcept {
#if defined(TANDEM_CANARY)
  if (canary_bites("blind_kill")) return true;
#endif
  return lock_item(item, version);
}

// REQUIRES: the item is locked. A plain store: the only other writer of a locked item's word is CLOCK, which clears a
// mark.
void kill(Item* item, const ItemVersion& version) noexcept {
#if defined(TANDEM_CANARY)
  if (canary_bites("blind_kill")) {
    item->state_word.fetch_or(static_cast<std::uint64_t>(ItemState::dead), std::memory_order_release);
    return;
  }
#endif
  unlock_item(item, word::State::put(version.state, static_cast<std::uint64_t>(ItemState::dead)));
}

// How often a writer that adds keys during a growth checks whether the new table's cells are reserved: every 64th time,
// as it sums up all counters, but always in a table that some threads together could fill in between.
constexpr std::int64_t look_every = 64;
constexpr std::uint64_t small_cells = 1 << 16;

}  // namespace

// During a growth the key may be in either table or in both, always at one location. The old table may also hold cells
// of dead items: a writer that knows of the growth's end no longer updates it (grow.cpp).
template <class IsIt>
Item* CuckooIndex::Guard::find_cell(IsIt is_it) noexcept {
  item_ = nullptr;
  cell_[0] = cell_[1] = nullptr;
  Cell mine = empty_cell;
  const Table* const tables[2] = {phase_.read, phase_.other};
  for (int t = 0; t < 2 && tables[t] != nullptr; ++t) {
    const IndexView view = tables[t]->view();
    for (const std::uint32_t b : {view.first(f_), view.second(f_)}) {
      Bucket* const bucket = view.buckets + b;
      for (std::uint32_t m = index_.ops_.probe(bucket, f_.signature).same; m != 0 && cell_[t] == nullptr; m &= m - 1) {
        std::uint64_t* const cell = &bucket->cell[std::countr_zero(m)];
        const Cell c = read_cell(cell);
        if (c.signature() != f_.signature) continue;
        if (item_ == nullptr) {
          Item* const item = index_.heap_.at(c.location());
          if (!may_be_live(item) || !is_it(c, item)) continue;
          // A thread that rewrites it makes it live again: only a holder of this stripe kills it.
          version_ = settled_version(item);
          if (!version_.is_live()) continue;
          item_ = item;
          mine = c;
        } else if (c != mine) {
          continue;
        }
        cell_[t] = cell;
      }
      if (cell_[t] != nullptr) break;
    }
  }
  return item_;
}

// Not while the key may have a cell of another table, too.
TD_INLINE bool CuckooIndex::Guard::is_at(const std::uint64_t* hint, std::string_view key) noexcept {
  if (TD_UNLIKELY(phase_.other != nullptr || phase_.read->index_of(hint) >= phase_.read->cells())) return false;
  const Cell c = read_cell(hint);
  Item* const item = index_.heap_.at(c.location());
  if (TD_UNLIKELY(c.signature() != f_.signature || !may_be_live(item) || !item->has_key(key))) return false;
  version_ = settled_version(item);
  if (TD_UNLIKELY(!version_.is_live())) return false;
  item_ = item;
  cell_[0] = const_cast<std::uint64_t*>(hint);
  cell_[1] = nullptr;
  return true;
}

Item* CuckooIndex::Guard::find(std::string_view key, Location candidate, const std::uint64_t* hint) noexcept {
  if (TD_UNLIKELY(elsewhere_ != nullptr)) return find_elsewhere(key, candidate);
  if (hint != nullptr && is_at(hint, key)) return item_;
  return find_cell([key](Cell, const Item* item) { return item->has_key(key); });
}

// At most one item of a key is live, so a live one at a location is the key's current item.
Item* CuckooIndex::Guard::find(Location l) noexcept {
  if (TD_UNLIKELY(elsewhere_ != nullptr)) {
    version_ = settled_version(index_.heap_.at(l));
    item_ = version_.is_live() ? index_.heap_.at(l) : nullptr;
    record_ = item_ != nullptr ? elsewhere_->find_locked(f_, l) : Elsewhere::no_record;
    return item_;
  }
  return find_cell([l](Cell c, const Item*) { return c.location() == l; });
}

CuckooIndex::Put CuckooIndex::Guard::put(Location now, std::uint64_t live_state) noexcept {
  TD_DEBUG_ASSERT(Item::state_of(live_state) == ItemState::live);
  if (TD_UNLIKELY(elsewhere_ != nullptr)) return put_elsewhere(now, live_state);
  if (TD_UNLIKELY(index_.order_ != nullptr)) return put_in_order(now, live_state);
  return put_in_table(now, live_state);
}

TD_INLINE CuckooIndex::Put CuckooIndex::Guard::put_in_table(Location now, std::uint64_t live_state) noexcept {
  const Cell cell = Cell::of(f_.signature, now);
  Item* const item = index_.heap_.at(now);
  if (item_ != nullptr) {
    TD_DEBUG_ASSERT(item != item_);
    const ChangeLog::Ticket ticket = reserve();
    if (TD_UNLIKELY(!lock_to_kill(item_, version_))) {
      if (index_.options_.log != nullptr) index_.options_.log->commit(ticket);
      return Put::changed;
    }
    // In this order a process that is killed in between leaves the old item or both, and both exist before an answer is
    // sent: after a restart the larger CAS id wins. Until its cell is written no reader finds the new one.
#if defined(TANDEM_CANARY)
    if (canary_bites("dead_first")) kill(item_, version_);
#endif
    item->state_word.store(live_state, std::memory_order_release);
    kill(item_, version_);
    for (std::uint64_t* c : cell_) {
      if (c != nullptr) write_cell(c, cell);
    }
    if (index_.options_.log != nullptr) index_.options_.log->commit(ticket);
  } else {
    const bool read_is_target = phase_.read == phase_.target;
    if (!read_is_target && index_.target_full_.load(std::memory_order_relaxed)) return Put::needs_room;
    // Live before its cell: a reader that finds the cell must find it live. If there is no room after all, no reader
    // has seen the item.
    const std::uint64_t filling = item->state_word.load(std::memory_order_relaxed);
    item->state_word.store(live_state, std::memory_order_release);
    std::uint64_t* const place = index_.add_cell(*phase_.target, f_, cell, index_.options_.log);
    if (place == nullptr) {
      item->state_word.store(filling, std::memory_order_relaxed);
      return Put::needs_room;
    }
    cell_[read_is_target ? 0 : 1] = place;
    const std::int64_t added = index_.count(1);
    if (!read_is_target) {
      // Into the table that strips still search, while it has room; else readers find the key by the slower path.
      cell_[0] = index_.add_cell(*phase_.read, f_, cell, index_.options_.log);
      if ((added % look_every == 0 || phase_.target->cells() < small_cells) && index_.target_is_full(phase_)) {
        index_.target_full_.store(true, std::memory_order_relaxed);
      }
    }
  }
  item_ = item;
  changed_ = true;
  return Put::done;
}

bool CuckooIndex::Guard::erase() noexcept {
  TD_ASSERT(item_ != nullptr);
  return TD_UNLIKELY(index_.order_ != nullptr) ? erase_in_order() : erase_in_table();
}

TD_INLINE bool CuckooIndex::Guard::erase_in_table() noexcept {
  const ChangeLog::Ticket ticket = reserve();
  if (TD_UNLIKELY(!lock_to_kill(item_, version_))) {
    if (index_.options_.log != nullptr) index_.options_.log->commit(ticket);
    return false;
  }
  kill(item_, version_);
  if (TD_UNLIKELY(elsewhere_ != nullptr)) elsewhere_->erase(f_, index_.heap_.location_of(item_), record_);
  for (std::uint64_t*& c : cell_) {
    if (c != nullptr) write_cell(c, empty_cell);
    c = nullptr;
  }
  if (index_.options_.log != nullptr) index_.options_.log->commit(ticket);
  index_.count(-1);
  item_ = nullptr;
  changed_ = true;
  return true;
}

// While the leaf is held, the key changes for scans, and in between for those that search the table: whatever one of
// them has seen, a scan that begins later sees, too, because it waits for the leaf.
CuckooIndex::Put CuckooIndex::Guard::put_in_order(Location now, std::uint64_t live_state) noexcept {
  const std::string_view key = index_.heap_.at(now)->key();
  const Location from = item_ != nullptr ? index_.heap_.location_of(item_) : no_location;
#if defined(TANDEM_CANARY)
  if (canary_bites("late_order") && from != no_location) {
    const Put early = put_in_table(now, live_state);
    if (early == Put::done) index_.order_->hold(key).replace(f_, key, from, now);
    return early;
  }
#endif
  OrderTree::Hold leaf = index_.order_->hold(key, leaf_);
  if (from == no_location && TD_UNLIKELY(!leaf.add(f_, key, now))) return Put::needs_room;
  const Put result = put_in_table(now, live_state);
  if (from == no_location) {
    if (TD_UNLIKELY(result != Put::done)) leaf.take_back(f_, key, now);
  } else if (TD_LIKELY(result == Put::done)) {
    leaf.replace(f_, key, from, now);
  }
  return result;
}

bool CuckooIndex::Guard::erase_in_order() noexcept {
  const Location from = index_.heap_.location_of(item_);
  const std::string_view key = item_->key();
  OrderTree::Hold leaf = index_.order_->hold(key);
  if (!erase_in_table()) return false;
#if defined(TANDEM_CANARY)
  if (!canary_strikes("ghost", 200))
#endif
    leaf.remove(f_, key, from);
  return true;
}

// The key's record first: the item that the device found may have been replaced since.
Item* CuckooIndex::Guard::find_elsewhere(std::string_view key, Location candidate) noexcept {
  const Heap& heap = index_.heap_;
  const Elsewhere::Found found = elsewhere_->find_locked(f_, key);
  item_ = found.location != no_location ? heap.at(found.location) : nullptr;
  record_ = found.record;
  clash_ = found.clash;
  Item* const other = heap.at(candidate);
  if (candidate != no_location && Item::state_of(settled_state(other)) == ItemState::live) {
    if (!other->has_key(key)) {
      clash_ = true;
    } else if (item_ == nullptr) {
      item_ = other;
    }
  }
  if (item_ != nullptr) version_ = settled_version(item_);
  return item_;
}

CuckooIndex::Put CuckooIndex::Guard::put_elsewhere(Location now, std::uint64_t live_state) noexcept {
  if (item_ == nullptr && !elsewhere_->has_room_for_key()) return Put::needs_room;
  Item* const item = index_.heap_.at(now);
  if (TD_UNLIKELY(item_ != nullptr && !lock_to_kill(item_, version_))) return Put::changed;
  item->state_word.store(live_state, std::memory_order_release);
  if (item_ != nullptr) {
    kill(item_, version_);
  } else {
    index_.count(1);
  }
  record_ = elsewhere_->put(f_, item_ != nullptr ? index_.heap_.location_of(item_) : no_location, now, record_, clash_);
  item_ = item;
  changed_ = true;
  return Put::done;
}

bool CuckooIndex::Guard::update_state(std::uint64_t mask, std::uint64_t bits) noexcept {
  TD_DEBUG_ASSERT((mask & word::State::mask) == 0 && (bits & ~mask) == 0);
  return change_item([&]() noexcept {
    if (TD_UNLIKELY(!lock_item(item_, version_))) return false;
    version_.state = (version_.state & ~mask) | bits;
    unlock_item(item_, version_.state);
    return true;
  });
}

// Announces a change of the found key's cells, or of the item that they name.
ChangeLog::Ticket CuckooIndex::Guard::reserve() const noexcept {
  ChangeLog* const log = index_.options_.log;
  if (TD_LIKELY(log == nullptr)) return 0;
  Change changes[2];
  std::uint32_t n = 0;
  const Table* const tables[2] = {phase_.read, phase_.other};
  for (int t = 0; t < 2; ++t) {
    if (cell_[t] != nullptr) changes[n++] = {tables[t]->serial(), tables[t]->index_of(cell_[t])};
  }
  return log->reserve({changes, n});
}

// During a growth both cells are of one shard.
ImageSlot CuckooIndex::Guard::image_slot() const noexcept {
  ChangeLog* const log = index_.options_.log;
  const Table* const table = cell_[0] != nullptr ? phase_.read : phase_.other;
  const std::uint64_t* const cell = cell_[0] != nullptr ? cell_[0] : cell_[1];
  const std::uint32_t granules = image_granules(version_.state, version_.fixed);
  if (log == nullptr || cell == nullptr || granules == 0) return {};
  return log->image_slot(table->index_of(cell), index_.heap_.location_of(item_), granules);
}

}  // namespace tandem
