// Displacement (Mega-KV 4.2; write protocol 4). Departure from the paper, which relocates a randomly selected cell and
// then whatever that one displaces: a breadth-first search finds the nearest bucket with an empty cell before anything
// moves. So most insertions that need room move one or two cells, each of them once, and no cell is ever out of the
// table.
#include "index/cuckoo/cuckoo_index.hpp"
#include "index/cuckoo/displacement.hpp"

namespace tandem {

bool CuckooIndex::make_room(Fingerprint f, std::string_view key) noexcept {
  if (TD_UNLIKELY(order_ != nullptr) && !order_->make_room(f, key)) return false;
  if (Elsewhere* const table = elsewhere(); TD_UNLIKELY(table != nullptr))
    return table->takes_changes(f) && table->has_room_for_key();
  const Phase& p = phase();
  if (p.read != p.target && target_full_.load(std::memory_order_relaxed)) {
    if (target_is_full(p)) {
      copy_some();
      return false;
    }
    target_full_.store(false, std::memory_order_relaxed);  // some keys have been removed
  }
  const bool made = make_room_in(*p.target, f);
  if (!made) room_failed_.store(true, std::memory_order_relaxed);
  return made;
}

// Whether, while the old table is copied, all keys together leave the new one only the room that displacement needs.
bool CuckooIndex::target_is_full(const Phase& p) const noexcept {
  constexpr double load_max = 0.95;
  return static_cast<double>(item_count()) >= load_max * static_cast<double>(p.target->cells()) - counter_count;
}

bool CuckooIndex::make_room_in(const Table& table, Fingerprint f) noexcept {
  constexpr int races_max = 64;  // paths lost to other writers before it is called a failure
  const IndexView view = table.view();
  for (int races = 0; races < races_max; ++races) {
    DisplacementPath path;
    if (!path.find(view, f)) return false;
    bool whole = true;
    while (whole && !path.at_root()) whole = move_cell(table, path.step());
    if (whole) return true;
  }
  return false;
}

// Moves the cell at `from` into the empty cell at `to`, under the victim's stripe: copy, then clear, so that it is
// always in at least one place.
bool CuckooIndex::move_cell(const Table& table, const DisplacementMove& move) noexcept {
  const IndexView view = table.view();
  std::uint64_t* const from = &view.buckets[move.from_bucket].cell[move.from_slot];
  std::uint64_t* const to = &view.buckets[move.to_bucket].cell[move.to_slot];
  const Cell seen{ScalarLanes::at(from).load(std::memory_order_relaxed)};
  if (seen.empty()) return true;  // cleared meanwhile: the room exists
  if (view.other(move.from_bucket, seen.signature()) != move.to_bucket) return false;
  StripeLock lock(stripes_.of(seen.signature()));
  // The location may have changed, and even the key; only the signature, and so the stripe, must be the locked one.
  const Cell victim{ScalarLanes::at(from).load(std::memory_order_relaxed)};
  bool moved = false;
  if (victim.signature() == seen.signature()) {
    const Logged logged(options_.log,
                        {Change{table.serial(), table.index_of(to)}, {table.serial(), table.index_of(from)}});
    std::uint64_t expected = 0;
#if defined(TANDEM_CANARY)
    moved = canary_strikes("drop_displacement", 10);
    if (!moved)
#endif
      moved = ScalarLanes::at(to).compare_exchange_strong(expected, victim.bits, std::memory_order_release,
                                                          std::memory_order_relaxed);
    if (moved) ScalarLanes::at(from).store(0, std::memory_order_release);
  }
  if (moved) {
    lock.unlock_changed(launch());
  } else {
    lock.unlock_unchanged();
  }
  return moved;
}

}  // namespace tandem
