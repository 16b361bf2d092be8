// What both kinds of leaf do alike: their keys are in the order of tails, and those with equal tails in the order of
// the keys themselves, which are the items' own.
//
// `Own` is the kind. It says where its tails and locations are, adds and removes keys, and fills leaves from others.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/platform.hpp"
#include "heap/heap.hpp"
#include "heap/item.hpp"
#include "index/hash_tree/leaf.hpp"

namespace tandem {

// How many of `count` words are below those of `limit`, which repeats: each is compared, four at once. A writer may
// change them meanwhile, which ThreadSanitizer is shown one by one (racing_copy.hpp).
TD_INLINE std::uint32_t words_below(const std::uint32_t* words, std::uint32_t count, std::uint64_t limit) noexcept {
  std::uint32_t below = 0, i = 0;
  const auto pair = std::bit_cast<std::array<std::uint32_t, 2>>(limit);
#if !TD_THREAD_SANITIZER
  typedef std::uint32_t Four __attribute__((vector_size(16), may_alias, aligned(4)));
  const Four limits = {pair[0], pair[1], pair[0], pair[1]};
  Four sum = {};
  for (; i + 4 <= count; i += 4) sum -= Four(*reinterpret_cast<const volatile Four*>(words + i) < limits);
  below = sum[0] + sum[1] + sum[2] + sum[3];
#endif
  for (; i < count; ++i) below += racing_load(words[i]) < pair[i % 2] ? 1u : 0u;
  return below;
}

// Whether the key begins with `count` bytes, of which there are at least 8 to read.
TD_INLINE bool begins_with(std::string_view key, const char* prefix, std::size_t count) noexcept {
  std::uint64_t a, b;
  if (TD_UNLIKELY(key.size() < sizeof a || count > sizeof a || std::endian::native != std::endian::little))
    return key.substr(0, count) == std::string_view(prefix, count);
  std::memcpy(&a, key.data(), sizeof a);
  std::memcpy(&b, prefix, sizeof b);
  return ((a ^ b) << (64 - 8 * count)) == 0;
}

template <class Own>
class SortedLeaves {
 public:
  // Keys that a leaf has at most.
  std::uint32_t cells() const noexcept { return cells_; }

  // --- any thread in an epoch

  TD_INLINE Heap::Items items() const noexcept { return heap_.items(); }
  TD_INLINE Item* item(Location l) const noexcept { return items().at(l); }
  std::uint32_t sorted(const Leaf& leaf) const noexcept {
    const std::uint32_t n = leaf.sorted.load(std::memory_order_acquire);
    return n < cells_ ? n : cells_;
  }
  // Index of the first of `n` sorted keys that is not below `key`. Removed ones may stand before it. Fetches `ahead`
  // items from about there.
  std::uint32_t lower_bound(const Leaf& leaf, std::uint32_t n, std::string_view key,
                            std::uint32_t ahead) const noexcept;
  void prefetch_items(const Leaf& leaf, std::uint32_t begin, std::uint32_t end) const noexcept {
    for (std::uint32_t i = begin; i < end; ++i) prefetch_read(item(own().location_at(leaf, i)));
  }
  // lower_bound() in two steps, for hints: the first of the few keys among which it is (fetches their tails); then
  // about which of them it is.
  std::uint32_t step_of(const Leaf& leaf, std::string_view key) const noexcept {
    const std::uint32_t step = step_below(leaf, sorted(leaf), tail_of(leaf, key));
    own().prefetch_tails(leaf, step, step + sample_step());
    return step;
  }
  std::uint32_t find_in_step(const Leaf& leaf, std::uint32_t step, std::string_view key) const noexcept {
    const std::uint32_t end = std::min(step + sample_step(), sorted(leaf));
    return step < end ? count_below(leaf, step, end, tail_of(leaf, key)) : end;
  }
  // 4 bytes of the key behind the leaf's prefix: of two keys the lower one's are not higher.
  std::uint32_t tail_of(const Leaf& leaf, std::string_view key) const noexcept;

  // --- leaves that are not in the tree yet

  struct Fences {
    std::string_view low, high;
    bool has_high;
  };
  void make_empty(Leaf& leaf, const Fences& fences) const noexcept;
  // Fills both from `from`, cut at the median key. REQUIRES: `from` is latched, sorted, and has two keys.
  void split(const Leaf& from, std::string_view above, Leaf& left, Leaf& right) const noexcept;
  // Fills `to` from two neighbours. False: not all keys have a place. REQUIRES: both are latched and sorted.
  bool merge(const Leaf& left, const Leaf& right, Leaf& to) const noexcept;

