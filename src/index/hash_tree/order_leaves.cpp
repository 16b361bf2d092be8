#include "index/hash_tree/order_leaves.hpp"

#include <algorithm>
#include <cstring>

namespace tandem {

std::uint32_t OrderLeaves::candidates(const Leaf& leaf, Fingerprint f, Location out[candidates_max]) const noexcept {
  const std::uint32_t all = std::min(sorted(leaf) + leaf.unsorted.load(std::memory_order_relaxed), cells_);
  const std::uint32_t step = std::max(all / candidates_max, 1u);
  std::uint32_t n = 0;
  for (std::uint32_t i = f.hash % step; i < all && n < candidates_max; i += step) {
    if (const Location l = location_at(leaf, i); l != no_location) out[n++] = l;
  }
  return n;
}

// --- the latch's holder

// Index of the key's entry, or no_entry. Equal tails are told apart by the location: no item is read.
std::uint32_t OrderLeaves::find(const Leaf& leaf, std::string_view key, Location l) const noexcept {
  const std::uint32_t tail = tail_of(leaf, key), n = sorted(leaf);
  const Entry* const all = entries(leaf);
  const Entry wanted = entry_of(tail, l);
  for (std::uint32_t i = count_below(leaf, n, tail); i < n && tail_of(all[i]) == tail; ++i) {
    if (all[i] == wanted) return i;
  }
  const Entry *const begin = all + n, *const end = begin + leaf.unsorted.load(std::memory_order_relaxed);
  const Entry* const at = std::find(begin, end, wanted);
  return at != end ? static_cast<std::uint32_t>(at - all) : no_entry;
}

// A key above all others belongs where it arrives.
bool OrderLeaves::add(Leaf& leaf, Fingerprint, std::string_view key, Location l) noexcept {
  const std::uint32_t live = leaf.live.load(std::memory_order_relaxed);
  std::uint32_t n = sorted(leaf), behind = leaf.unsorted.load(std::memory_order_relaxed);
  if (TD_UNLIKELY(behind == unsorted_max() || n + behind == cells_)) {
    if (live == cells_) return false;
    sort(leaf);
    n = sorted(leaf);
    behind = 0;
  }
  const std::uint32_t tail = tail_of(leaf, key);
  Entry* const all = entries(leaf);
  store(all[n + behind], entry_of(tail, l));
  const auto is_below_key = [&](Entry e) {
    return tail_of(e) != tail ? tail_of(e) < tail : location_of(e) != no_location && key_at(location_of(e)) < key;
  };
  if (behind == 0 && (n == 0 || is_below_key(all[n - 1]))) {
    set_sample(leaf, n, tail);
    leaf.sorted.store(static_cast<std::uint16_t>(n + 1), std::memory_order_release);
  } else {
    leaf.unsorted.store(static_cast<std::uint16_t>(behind + 1), std::memory_order_relaxed);
  }
  leaf.live.store(live + 1, std::memory_order_relaxed);
  return true;
}

bool OrderLeaves::replace(Leaf& leaf, Fingerprint, std::string_view key, Location from, Location to) noexcept {
  const std::uint32_t i = find(leaf, key, from);
  if (i == no_entry) return false;
  Entry& e = entries(leaf)[i];
  store(e, entry_of(tail_of(e), to));
  return true;
}

// The last entry goes at once, another one with the next sort().
bool OrderLeaves::remove(Leaf& leaf, Fingerprint, std::string_view key, Location l) noexcept {
  const std::uint32_t i = find(leaf, key, l);
  if (i == no_entry) return false;
  Entry& e = entries(leaf)[i];
  store(e, e & ~location_mask);
  leaf.live.store(leaf.live.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  const std::uint32_t n = sorted(leaf), behind = leaf.unsorted.load(std::memory_order_relaxed);
  if (i + 1 != n + behind) {
    ++leaf.dead;
  } else if (behind != 0) {
    leaf.unsorted.store(static_cast<std::uint16_t>(behind - 1), std::memory_order_relaxed);
  } else {
    leaf.sorted.store(static_cast<std::uint16_t>(n - 1), std::memory_order_relaxed);
  }
  return true;
}

void OrderLeaves::set_samples(const Leaf& leaf, std::uint32_t begin, std::uint32_t end) const noexcept {
  for (std::uint32_t i = begin | (sample_step() - 1); i < end; i += sample_step())
    set_sample(leaf, i, tail_of(entries(leaf)[i]));
}

void OrderLeaves::purge(Leaf& leaf) noexcept {
  if (TD_LIKELY(leaf.dead == 0)) return;
  Entry* const all = entries(leaf);
  const std::uint32_t n = sorted(leaf), end = n + leaf.unsorted.load(std::memory_order_relaxed);
  std::uint32_t kept = 0, kept_sorted = 0;
  for (std::uint32_t i = 0; i < end; ++i) {
    const Entry e = all[i];
    if (location_of(e) == no_location) continue;
    if (kept != i) store(all[kept], e);
    ++kept;
    if (i < n) kept_sorted = kept;
  }
  set_samples(leaf, 0, kept_sorted);
  leaf.sorted.store(static_cast<std::uint16_t>(kept_sorted), std::memory_order_relaxed);
  leaf.unsorted.store(static_cast<std::uint16_t>(kept - kept_sorted), std::memory_order_relaxed);
  leaf.dead = 0;
}

// From the back, so that each entry moves once, and those below all unsorted ones not at all.
void OrderLeaves::sort(Leaf& leaf) noexcept {
  purge(leaf);
  const std::uint32_t n = sorted(leaf), behind = leaf.unsorted.load(std::memory_order_relaxed);
  if (behind == 0) return;
  Entry* const all = entries(leaf);
  Entry fresh[leaf_unsorted_max];
  std::copy_n(all + n, behind, fresh);
  std::sort(fresh, fresh + behind);
  for (std::uint32_t i = 1; i < behind; ++i) {
    if (TD_LIKELY(tail_of(fresh[i - 1]) != tail_of(fresh[i]))) continue;
    std::sort(fresh, fresh + behind, [this](Entry a, Entry b) { return is_above(b, a); });
    break;
  }
  std::uint32_t end = n;
  for (std::uint32_t left = behind; left != 0; --left) {
    const Entry e = fresh[left - 1];
    for (;;) {
      for (; end != 0 && all[end - 1] > (e | location_mask); --end) store(all[end - 1 + left], all[end - 1]);
      if (TD_LIKELY(end == 0 || !is_above(all[end - 1], e))) break;
      store(all[end - 1 + left], all[end - 1]);
      --end;
    }
    store(all[end - 1 + left], e);
  }
  set_samples(leaf, end, n + behind);
  leaf.unsorted.store(0, std::memory_order_relaxed);
  // Behind the entries: a reader follows none that was written for another purpose.
  leaf.sorted.store(static_cast<std::uint16_t>(n + behind), std::memory_order_release);
}

// --- leaves that are not in the tree yet

void OrderLeaves::copy_keys(const Leaf& from, std::uint32_t begin, std::uint32_t end, Leaf& to,
                            bool keeps_tails) const noexcept {
  const std::uint32_t n = sorted(to), all = n + end - begin;
  const Entry* const source = entries(from) + begin;
  Entry* const target = entries(to) + n;
  if (TD_LIKELY(keeps_tails)) {
    std::memcpy(target, source, (end - begin) * sizeof(Entry));
  } else {
    std::transform(source, source + (end - begin), target,
                   [&](Entry e) { return entry_of(tail_of(to, key_at(location_of(e))), location_of(e)); });
  }
  set_samples(to, n, all);
  to.sorted.store(static_cast<std::uint16_t>(all), std::memory_order_relaxed);
  to.live.store(all, std::memory_order_relaxed);
}

bool OrderLeaves::add_keys(const Leaf& from, Leaf& to) const noexcept {
  const std::uint32_t n = sorted(from);
  if (sorted(to) + n > cells_) return false;
  fill(from, 0, n, to);
  return true;
}

bool OrderLeaves::is_correct(const Leaf& leaf) const {
  const std::uint32_t n = sorted(leaf), behind = leaf.unsorted.load(std::memory_order_relaxed);
  if (n + behind > cells_ || behind > unsorted_max()) return false;
  std::uint32_t dead = 0, last_tail = 0;
  std::string_view last;
  for (std::uint32_t i = 0; i < n + behind; ++i) {
    const Entry e = entries(leaf)[i];
    if (i < n && tail_of(e) < last_tail) return false;
    if (i < n) last_tail = tail_of(e);
    if (i < n && (i + 1) % sample_step() == 0 && leaf.samples[i / sample_step()] != tail_of(e)) return false;
    if (location_of(e) == no_location) {
      ++dead;
      continue;
    }
    const std::string_view key = key_at(location_of(e));
    if (tail_of(e) != tail_of(leaf, key) || key < leaf.low() || (leaf.has_high && key >= leaf.high())) return false;
    if (i < n && key <= last) return false;  // which is empty before the first one
    if (i < n) last = key;
  }
  return dead == leaf.dead && n + behind - dead == leaf.live.load(std::memory_order_relaxed);
}

}  // namespace tandem
