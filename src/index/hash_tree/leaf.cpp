#include "index/hash_tree/leaf.hpp"

#include <algorithm>
#include <new>

namespace tandem {

static_assert(leaf_cells_max <= 1u << 16 && sizeof(Leaf) % cache_line_bytes == 0);

std::uint32_t LeafTable::tail_of(const Leaf& leaf, std::string_view key) const noexcept {
  const std::string_view prefix = leaf.prefix();
  if (leaf.has_strangers) {
    const int order = key.substr(0, prefix.size()).compare(prefix);
    if (order != 0) return order < 0 ? 0 : ~0u;
  }
  if (key.size() <= prefix.size()) return 0;
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, key.data() + prefix.size(), std::min<std::size_t>(key.size() - prefix.size(), sizeof bytes));
  return std::endian::native == std::endian::little ? __builtin_bswap32(bytes) : bytes;
}

namespace {
// How many of `count` tails are below `tail`: each is compared, four at once. A writer may change them meanwhile, which
// ThreadSanitizer is shown one by one (racing_copy.hpp).
TD_INLINE std::uint32_t all_below(const std::uint32_t* tails, std::uint32_t count, std::uint32_t tail) noexcept {
  std::uint32_t below = 0, i = 0;
#if !TD_THREAD_SANITIZER
  typedef std::uint32_t Four __attribute__((vector_size(16), may_alias, aligned(4)));
  const Four limit = {tail, tail, tail, tail};
  Four sum = {};
  for (; i + 4 <= count; i += 4) sum -= Four(*reinterpret_cast<const volatile Four*>(tails + i) < limit);
  below = sum[0] + sum[1] + sum[2] + sum[3];
#endif
  for (; i < count; ++i) below += racing_load(tails[i]) < tail ? 1u : 0u;
  return below;
}

// How many of the ascending tails [begin, end) are below `tail`, and `begin`. Sixteen ways at a time: their loads do
// not wait for each other, as those of a binary search do.
std::uint32_t count_below(const std::uint32_t* tails, std::uint32_t begin, std::uint32_t end,
                          std::uint32_t tail) noexcept {
  constexpr std::uint32_t ways = 16, few = 32;
  while (end - begin > few) {
    const std::uint32_t step = (end - begin + ways - 1) / ways;
    std::uint32_t below = 0;
    for (std::uint32_t last = begin + step - 1; last < end; last += step)
      below += racing_load(tails[last]) < tail ? 1u : 0u;
    begin += below * step;
    end = std::min(end, begin + step);
  }
  return begin + all_below(tails + begin, end - begin, tail);
}
}  // namespace

// The first of the sample_step() tails, of `n` sorted ones, among which those below `tail` end. The samples are one
// cache line.
std::uint32_t LeafTable::step_below(const Leaf& leaf, std::uint32_t n, std::uint32_t tail) const noexcept {
  return all_below(leaf.samples, n >> sample_shift_, tail) << sample_shift_;
}

// How many of the leaf's `n` sorted tails are below `tail`. Lines of tails and locations come at once.
std::uint32_t LeafTable::count_below(const Leaf& leaf, std::uint32_t n, std::uint32_t tail) const noexcept {
  const std::uint32_t begin = step_below(leaf, n, tail);
  prefetch_read(locations(leaf) + begin);
  return tandem::count_below(tails(leaf), begin, std::min(begin + sample_step(), n), tail);
}

std::uint32_t LeafTable::step_of(const Leaf& leaf, std::string_view key) const noexcept {
  const std::uint32_t step = step_below(leaf, sorted(leaf), tail_of(leaf, key));
  constexpr std::uint32_t line = cache_line_bytes / sizeof(std::uint32_t);
  for (std::uint32_t i = step; i < step + sample_step(); i += line) prefetch_read(tails(leaf) + i);
  return step;
}

std::uint32_t LeafTable::find_in_step(const Leaf& leaf, std::uint32_t step, std::string_view key) const noexcept {
  const std::uint32_t end = std::min(step + sample_step(), sorted(leaf));
  return step < end ? tandem::count_below(tails(leaf), step, end, tail_of(leaf, key)) : end;
}

