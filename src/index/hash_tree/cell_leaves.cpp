#include "index/hash_tree/cell_leaves.hpp"

#include <algorithm>

namespace tandem {

static_assert(leaf_cells_max <= 1u << 16 && sizeof(Leaf) % cache_line_bytes == 0);

// --- the latch's holder

std::uint32_t CellLeaves::free_slots(const Leaf& leaf, std::uint32_t bucket) const noexcept {
  std::uint32_t used = listed(leaf)[bucket];
  const Bucket& b = buckets(leaf)[bucket];
  for (std::uint32_t i = 0; i < bucket_cells; ++i) used |= static_cast<std::uint32_t>(b.cell[i] != 0) << i;
  return ~used & ((1u << bucket_cells) - 1);
}

// In the first bucket while that has two, so that reads seldom look into the second one; then in the emptier one, so
// that leaves are fuller when they are split.
std::uint32_t CellLeaves::free_slot(const Leaf& leaf, std::uint32_t a, std::uint32_t b) const noexcept {
  const auto first_of = [](std::uint32_t bucket, std::uint32_t slots) {
    return bucket * bucket_cells + static_cast<std::uint32_t>(std::countr_zero(slots));
  };
  const std::uint32_t in_a = free_slots(leaf, a);
  if ((in_a & (in_a - 1)) != 0) return first_of(a, in_a);
  const std::uint32_t in_b = free_slots(leaf, b);
  if ((in_a | in_b) == 0) return no_slot;
  return std::popcount(in_a) >= std::popcount(in_b) ? first_of(a, in_a) : first_of(b, in_b);
}

std::uint32_t CellLeaves::slot_of(const Leaf& leaf, Fingerprint f, Location l) const noexcept {
  const IndexView where = view(leaf);
  const Cell wanted = Cell::of(f.signature, l);
  for (const std::uint32_t b : {where.first(f), where.second(f)}) {
    for (std::uint32_t m = ops_.probe(where.buckets + b, f.signature).same; m != 0; m &= m - 1) {
      const std::uint32_t slot = b * bucket_cells + static_cast<std::uint32_t>(std::countr_zero(m));
      if (cell(leaf, slot) == wanted) return slot;
    }
  }
  return no_slot;
}

// Moves one cell of two full buckets into its other bucket, and returns its slot: leaves are fuller when they are
// split. Two such steps in a row would gain little more.
std::uint32_t CellLeaves::displace(Leaf& leaf, std::uint32_t a, std::uint32_t b) noexcept {
  const IndexView where = view(leaf);
  for (std::uint32_t i = 0; i < 2 * bucket_cells; ++i) {
    const std::uint32_t bucket = i < bucket_cells ? a : b, slot = bucket * bucket_cells + i % bucket_cells;
    const Cell c = cell(leaf, slot);
    const std::uint32_t other = where.other(bucket, c.signature());
    if (other == a || other == b) continue;
    const std::uint32_t to = free_slot(leaf, other, other);
    if (to == no_slot) continue;
    const std::uint16_t place = places(leaf)[slot];
    std::uint16_t* const id = place != unsorted_place
                                  ? ids(leaf) + place
                                  : std::find(unsorted(leaf).id, unsorted(leaf).id + unsorted_max(), slot);
    *id = static_cast<std::uint16_t>(to);
    places(leaf)[to] = place;
    ScalarLanes::at(buckets(leaf)->cell + to).store(c.bits, std::memory_order_release);
    ScalarLanes::at(buckets(leaf)->cell + slot).store(0, std::memory_order_release);
    list(leaf, to);
    unlist(leaf, slot);
    return slot;
  }
  return no_slot;
}

bool CellLeaves::has_room(const Leaf& leaf, Fingerprint f) const noexcept {
  const IndexView where = view(leaf);
  for (const std::uint32_t b : {where.first(f), where.second(f)}) {
    if (ops_.probe(where.buckets + b, f.signature).empty != 0) return true;  // a slot with an id becomes free in add()
  }
  return false;
}

bool CellLeaves::finds_place(const Leaf& leaf, Fingerprint f) const noexcept {
  if (has_room(leaf, f)) return true;
  const IndexView where = view(leaf);
  const std::uint32_t a = where.first(f), b = where.second(f);
  for (const std::uint32_t bucket : {a, b}) {
    for (std::uint32_t i = 0; i < bucket_cells; ++i) {
      const std::uint32_t other = where.other(bucket, cell(leaf, bucket * bucket_cells + i).signature());
      if (other != a && other != b && ops_.probe(where.buckets + other, f.signature).empty != 0) return true;
    }
  }
  return false;
}

std::uint32_t CellLeaves::candidates(const Leaf& leaf, Fingerprint f, Location out[2 * bucket_cells]) const noexcept {
  const IndexView where = view(leaf);
  std::uint32_t n = 0;
  for (const std::uint32_t bucket : {where.first(f), where.second(f)}) {
    for (std::uint32_t i = 0; i < bucket_cells; ++i) {
      const Cell c = cell(leaf, bucket * bucket_cells + i);
      if (!c.empty()) out[n++] = static_cast<Location>(c.location());
    }
  }
  return n;
}

bool CellLeaves::add(Leaf& leaf, Fingerprint f, std::string_view key, Location l) noexcept {
  const IndexView where = view(leaf);
  const std::uint32_t a = where.first(f), b = where.second(f);
  std::uint32_t slot = free_slot(leaf, a, b);
  if (TD_UNLIKELY(slot == no_slot) && leaf.dead != 0) {
    purge(leaf);
    slot = free_slot(leaf, a, b);
  }
  if (TD_UNLIKELY(slot == no_slot)) slot = displace(leaf, a, b);
  if (TD_UNLIKELY(slot == no_slot)) return false;
  std::uint32_t behind = leaf.unsorted.load(std::memory_order_relaxed);
  if (TD_UNLIKELY(behind == unsorted_max())) {
    sort(leaf);
    behind = 0;
  }
  const std::uint32_t tail = tail_of(leaf, key), n = sorted(leaf);
  list(leaf, slot);
  ScalarLanes::at(buckets(leaf)->cell + slot).store(Cell::of(f.signature, l).bits, std::memory_order_release);
  if (behind == 0 && (n == 0 || tails(leaf)[n - 1] < tail)) {
    set_place(leaf, n, static_cast<std::uint16_t>(slot), tail, l);
    leaf.sorted.store(static_cast<std::uint16_t>(n + 1), std::memory_order_release);
  } else {
    unsorted(leaf).id[behind] = static_cast<std::uint16_t>(slot);
    unsorted(leaf).tail[behind] = tail;
    places(leaf)[slot] = unsorted_place;
    leaf.unsorted.store(static_cast<std::uint16_t>(behind + 1), std::memory_order_relaxed);
  }
  leaf.live.store(leaf.live.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}

bool CellLeaves::replace(Leaf& leaf, Fingerprint f, std::string_view, Location from, Location to) noexcept {
  const std::uint32_t slot = slot_of(leaf, f, from);
  if (slot == no_slot) return false;
  ScalarLanes::at(buckets(leaf)->cell + slot).store(Cell::of(f.signature, to).bits, std::memory_order_release);
  if (places(leaf)[slot] != unsorted_place) set_location(leaf, places(leaf)[slot], to);
  return true;
}

// Its id stays in the order until the next sort(), unless it is the last one; the slot is not used again before.
bool CellLeaves::remove(Leaf& leaf, Fingerprint f, std::string_view, Location l) noexcept {
  const std::uint32_t slot = slot_of(leaf, f, l);
  if (slot == no_slot) return false;
  ScalarLanes::at(buckets(leaf)->cell + slot).store(0, std::memory_order_release);
  if (places(leaf)[slot] != unsorted_place) set_location(leaf, places(leaf)[slot], no_location);
  leaf.live.store(leaf.live.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  const std::uint32_t n = sorted(leaf), behind = leaf.unsorted.load(std::memory_order_relaxed);
  if (behind != 0 && unsorted(leaf).id[behind - 1] == slot) {
    leaf.unsorted.store(static_cast<std::uint16_t>(behind - 1), std::memory_order_relaxed);
    unlist(leaf, slot);
  } else if (n != 0 && ids(leaf)[n - 1] == slot) {
    leaf.sorted.store(static_cast<std::uint16_t>(n - 1), std::memory_order_relaxed);
    unlist(leaf, slot);
  } else {
    ++leaf.dead;
  }
  return true;
}

void CellLeaves::purge(Leaf& leaf) noexcept {
  if (leaf.dead == 0) return;
  const auto keep = [&](std::uint32_t slot) {
    if (!cell(leaf, slot).empty()) return true;
    unlist(leaf, slot);
    return false;
  };
  std::uint32_t kept = 0;
  const std::uint32_t n = sorted(leaf);
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint16_t slot = ids(leaf)[i];
    if (!keep(slot)) continue;
    if (kept != i) set_place(leaf, kept, slot, tails(leaf)[i], location_at(leaf, i));
    ++kept;
  }
  leaf.sorted.store(static_cast<std::uint16_t>(kept), std::memory_order_relaxed);
  kept = 0;
  const std::uint32_t behind = leaf.unsorted.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < behind; ++i) {
    if (!keep(unsorted(leaf).id[i])) continue;
    unsorted(leaf).id[kept] = unsorted(leaf).id[i];
    unsorted(leaf).tail[kept] = unsorted(leaf).tail[i];
    ++kept;
  }
  leaf.unsorted.store(static_cast<std::uint16_t>(kept), std::memory_order_relaxed);
  leaf.dead = 0;
}

bool CellLeaves::is_less(const Leaf& leaf, std::uint32_t slot, std::uint32_t tail, std::uint32_t other,
                         std::uint32_t other_tail) const noexcept {
  if (tail != other_tail) return tail < other_tail;
  return key_at(cell(leaf, slot).location()) < key_at(cell(leaf, other).location());
}

void CellLeaves::sort_unsorted(Leaf& leaf, std::uint32_t n) noexcept {
  for (std::uint32_t i = 1; i < n; ++i) {
    const std::uint16_t slot = unsorted(leaf).id[i];
    const std::uint32_t tail = unsorted(leaf).tail[i];
    std::uint32_t at = i;
    for (; at != 0 && is_less(leaf, slot, tail, unsorted(leaf).id[at - 1], unsorted(leaf).tail[at - 1]); --at) {
      unsorted(leaf).id[at] = unsorted(leaf).id[at - 1];
      unsorted(leaf).tail[at] = unsorted(leaf).tail[at - 1];
    }
    unsorted(leaf).id[at] = slot;
    unsorted(leaf).tail[at] = tail;
  }
}

// From the back, so that each id moves once.
void CellLeaves::sort(Leaf& leaf) noexcept {
  purge(leaf);
  std::uint32_t behind = leaf.unsorted.load(std::memory_order_relaxed), n = sorted(leaf);
  if (behind == 0) return;
  sort_unsorted(leaf, behind);
  leaf.unsorted.store(0, std::memory_order_relaxed);
  const auto all = static_cast<std::uint16_t>(n + behind);
  const std::uint16_t* const id = ids(leaf);
  const std::uint32_t* const tail = tails(leaf);
  while (behind != 0) {
    const std::uint16_t slot = unsorted(leaf).id[behind - 1];
    const std::uint32_t its = unsorted(leaf).tail[behind - 1];
    const bool from_order = n != 0 && is_less(leaf, slot, its, id[n - 1], tail[n - 1]);
    const std::uint32_t to = n + behind - 1;
    if (from_order) {
      --n;
      set_place(leaf, to, id[n], tail[n], location_at(leaf, n));
    } else {
      --behind;
      set_place(leaf, to, slot, its, cell(leaf, slot).location());
    }
  }
  // Behind the entries: a reader follows none that was written for another purpose.
  leaf.sorted.store(all, std::memory_order_release);
}

// --- leaves that are not in the tree yet

void CellLeaves::make_empty(Leaf& leaf, const Fences& fences) const noexcept {
  SortedLeaves::make_empty(leaf, fences);
  std::memset(buckets(leaf), 0, cells_ * sizeof(std::uint64_t));
  std::memset(listed(leaf), 0, cells_ / bucket_cells);
}

void CellLeaves::append(Leaf& leaf, std::uint32_t slot, Cell c, std::uint32_t tail) const noexcept {
  const std::uint32_t n = sorted(leaf);
  ScalarLanes::at(buckets(leaf)->cell + slot).store(c.bits, std::memory_order_release);
  list(leaf, slot);
  set_place(leaf, n, static_cast<std::uint16_t>(slot), tail, static_cast<Location>(c.location()));
  leaf.sorted.store(static_cast<std::uint16_t>(n + 1), std::memory_order_relaxed);
  leaf.live.store(n + 1, std::memory_order_relaxed);
}

// A cell keeps its slot, so no key is hashed.
void CellLeaves::copy_keys(const Leaf& from, std::uint32_t begin, std::uint32_t end, Leaf& to,
                           bool keeps_tails) const noexcept {
  for (std::uint32_t i = begin; i < end; ++i) {
    const std::uint32_t slot = ids(from)[i];
    append(to, slot, cell(from, slot), keeps_tails ? tails(from)[i] : tail_of(to, key_at(location_at(from, i))));
  }
}

bool CellLeaves::add_keys(const Leaf& from, Leaf& to) const noexcept {
  const IndexView where = view(to);
  const std::uint32_t n = sorted(from);
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t slot = ids(from)[i], bucket = slot / bucket_cells;
    const Cell c = cell(from, slot);
    const std::uint32_t place = free_slot(to, bucket, where.other(bucket, c.signature()));
    if (place == no_slot) return false;
    append(to, place, c, tail_of(to, key_at(c.location())));
  }
  return true;
}