 private:
  friend Own;
  SortedLeaves(std::uint32_t cells, Heap& heap) noexcept
      : heap_(heap), cells_(cells), sample_shift_(std::countr_zero(cells / leaf_samples)) {}

 protected:
  ~SortedLeaves() = default;

  static std::byte* memory(const Leaf& leaf) noexcept { return reinterpret_cast<std::byte*>(const_cast<Leaf*>(&leaf)); }
  std::uint32_t sample_step() const noexcept { return 1u << sample_shift_; }
  std::uint32_t unsorted_max() const noexcept { return cells_ < leaf_unsorted_max ? cells_ : leaf_unsorted_max; }
  void set_sample(const Leaf& leaf, std::uint32_t i, std::uint32_t tail) const noexcept {
    if ((i + 1) % sample_step() == 0) racing_store(const_cast<Leaf&>(leaf).samples[i >> sample_shift_], tail);
  }
  // How many of the leaf's `n` sorted tails are below `tail`. Lines of tails and locations come at once.
  std::uint32_t count_below(const Leaf& leaf, std::uint32_t n, std::uint32_t tail) const noexcept {
    const std::uint32_t begin = step_below(leaf, n, tail);
    own().prefetch_location(leaf, begin);
    return count_below(leaf, begin, std::min(begin + sample_step(), n), tail);
  }
  std::string_view key_at(Location l) const noexcept { return heap_.at(l)->key(); }
  // Adds keys of `from` behind those of `to`.
  void fill(const Leaf& from, std::uint32_t begin, std::uint32_t end, Leaf& to) const noexcept;

  Heap& heap_;
  const std::uint32_t cells_;

 private:
  const Own& own() const noexcept { return static_cast<const Own&>(*this); }
  // The first of the sample_step() tails, of `n` sorted ones, among which those below `tail` end. The samples are one
  // cache line.
  std::uint32_t step_below(const Leaf& leaf, std::uint32_t n, std::uint32_t tail) const noexcept {
    return words_below(leaf.samples, n >> sample_shift_, std::uint64_t{tail} << 32 | tail) << sample_shift_;
  }
  std::uint32_t count_below(const Leaf& leaf, std::uint32_t begin, std::uint32_t end,
                            std::uint32_t tail) const noexcept;
  void choose_prefix(Leaf& leaf, std::string_view first, std::string_view last) const noexcept;