std::uint32_t LeafTable::lower_bound(const Leaf& leaf, std::uint32_t n, std::string_view key,
                                     std::uint32_t ahead) const noexcept {
  const std::uint32_t tail = tail_of(leaf, key);
  const std::uint32_t* const all = tails(leaf);
  std::uint32_t begin = count_below(leaf, n, tail);
  prefetch_items(leaf, begin, std::min(begin + ahead, n));
  const auto has_tail = [&](std::uint32_t i) { return i < n && racing_load(all[i]) == tail; };
  std::uint32_t end = has_tail(begin) ? begin + 1 : begin;
  if (end != begin && has_tail(end)) end = tail == ~std::uint32_t{0} ? n : tandem::count_below(all, begin, n, tail + 1);
  // Equal tails: the keys themselves decide. A removed one is gone; the next one that is there stands for it.
  while (begin < end) {
    const std::uint32_t middle = begin + (end - begin) / 2;
    std::uint32_t at = middle;
    Location l = no_location;
    while (at < end && (l = location_at(leaf, at)) == no_location) ++at;
    if (at < end && heap_.at(l)->key() < key) {
      begin = at + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// --- the latch's holder

std::uint32_t LeafTable::free_slots(const Leaf& leaf, std::uint32_t bucket) const noexcept {
  std::uint32_t used = listed(leaf)[bucket];
  const Bucket& b = buckets(leaf)[bucket];
  for (std::uint32_t i = 0; i < bucket_cells; ++i) used |= static_cast<std::uint32_t>(b.cell[i] != 0) << i;
  return ~used & ((1u << bucket_cells) - 1);
}

// In the first bucket while that has two, so that reads seldom look into the second one; then in the emptier one, so
// that leaves are fuller when they are split.
std::uint32_t LeafTable::free_slot(const Leaf& leaf, std::uint32_t a, std::uint32_t b) const noexcept {
  const auto first_of = [](std::uint32_t bucket, std::uint32_t slots) {
    return bucket * bucket_cells + static_cast<std::uint32_t>(std::countr_zero(slots));
  };
  const std::uint32_t in_a = free_slots(leaf, a);
  if ((in_a & (in_a - 1)) != 0) return first_of(a, in_a);
  const std::uint32_t in_b = free_slots(leaf, b);
  if ((in_a | in_b) == 0) return no_slot;
  return std::popcount(in_a) >= std::popcount(in_b) ? first_of(a, in_a) : first_of(b, in_b);
}

std::uint32_t LeafTable::slot_of(const Leaf& leaf, Fingerprint f, Location l) const noexcept {
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
std::uint32_t LeafTable::displace(Leaf& leaf, std::uint32_t a, std::uint32_t b) noexcept {
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
                                  : std::find(leaf.unsorted_id, leaf.unsorted_id + unsorted_max(), slot);
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

bool LeafTable::has_room(const Leaf& leaf, Fingerprint f) const noexcept {
  const IndexView where = view(leaf);
  for (const std::uint32_t b : {where.first(f), where.second(f)}) {
    if (ops_.probe(where.buckets + b, f.signature).empty != 0) return true;  // a slot with an id becomes free in add()
  }
  return false;
}

bool LeafTable::finds_place(const Leaf& leaf, Fingerprint f) const noexcept {
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

bool LeafTable::add(Leaf& leaf, Fingerprint f, std::string_view key, Location l) noexcept {
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
    leaf.unsorted_id[behind] = static_cast<std::uint16_t>(slot);
    leaf.unsorted_tail[behind] = tail;
    places(leaf)[slot] = unsorted_place;
    leaf.unsorted.store(static_cast<std::uint16_t>(behind + 1), std::memory_order_relaxed);
  }
  leaf.live.store(leaf.live.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}

bool LeafTable::replace(Leaf& leaf, Fingerprint f, Location from, Location to) noexcept {
  const std::uint32_t slot = slot_of(leaf, f, from);
  if (slot == no_slot) return false;
  ScalarLanes::at(buckets(leaf)->cell + slot).store(Cell::of(f.signature, to).bits, std::memory_order_release);
  if (places(leaf)[slot] != unsorted_place) set_location(leaf, places(leaf)[slot], to);
  return true;
}

// Its id stays in the order until the next sort(), unless it is the last one; the slot is not used again before.
bool LeafTable::remove(Leaf& leaf, Fingerprint f, Location l) noexcept {
  const std::uint32_t slot = slot_of(leaf, f, l);
  if (slot == no_slot) return false;
  ScalarLanes::at(buckets(leaf)->cell + slot).store(0, std::memory_order_release);
  if (places(leaf)[slot] != unsorted_place) set_location(leaf, places(leaf)[slot], no_location);
  leaf.live.store(leaf.live.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  const std::uint32_t n = sorted(leaf), behind = leaf.unsorted.load(std::memory_order_relaxed);
  if (behind != 0 && leaf.unsorted_id[behind - 1] == slot) {
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

void LeafTable::purge(Leaf& leaf) noexcept {
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
    if (!keep(leaf.unsorted_id[i])) continue;
    leaf.unsorted_id[kept] = leaf.unsorted_id[i];
    leaf.unsorted_tail[kept] = leaf.unsorted_tail[i];
    ++kept;
  }
  leaf.unsorted.store(static_cast<std::uint16_t>(kept), std::memory_order_relaxed);
  leaf.dead = 0;
}

bool LeafTable::is_less(const Leaf& leaf, std::uint32_t slot, std::uint32_t tail, std::uint32_t other,
                        std::uint32_t other_tail) const noexcept {
  if (tail != other_tail) return tail < other_tail;
  return key_at(leaf, slot) < key_at(leaf, other);
}

void LeafTable::sort_unsorted(Leaf& leaf, std::uint32_t n) noexcept {
  for (std::uint32_t i = 1; i < n; ++i) {
    const std::uint16_t slot = leaf.unsorted_id[i];
    const std::uint32_t tail = leaf.unsorted_tail[i];
    std::uint32_t at = i;
    for (; at != 0 && is_less(leaf, slot, tail, leaf.unsorted_id[at - 1], leaf.unsorted_tail[at - 1]); --at) {
      leaf.unsorted_id[at] = leaf.unsorted_id[at - 1];
      leaf.unsorted_tail[at] = leaf.unsorted_tail[at - 1];
    }
    leaf.unsorted_id[at] = slot;
    leaf.unsorted_tail[at] = tail;
  }
}

// From the back, so that each id moves once.
void LeafTable::sort(Leaf& leaf) noexcept {
  purge(leaf);
  std::uint32_t behind = leaf.unsorted.load(std::memory_order_relaxed), n = sorted(leaf);
  if (behind == 0) return;
  sort_unsorted(leaf, behind);
  leaf.unsorted.store(0, std::memory_order_relaxed);
  const auto all = static_cast<std::uint16_t>(n + behind);
  const std::uint16_t* const id = ids(leaf);
  const std::uint32_t* const tail = tails(leaf);
  while (behind != 0) {
    const std::uint16_t slot = leaf.unsorted_id[behind - 1];
    const std::uint32_t its = leaf.unsorted_tail[behind - 1];
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

void LeafTable::make_empty(Leaf& leaf, const Fences& fences) const noexcept {
  leaf.live.store(0, std::memory_order_relaxed);
  leaf.sorted.store(0, std::memory_order_relaxed);
  leaf.unsorted.store(0, std::memory_order_relaxed);
  leaf.dead = 0;
  leaf.has_high = fences.has_high;
  leaf.low_bytes = static_cast<std::uint8_t>(fences.low.size());
  leaf.high_bytes = static_cast<std::uint8_t>(fences.high.size());
  std::copy(fences.low.begin(), fences.low.end(), leaf.low_key);
  std::copy(fences.high.begin(), fences.high.end(), leaf.high_key);
  std::memset(buckets(leaf), 0, cells_ * sizeof(std::uint64_t));
  std::memset(listed(leaf), 0, cells_ / bucket_cells);
  leaf.prefix_bytes = 0;
  leaf.has_strangers = false;
}

// What the leaf's keys have in common now, if that is more than its fences have; other keys are told apart by
// tail_of().
void LeafTable::choose_prefix(Leaf& leaf, std::string_view first, std::string_view last) const noexcept {
  const std::size_t of_fences = leaf.has_high ? common_bytes(leaf.low(), leaf.high()) : 0;
  const std::size_t of_keys = first.data() == last.data() ? 0 : common_bytes(first, last);
  leaf.has_strangers = of_keys > of_fences;
  const std::string_view prefix = leaf.has_strangers ? first.substr(0, of_keys) : leaf.low().substr(0, of_fences);
  leaf.prefix_bytes = static_cast<std::uint8_t>(prefix.size());
  std::copy(prefix.begin(), prefix.end(), leaf.prefix_key);
}

void LeafTable::append(Leaf& leaf, std::uint32_t slot, Cell c, std::uint32_t tail) const noexcept {
  const std::uint32_t n = sorted(leaf);
  ScalarLanes::at(buckets(leaf)->cell + slot).store(c.bits, std::memory_order_release);
  list(leaf, slot);
  set_place(leaf, n, static_cast<std::uint16_t>(slot), tail, static_cast<Location>(c.location()));
  leaf.sorted.store(static_cast<std::uint16_t>(n + 1), std::memory_order_relaxed);
  leaf.live.store(n + 1, std::memory_order_relaxed);
}

// A cell keeps its slot, so no key is hashed. Where the prefix stays what it is, and it grows in one split of many, so
// do the tails, and no item is read.
void LeafTable::split(const Leaf& from, std::string_view above, Leaf& left, Leaf& right) const noexcept {
  const std::uint32_t n = sorted(from);
  const auto key = [&](std::uint32_t i) { return heap_.at(location_at(from, i))->key(); };
  const bool ascends = n >= 16 && above > key(n - 1);
  const std::uint32_t middle = ascends ? n - n / 16 : n / 2;
  // The shortest key that is above the left one's last key, and not above the right one's first.
  const std::string_view cut = key(middle).substr(0, common_bytes(key(middle - 1), key(middle)) + 1);
  make_empty(left, {from.low(), cut, true});
  make_empty(right, {cut, from.high(), from.has_high});
  choose_prefix(left, key(0), key(middle - 1));
  choose_prefix(right, key(middle), key(n - 1));
  const auto fill = [&](Leaf& to, std::uint32_t begin, std::uint32_t end) {
    const bool keeps_tails = to.prefix() == from.prefix();
    for (std::uint32_t i = begin; i < end && !keeps_tails; ++i) prefetch_read(heap_.at(location_at(from, i)));
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::uint32_t slot = ids(from)[i];
      append(to, slot, cell(from, slot), keeps_tails ? tails(from)[i] : tail_of(to, key(i)));
    }
  };
  fill(left, 0, middle);
  fill(right, middle, n);
}

bool LeafTable::merge(const Leaf& left, const Leaf& right, Leaf& to) const noexcept {
  make_empty(to, {left.low(), right.high(), right.has_high});
  const std::uint32_t in_left = sorted(left), in_right = sorted(right);
  if (in_left != 0 && in_right != 0)
    choose_prefix(to, heap_.at(location_at(left, 0))->key(), heap_.at(location_at(right, in_right - 1))->key());
  const IndexView where = view(to);
  for (const Leaf* const from : {&left, &right}) {
    for (std::uint32_t i = 0; i < (from == &left ? in_left : in_right); ++i) {
      const std::uint32_t slot = ids(*from)[i], bucket = slot / bucket_cells;
      const Cell c = cell(*from, slot);
      const std::uint32_t place = free_slot(to, bucket, where.other(bucket, c.signature()));
      if (place == no_slot) return false;
      append(to, place, c, tail_of(to, heap_.at(c.location())->key()));
    }
  }
  return true;
}

bool LeafTable::is_correct(const Leaf& leaf) const {
  const std::uint32_t n = sorted(leaf), behind = leaf.unsorted.load(std::memory_order_relaxed);
  std::uint32_t live = 0, dead = 0, with_id = 0;
  std::string_view last;
  std::uint32_t last_tail = 0;
  for (std::uint32_t i = 0; i < n + behind; ++i) {
    const bool in_order = i < n;
    const std::uint32_t slot = in_order ? ids(leaf)[i] : leaf.unsorted_id[i - n];
    const std::uint32_t tail = in_order ? tails(leaf)[i] : leaf.unsorted_tail[i - n];
    if ((listed(leaf)[slot / bucket_cells] >> slot % bucket_cells & 1) == 0) return false;
    if (in_order && tail < last_tail) return false;
    if (in_order) last_tail = tail;
    if (in_order && (i + 1) % sample_step() == 0 && leaf.samples[i >> sample_shift_] != tail) return false;
    const Cell c = cell(leaf, slot);
    if (places(leaf)[slot] != (in_order ? i : unsorted_place)) return false;
    if (in_order && location_at(leaf, i) != c.location()) return false;
    if (c.empty()) {
      ++dead;
      continue;
    }
    ++live;
    const std::string_view key = heap_.at(c.location())->key();
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
