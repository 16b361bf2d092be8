// The set-associative index's code. Included by set_index.cpp for the product's sets, and where other sets are measured
// or tested.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <new>
#include <stdexcept>

#include "base/hash.hpp"
#include "base/spin_wait.hpp"
#include "index/index_kind.hpp"
#include "index/set_associative/lanes_scalar.hpp"
#include "index/set_associative/set_index.hpp"

#define TD_LANES_NAMESPACE sets_on_host
#include "index/set_associative/set-inl.hpp"

#define TD_LANES_NAMESPACE sets_on_host
#define TD_LANES ScalarTagLanes
#include "index/set_associative/set_ops-inl.hpp"

namespace tandem {
namespace sets_on_host {

inline constexpr ScalarTagLanes lanes{};

template <unsigned Ways>
inline constexpr SetOps<Ways> scalar_ops = {"scalar",           []() noexcept { return true; },
                                            strip_tags<Ways>,   strip_entries<Ways>,
                                            strip_locked<Ways>, tagged_ways<Ways>};

// The product's sets have all kinds of lanes, all else the portable ones.
template <unsigned Ways>
const SetOps<Ways>& ops_named(std::string_view name) {
  if constexpr (Ways == set_ways) {
    return set_ops_named(name);
  } else {
    return scalar_ops<Ways>;
  }
}

inline bool may_be_live(const Item* item) noexcept {
  const std::uint64_t state = item->state_word.load(std::memory_order_relaxed);
  return Item::state_of(state) == ItemState::live || is_rewriting(state);
}

template <unsigned Ways>
TableMemory memory_for(const IndexOptions& options, MemoryBudget& budget) {
  const std::uint64_t sets = std::max<std::uint64_t>((options.cells_initial + Ways - 1) / Ways, 1);
  if (sets > sets_max) throw std::bad_alloc();
  auto memory = TableMemory::make(sets * sizeof(EntrySet<Ways>), {.huge_pages = options.huge_pages}, budget);
  if (!memory) throw std::bad_alloc();
  return std::move(*memory);
}

}  // namespace sets_on_host

template <unsigned Ways, SetReading Reading>
class BasicSetIndex<Ways, Reading>::Shared {
 public:
  explicit Shared(Set& set) noexcept : set_(set) {
    for (SpinWait waiting; !sets_on_host::try_lock_shared(sets_on_host::lanes, &set_.word);) waiting.once();
  }
  ~Shared() { sets_on_host::unlock_shared(sets_on_host::lanes, &set_.word); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

 private:
  Set& set_;
};

template <unsigned Ways, SetReading Reading>
BasicSetIndex<Ways, Reading>::BasicSetIndex(const IndexOptions& options, MemoryBudget& budget, EpochDomain&, Heap& heap)
    : options_(options),
      ops_(sets_on_host::ops_named<Ways>(options.lanes)),
      heap_(heap),
      memory_(sets_on_host::memory_for<Ways>(options, budget)),
      view_{reinterpret_cast<Set*>(memory_.start()), static_cast<std::uint32_t>(memory_.bytes() / sizeof(Set))},
      counters_(std::make_unique<Counter[]>(counter_count)) {
  static_assert(IndexKind<BasicSetIndex> && EvictsFromSet<BasicSetIndex> && StampsAccesses<BasicSetIndex>);
  if (options_.shard_bits != 0 || (options_.log != nullptr && Ways != set_cells))
    throw std::invalid_argument("one device at most can follow a set-associative index");
  if (options_.fingerprint == nullptr)
    options_.fingerprint = [](std::string_view key, std::uint64_t seed) { return fingerprint_of(key, seed); };
}

template <unsigned Ways, SetReading Reading>
std::uint32_t BasicSetIndex<Ways, Reading>::search_first(const Fingerprint* f, std::uint32_t count,
                                                         Location* location) const noexcept {
  if constexpr (Reading == SetReading::locked) {
    ops_.search_locked(view_, f, count, location, heap_.at(no_location));
    return 0;
  }
  return ops_.search_tags(view_, f, count, location);
}

template <unsigned Ways, SetReading Reading>
void BasicSetIndex<Ways, Reading>::search_second(const Fingerprint* f, std::uint32_t left,
                                                 Location* location) const noexcept {
  if (left != 0) ops_.search_entries(view_, f, left, location, heap_.at(no_location));
}

// A hit is valid whatever happens meanwhile: the item was live and had this key when its state was read. A miss is
// valid if the set did not change between the two reads of its word, or could not.
template <unsigned Ways, SetReading Reading>
Item* BasicSetIndex<Ways, Reading>::find(Fingerprint f, std::string_view key, ItemVersion& seen,
                                         Location) const noexcept {
  Set& set = *view_.of(f);
  const auto look = [&]() -> Item* {
    for (std::uint32_t ways = ops_.tagged(&set, f.signature); ways != 0; ways &= ways - 1) {
      const Cell c{sets_on_host::lanes.load64(&set.entry[std::countr_zero(ways)].cell)};
      if (c.signature() != f.signature) continue;
      Item* const item = heap_.at(c.location());
      if (is_live_item_of(item, key, seen)) return item;
    }
    return nullptr;
  };
  if constexpr (Reading == SetReading::locked) {
    const Shared shared(set);
    return look();
  }
  for (SpinWait waiting;; waiting.once()) {
    const SetWord before{sets_on_host::lanes.load64(&set.word)};
    if (Item* const item = look()) return item;
    if (!before.locked() && sets_on_host::lanes.load64(&set.word) == before.bits) return nullptr;
  }
}

template <unsigned Ways, SetReading Reading>
void BasicSetIndex<Ways, Reading>::note_access(Fingerprint f, Location l, std::uint32_t now) const noexcept {
  Set& set = *view_.of(f);
  for (std::uint32_t ways = ops_.tagged(&set, f.signature); ways != 0; ways &= ways - 1) {
    SetEntry& entry = set.entry[std::countr_zero(ways)];
    if (Cell{sets_on_host::lanes.load64(&entry.cell)} != Cell::of(f.signature, l)) continue;
    return stamp_entry(entry, now);
  }
}

// --- Guard

template <unsigned Ways, SetReading Reading>
BasicSetIndex<Ways, Reading>::Guard::Guard(BasicSetIndex& index, Fingerprint f) noexcept
    : index_(index), f_(f), set_(*index.view_.of(f)) {
#if defined(TANDEM_CANARY)
  if (canary_bites("unlocked_set")) return;
#endif
  for (SpinWait waiting; !sets_on_host::try_lock(sets_on_host::lanes, &set_.word);) waiting.once();
}

template <unsigned Ways, SetReading Reading>
BasicSetIndex<Ways, Reading>::Guard::~Guard() {
  if (ChangeLog* const log = index_.options_.log; log != nullptr && changed_)
    sets_on_host::lanes.store32(&set_.changed_at, log->launch());
  sets_on_host::unlock(sets_on_host::lanes, &set_.word, changed_);
}

template <unsigned Ways, SetReading Reading>
ImageSlot BasicSetIndex<Ways, Reading>::Guard::image_slot() const noexcept {
  const std::uint32_t granules = image_granules(version_.state, version_.fixed);
  if (index_.options_.log == nullptr || granules == 0) return {};
  return index_.options_.log->image_slot(index_.cell_of(f_, way_), index_.heap_.location_of(item_), granules);
}

template <unsigned Ways, SetReading Reading>
template <class IsIt>
Item* BasicSetIndex<Ways, Reading>::Guard::find_way(std::uint32_t ways, IsIt is_it) noexcept {
  item_ = nullptr;
  is_victim_ = false;
  for (; ways != 0; ways &= ways - 1) {
    way_ = static_cast<std::uint32_t>(std::countr_zero(ways));
    const Cell c{sets_on_host::lanes.load64(&set_.entry[way_].cell)};
    Item* const item = index_.heap_.at(c.location());
    if (c.signature() != f_.signature || !sets_on_host::may_be_live(item) || !is_it(c, item)) continue;
    // A thread that rewrites it makes it live again: only a holder of this lock kills it.
    version_ = settled_version(item);
    if (!version_.is_live()) continue;
    item_ = item;
    break;
  }
  return item_;
}

// All ways are searched before put() takes a free one, or a key behind a freed way would get a second entry.
template <unsigned Ways, SetReading Reading>
Item* BasicSetIndex<Ways, Reading>::Guard::find(std::string_view key, Location) noexcept {
  return find_way(index_.ops_.tagged(&set_, f_.signature), [&](Cell, const Item* item) {
    return SetLengths{sets_on_host::lanes.load32(&set_.entry[way_].lengths)}.key_bytes() == key.size() &&
           item->has_key(key);
  });
}

template <unsigned Ways, SetReading Reading>
Item* BasicSetIndex<Ways, Reading>::Guard::find(Location l) noexcept {
  return find_way(index_.ops_.tagged(&set_, f_.signature), [l](Cell c, const Item*) { return c.location() == l; });
}

template <unsigned Ways, SetReading Reading>
bool BasicSetIndex<Ways, Reading>::Guard::has_room() const noexcept {
  return sets_on_host::free_ways(sets_on_host::lanes, &set_) != 0;
}

template <unsigned Ways, SetReading Reading>
Item* BasicSetIndex<Ways, Reading>::Guard::find_victim() noexcept {
  const std::uint32_t used = Set::all_ways & ~sets_on_host::free_ways(sets_on_host::lanes, &set_);
  item_ = nullptr;
  if (used == 0) return nullptr;
  way_ = sets_on_host::oldest_of(sets_on_host::lanes, &set_, used, index_.stamp_now());
  item_ = index_.heap_.at(Cell{sets_on_host::lanes.load64(&set_.entry[way_].cell)}.location());
  version_ = settled_version(item_);  // live: only a holder of this lock kills it
  is_victim_ = true;
  return item_;
}

// REQUIRES: the item is locked. A plain store: the only other writer of a locked item's word is CLOCK, which clears a
// mark.
template <unsigned Ways, SetReading Reading>
void BasicSetIndex<Ways, Reading>::Guard::kill() noexcept {
  unlock_item(item_, word::State::put(version_.state, static_cast<std::uint64_t>(ItemState::dead)));
}

template <unsigned Ways, SetReading Reading>
IndexPut BasicSetIndex<Ways, Reading>::Guard::put(Location now, std::uint64_t live_state) noexcept {
  TD_DEBUG_ASSERT(Item::state_of(live_state) == ItemState::live && !is_victim_);
  Item* const item = index_.heap_.at(now);
  if (item_ == nullptr) {
    const std::uint32_t free = sets_on_host::free_ways(sets_on_host::lanes, &set_);
    if (free == 0) return Put::needs_room;
    way_ = static_cast<std::uint32_t>(std::countr_zero(free));
  }
  const Logged logged = announce();
  if (item_ != nullptr) {
    if (TD_UNLIKELY(!lock_item(item_, version_))) return Put::changed;
    // In this order a process that is killed in between leaves the old item or both; after a restart the larger CAS id
    // wins.
    item->state_word.store(live_state, std::memory_order_release);
    kill();
  } else {
    item->state_word.store(live_state, std::memory_order_release);
    index_.count(1);
  }
  sets_on_host::write_way(sets_on_host::lanes, &set_, way_, Cell::of(f_.signature, now),
                          SetLengths::of(item->key_bytes(), index_.heap_.value_bytes(item)), index_.stamp_now());
  item_ = item;
  changed_ = true;
  return Put::done;
}

template <unsigned Ways, SetReading Reading>
bool BasicSetIndex<Ways, Reading>::Guard::erase() noexcept {
  TD_ASSERT(item_ != nullptr);
  const Logged logged = announce();
  if (TD_UNLIKELY(!lock_item(item_, version_))) return false;
  kill();
  sets_on_host::clear_way(sets_on_host::lanes, &set_, way_);
  if (is_victim_) sets_on_host::lanes.store32(&set_.evicted, sets_on_host::lanes.load32(&set_.evicted) + 1);
  index_.count(-1);
  item_ = nullptr;
  is_victim_ = false;
  changed_ = true;
  return true;
}

template <unsigned Ways, SetReading Reading>
bool BasicSetIndex<Ways, Reading>::Guard::update_state(std::uint64_t mask, std::uint64_t bits) noexcept {
  TD_DEBUG_ASSERT((mask & word::State::mask) == 0 && (bits & ~mask) == 0);
  return change_item([&]() noexcept {
    if (TD_UNLIKELY(!lock_item(item_, version_))) return false;
    version_.state = (version_.state & ~mask) | bits;
    unlock_item(item_, version_.state);
    sets_on_host::lanes.store32(&set_.entry[way_].stamp, index_.stamp_now());
    return true;
  });
}

// --- size

template <unsigned Ways, SetReading Reading>
std::unique_ptr<KeyHold> BasicSetIndex<Ways, Reading>::hold(Fingerprint f) {
  return std::make_unique<GuardHold<BasicSetIndex>>(*this, f);
}

template <unsigned Ways, SetReading Reading>
bool BasicSetIndex<Ways, Reading>::make_room(Fingerprint f, std::string_view) noexcept {
  return sets_on_host::free_ways(sets_on_host::lanes, view_.of(f)) != 0;
}

template <unsigned Ways, SetReading Reading>
std::uint32_t BasicSetIndex<Ways, Reading>::candidates(Fingerprint f, std::string_view,
                                                       Location out[candidates_max]) const noexcept {
  const Set* const set = view_.of(f);
  std::uint32_t used = Set::all_ways & ~sets_on_host::free_ways(sets_on_host::lanes, set);
  sets_on_host::lanes.order_loads();
  std::uint32_t n = 0;
  for (const std::uint32_t now = stamp_now(); used != 0;) {
    const std::uint32_t way = sets_on_host::oldest_of(sets_on_host::lanes, set, used, now);
    used &= ~(1u << way);
    if (const Cell c{sets_on_host::lanes.load64(&set->entry[way].cell)}; !c.empty()) out[n++] = c.location();
  }
  return n;
}

template <unsigned Ways, SetReading Reading>
std::uint64_t BasicSetIndex<Ways, Reading>::item_count() const noexcept {
  std::int64_t sum = 0;
  for (std::uint32_t i = 0; i < counter_count; ++i) sum += counters_[i].items.load(std::memory_order_relaxed);
  return sum < 0 ? 0 : static_cast<std::uint64_t>(sum);
}

// Each thread counts on a line of its own, as long as there are no more than counter_count threads.
template <unsigned Ways, SetReading Reading>
void BasicSetIndex<Ways, Reading>::count(std::int64_t items) noexcept {
  static std::atomic<std::uint32_t> threads{0};
  thread_local const std::uint32_t mine = threads.fetch_add(1, std::memory_order_relaxed) % counter_count;
  counters_[mine].items.fetch_add(items, std::memory_order_relaxed);
}

template <unsigned Ways, SetReading Reading>
FollowedTable BasicSetIndex<Ways, Reading>::followed() const noexcept {
  constexpr std::uint32_t words = sizeof(std::uint64_t);
  static_assert(sizeof(Set) % words == 0 && sizeof(SetEntry) % words == 0);
  return {.cells = {.first = &view_.sets->entry[0].cell,
                    .group_bits = std::countr_zero(Ways),
                    .group_words = sizeof(Set) / words,
                    .cell_words = sizeof(SetEntry) / words},
          .shape = {.sets = view_.count},
          .serial = serial,
          .whole = true};
}

// A reader that finds a writer's cell, and loads the set's word afterwards, finds it locked, or changed_at to be of
// that writer or of a later one.
template <unsigned Ways, SetReading Reading>
StripeWord BasicSetIndex<Ways, Reading>::stripe(Fingerprint f) const noexcept {
  Set& set = *view_.of(f);
  if (SetWord{sets_on_host::lanes.load64(&set.word)}.locked()) return {StripeWord::locked_bit};
  return {std::uint64_t{sets_on_host::lanes.load32(&set.changed_at)} << StripeWord::changed_at_shift};
}

template <unsigned Ways, SetReading Reading>
void BasicSetIndex<Ways, Reading>::note_reads(std::span<const Location> items) const noexcept {
  const std::uint32_t now = stamp_now();
  for (const Location l : items) {
    const Item* const item = heap_.at(l);
    if (Item::state_of(item->state_acquire()) != ItemState::live) continue;
    note_access(options_.fingerprint(item->key(), options_.hash_seed), l, now);
  }
}

template <unsigned Ways, SetReading Reading>
void BasicSetIndex<Ways, Reading>::search_column(std::span<const Fingerprint> f, Location* location) const noexcept {
  search_column_of(*this, f, location);
}

template <unsigned Ways, SetReading Reading>
std::uint64_t BasicSetIndex<Ways, Reading>::evictions() const noexcept {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < view_.count; ++i) sum += sets_on_host::lanes.load32(&view_.sets[i].evicted);
  return sum;
}

}  // namespace tandem