  const int sample_shift_;
};

template <class Own>
std::uint32_t SortedLeaves<Own>::tail_of(const Leaf& leaf, std::string_view key) const noexcept {
  const std::size_t prefix_bytes = leaf.prefix_bytes;
  if (leaf.has_strangers && TD_UNLIKELY(!begins_with(key, leaf.prefix_key, prefix_bytes)))
    return key < leaf.prefix() ? 0 : ~0u;
  std::uint32_t bytes = 0;
  if (TD_LIKELY(key.size() >= prefix_bytes + sizeof bytes)) {
    std::memcpy(&bytes, key.data() + prefix_bytes, sizeof bytes);
  } else if (key.size() > prefix_bytes) {
    std::memcpy(&bytes, key.data() + prefix_bytes, key.size() - prefix_bytes);
  }
  return std::endian::native == std::endian::little ? __builtin_bswap32(bytes) : bytes;
}

// How many of the ascending tails [begin, end) are below `tail`, and `begin`. Sixteen ways at a time: their loads do
// not wait for each other, as those of a binary search do.
template <class Own>
std::uint32_t SortedLeaves<Own>::count_below(const Leaf& leaf, std::uint32_t begin, std::uint32_t end,
                                             std::uint32_t tail) const noexcept {
  constexpr std::uint32_t ways = 16, few = 32;
  while (end - begin > few) {
    const std::uint32_t step = (end - begin + ways - 1) / ways;
    std::uint32_t below = 0;
    for (std::uint32_t last = begin + step - 1; last < end; last += step)
      below += own().tail_at(leaf, last) < tail ? 1u : 0u;
    begin += below * step;
    end = std::min(end, begin + step);
  }
  return begin + own().tails_below(leaf, begin, end, tail);
}

template <class Own>
std::uint32_t SortedLeaves<Own>::lower_bound(const Leaf& leaf, std::uint32_t n, std::string_view key,
                                             std::uint32_t ahead) const noexcept {
  const std::uint32_t tail = tail_of(leaf, key);
  std::uint32_t begin = count_below(leaf, n, tail);
  prefetch_items(leaf, begin, std::min(begin + ahead, n));
  const auto has_tail = [&](std::uint32_t i) { return i < n && own().tail_at(leaf, i) == tail; };
  std::uint32_t end = has_tail(begin) ? begin + 1 : begin;
  if (end != begin && has_tail(end)) end = tail == ~std::uint32_t{0} ? n : count_below(leaf, begin, n, tail + 1);
  // Equal tails: the keys themselves decide. A removed one is gone; the next one that is there stands for it.
  while (begin < end) {
    const std::uint32_t middle = begin + (end - begin) / 2;
    std::uint32_t at = middle;
    Location l = no_location;
    while (at < end && (l = own().location_at(leaf, at)) == no_location) ++at;
    if (at < end && key_at(l) < key) {
      begin = at + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// --- leaves that are not in the tree yet

template <class Own>
void SortedLeaves<Own>::make_empty(Leaf& leaf, const Fences& fences) const noexcept {
  leaf.live.store(0, std::memory_order_relaxed);
  leaf.sorted.store(0, std::memory_order_relaxed);
  leaf.unsorted.store(0, std::memory_order_relaxed);
  leaf.dead = 0;
  leaf.has_high = fences.has_high;
  leaf.low_bytes = static_cast<std::uint8_t>(fences.low.size());
  leaf.high_bytes = static_cast<std::uint8_t>(fences.high.size());
  std::copy(fences.low.begin(), fences.low.end(), leaf.low_key);
  std::copy(fences.high.begin(), fences.high.end(), leaf.high_key);
  leaf.prefix_bytes = 0;
  leaf.has_strangers = false;
}

// What the leaf's keys have in common now, if that is more than its fences have; other keys are told apart by
// tail_of().
template <class Own>
void SortedLeaves<Own>::choose_prefix(Leaf& leaf, std::string_view first, std::string_view last) const noexcept {
  const std::size_t of_fences = leaf.has_high ? common_bytes(leaf.low(), leaf.high()) : 0;
  const std::size_t of_keys = first.data() == last.data() ? 0 : common_bytes(first, last);
  leaf.has_strangers = of_keys > of_fences;
  const std::string_view prefix = leaf.has_strangers ? first.substr(0, of_keys) : leaf.low().substr(0, of_fences);
  leaf.prefix_bytes = static_cast<std::uint8_t>(prefix.size());
  std::copy(prefix.begin(), prefix.end(), leaf.prefix_key);
}

// Where the prefix stays what it is, and it grows in one split of many, so do the tails, and no item is read.
template <class Own>
void SortedLeaves<Own>::fill(const Leaf& from, std::uint32_t begin, std::uint32_t end, Leaf& to) const noexcept {
  const bool keeps_tails = to.prefix() == from.prefix();
  if (!keeps_tails) prefetch_items(from, begin, end);
  own().copy_keys(from, begin, end, to, keeps_tails);
}

template <class Own>
void SortedLeaves<Own>::split(const Leaf& from, std::string_view above, Leaf& left, Leaf& right) const noexcept {
  const std::uint32_t n = sorted(from);
  const auto key = [&](std::uint32_t i) { return key_at(own().location_at(from, i)); };
  const bool ascends = n >= 16 && above > key(n - 1);
  const std::uint32_t middle = ascends ? n - n / 16 : n / 2;
  // The shortest key that is above the left one's last key, and not above the right one's first.
  const std::string_view cut = key(middle).substr(0, common_bytes(key(middle - 1), key(middle)) + 1);
  own().make_empty(left, {from.low(), cut, true});
  own().make_empty(right, {cut, from.high(), from.has_high});
  choose_prefix(left, key(0), key(middle - 1));
  // Of ascending keys as many more follow, with what as many before had in common.
  choose_prefix(right, key(ascends ? 0 : middle), ascends ? above : key(n - 1));
  fill(from, 0, middle, left);
  fill(from, middle, n, right);
}

template <class Own>
bool SortedLeaves<Own>::merge(const Leaf& left, const Leaf& right, Leaf& to) const noexcept {
  own().make_empty(to, {left.low(), right.high(), right.has_high});
  const std::uint32_t in_left = sorted(left), in_right = sorted(right);
  if (in_left != 0 && in_right != 0)
    choose_prefix(to, key_at(own().location_at(left, 0)), key_at(own().location_at(right, in_right - 1)));
  return own().add_keys(left, to) && own().add_keys(right, to);
}

}  // namespace tandem