bool CellLeaves::is_correct(const Leaf& leaf) const {
  const std::uint32_t n = sorted(leaf), behind = leaf.unsorted.load(std::memory_order_relaxed);
  std::uint32_t live = 0, dead = 0, with_id = 0;
  std::string_view last;
  std::uint32_t last_tail = 0;
  for (std::uint32_t i = 0; i < n + behind; ++i) {
    const bool in_order = i < n;
    const std::uint32_t slot = in_order ? ids(leaf)[i] : unsorted(leaf).id[i - n];
    const std::uint32_t tail = in_order ? tails(leaf)[i] : unsorted(leaf).tail[i - n];
    if ((listed(leaf)[slot / bucket_cells] >> slot % bucket_cells & 1) == 0) return false;
    if (in_order && tail < last_tail) return false;
    if (in_order) last_tail = tail;
    if (in_order && (i + 1) % sample_step() == 0 && leaf.samples[i / sample_step()] != tail) return false;
    const Cell c = cell(leaf, slot);
    if (places(leaf)[slot] != (in_order ? i : unsorted_place)) return false;
    if (in_order && location_at(leaf, i) != c.location()) return false;
    if (c.empty()) {
      ++dead;
      continue;
    }
    ++live;
    const std::string_view key = key_at(c.location());
    if (tail != tail_of(leaf, key) || key < leaf.low() || (leaf.has_high && key >= leaf.high())) return false;
    if (in_order && live != 1 && key <= last) return false;
    if (in_order) last = key;
  }
  std::uint32_t used = 0;
  for (std::uint32_t b = 0; b < cells_ / bucket_cells; ++b) {
    with_id += static_cast<std::uint32_t>(std::popcount(listed(leaf)[b]));
    for (const std::uint64_t bits : buckets(leaf)[b].cell) used += bits != 0;
  }
  return used == live && live == leaf.live.load(std::memory_order_relaxed) && dead == leaf.dead &&
         with_id == n + behind;
}

}  // namespace tandem
