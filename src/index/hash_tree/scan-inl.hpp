// Scans, leaf by leaf. Within a leaf a scan is the reader of a sequence lock: it loads the version, collects items in
// the order of their keys, and loads the version again. What it follows meanwhile is bounded by the leaf, and items
// stay readable during the epoch.
#pragma once
#include <algorithm>

#include "index/hash_tree/key_tree.hpp"

namespace tandem {

template <class Leaves>
class KeyTree<Leaves>::Scan {
 public:
  Scan(KeyTree& tree, const ScanRange& range, std::uint32_t most, ScanCopies& copies, ScanStamp& stamp) noexcept
      : tree_(tree), range_(range), copies_(copies), stamp_(stamp), begin_(copies.count()), end_(begin_ + most) {
    TD_ASSERT(end_ <= copies.capacity());
  }

  ScanResult run() noexcept {
    if (begin_ == end_) return {};
    // A bound is searched for in the leaf with fences around it.
    if (!range_.end.empty() && range_.begin >= range_.end) {
      stamp_.clear();
      return {0, true};
    }
    for (int in_vain = 0;;) {
      stamp_.clear();
      copies_.cut(begin_);
      at_ = range_.reverse ? range_.end : range_.begin;
      is_open_ = range_.reverse && range_.end.empty();
      last_live_ = no_leaf;
      Step step = Step::next;
      while (step == Step::next) step = stamp_.is_full() ? Step::full : read_next();
      if (step == Step::done) return {count(), true};
      if (step != Step::again && count() != 0) return {count(), false};
      // So many leaves without an item: they have been, or have to be, merged. Leaves that this retires are free only
      // behind this epoch.
      constexpr int in_vain_max = 3;
      if (step != Step::full) continue;
      if (++in_vain == in_vain_max) return {0, false};
      merge_empty();
    }
  }

 private:
  enum class Step : std::uint8_t { next, done, full, again };
  static constexpr std::uint32_t no_leaf = ~0u;
  static constexpr std::uint32_t merges_max = 4;   // of one scan, while it finds items
  static constexpr std::int32_t items_ahead = 32;  // prefetched before they are read

  Leaf* next_leaf() const noexcept {
    if (!range_.reverse) return tree_.inner_.leaf_of(at_);
    return is_open_ ? tree_.inner_.last_leaf() : tree_.inner_.leaf_below(at_);
  }

  // Waits until no writer holds the leaf, and has its ids sorted. False: it has been replaced.
  bool settle(Leaf& leaf, std::uint64_t& version) const noexcept {
    for (SpinWait waiting;;) {
      version = leaf.version.load(std::memory_order_acquire);
      if ((version & leaf_retired) != 0) return false;
      if ((version & leaf_latched) != 0) {
        waiting.once();
        continue;
      }
      if (leaf.unsorted.load(std::memory_order_relaxed) == 0) return true;
      if (!leaf.try_latch(version)) continue;
      tree_.leaves_.sort(leaf);
      tree_.sorts_.fetch_add(1, std::memory_order_relaxed);
      leaf.unlatch(version, true);
    }
  }

  // Reads the next leaf of the range.
  Step read_next() noexcept {
    constexpr int attempts_max = 4;
    for (int attempt = 0;; ++attempt) {
      Leaf& leaf = *next_leaf();
      prefetch_read(&leaf.samples);
      std::uint64_t version = 0;
      if (!settle(leaf, version)) continue;
      // Writers keep changing it: it is read under its latch, which is bounded.
      const bool latched = attempt >= attempts_max && leaf.try_latch(version);
      const std::uint32_t live = leaf.live.load(std::memory_order_relaxed);
      if (!is_first() && merges_ < merges_max && tree_.should_merge(last_live_, live)) {
        ++merges_;
        if (!latched && tree_.merge_at(leaf.low())) return Step::again;
      }
      const std::uint32_t before = copies_.count();
      const Read read = range_.reverse ? read_down(leaf) : read_up(leaf);
      if (TD_UNLIKELY(latched)) {
        leaf.unlatch(version, false);
      } else {
        fence_acquire();
        if (leaf.version.load(std::memory_order_relaxed) != version) {
          copies_.cut(before);
          continue;
        }
      }
      stamp_.add(leaf.version, version);
      last_live_ = live;
      if (read == Read::full) return Step::full;
      if (read == Read::past_range || is_last(leaf)) return Step::done;
      if (places() == 0) return Step::full;
      at_ = range_.reverse ? leaf.low() : leaf.high();
      is_open_ = false;
      return Step::next;
    }
  }

  bool is_last(const Leaf& leaf) const noexcept {
    if (range_.reverse) return leaf.low().empty() || leaf.low() <= range_.begin;
    return !leaf.has_high || range_.is_above(leaf.high());
  }

  // leaf_end: the leaf has no further item; full: it has, but there is no place.
  enum class Read : std::uint8_t { leaf_end, past_range, full };

  // at_ bounds both: a merge may have put the leaf in the place of one that was read.
  Read read_up(const Leaf& leaf) noexcept {
    // Of the first leaf at_ is no fence, and what its fences are is seldom asked.
    const bool has_begin = is_first() ? !at_.empty() : at_ > leaf.low();
    const bool has_end = !range_.end.empty() && (!leaf.has_high || leaf.high() > range_.end);
    const std::uint32_t n = tree_.leaves_.sorted(leaf);
    const std::uint32_t begin = has_begin ? lower_bound(leaf, n, at_, ahead()) : 0;
    const std::uint32_t end = has_end ? lower_bound(leaf, n, range_.end, 0) : n;
    if (!has_begin) tree_.leaves_.prefetch_items(leaf, 0, std::min(ahead(), end));
    if (!take(leaf, begin, end)) return Read::full;
    return has_end ? Read::past_range : Read::leaf_end;
  }

  Read read_down(const Leaf& leaf) noexcept {
    const bool has_begin = !range_.begin.empty() && range_.begin >= leaf.low();
    const bool has_end = !is_open_ && (!leaf.has_high || at_ < leaf.high());
    const std::uint32_t n = tree_.leaves_.sorted(leaf);
    const std::uint32_t end = has_end ? lower_bound(leaf, n, at_, 0) : n;
    tree_.leaves_.prefetch_items(leaf, end > ahead() ? end - ahead() : 0, end);
    const std::uint32_t begin = has_begin ? lower_bound(leaf, n, range_.begin, 0) : 0;
    if (!take(leaf, begin, end)) return Read::full;
    return has_begin ? Read::past_range : Read::leaf_end;
  }

  // Of the first id with a key not below `key` and, if that is where the range begins, in it; n: there is none.
  std::uint32_t lower_bound(const Leaf& leaf, std::uint32_t n, std::string_view key, std::uint32_t ahead) noexcept {
    const Leaves& leaves = tree_.leaves_;
    const bool is_after = range_.after_begin && key == range_.begin;
    std::uint32_t i = leaves.lower_bound(leaf, n, key, ahead == 0 ? 0 : ahead + 1);  // which may be one behind `i`
    for (; i < n; ++i) {
      const Location l = leaves.location_at(leaf, i);
      if (l == no_location) continue;
      const std::string_view found = leaves.item(l)->key();
      if (found > key || (found == key && !is_after)) break;
    }
    return i;
  }

  // Takes the live items of the ids [begin, end), upwards or downwards. False: there are more of them than places.
  // Where no id is removed, those that are needed fill all places; the rest are looked at for whether one is live.
  bool take(const Leaf& leaf, std::uint32_t begin, std::uint32_t end) noexcept {
    if (begin >= end) return true;
    const typename Leaves::Order order = tree_.leaves_.order(leaf);
    return range_.reverse ? take_each<-1>(order + (end - 1), end - begin) : take_each<1>(order + begin, end - begin);
  }
  template <int step>
  TD_INLINE bool take_each(typename Leaves::Order at, std::uint32_t count) noexcept {
    ScanCopies::Adder adder(copies_, tree_.leaves_.items());
    const std::ptrdiff_t needed = std::min(count, places());
    const bool are_fetched = this->count() + needed <= range_.fetched;
    const typename Leaves::Order fetched =
        at + step * (are_fetched ? 0 : std::max<std::ptrdiff_t>(needed - items_ahead, 0));
    const typename Leaves::Order last_needed = at + step * needed, last = at + step * std::ptrdiff_t{count};
    adder.add_all<step, step * items_ahead>(at, fetched);
    adder.add_all<step, 0>(fetched, last_needed);
    for (at = last_needed; at != last; at = at + step) {
      if (adder.count() != end_) {
        adder.add(*at);
      } else if (adder.is_live(*at)) {
        return false;
      }
    }
    return true;
  }

  bool is_first() const noexcept { return last_live_ == no_leaf; }
  std::uint32_t count() const noexcept { return copies_.count() - begin_; }
  std::uint32_t places() const noexcept { return end_ - copies_.count(); }
  // Items to fetch before the first one of a leaf is read.
  std::uint32_t ahead() const noexcept {
    return count() < range_.fetched ? 0 : std::min<std::uint32_t>(items_ahead, places());
  }

  // Merges what it can of the leaves that were read in vain.
  void merge_empty() noexcept {
    SpinWait waiting;
    waiting.once();
    std::string_view at = range_.reverse ? at_ : range_.begin;
    const std::string_view end = range_.reverse ? range_.end : at_;
    for (;;) {
      while (tree_.merge_at(at)) {
      }
      const Leaf& leaf = *tree_.inner_.leaf_of(at);
      if (!leaf.has_high || (!end.empty() && leaf.high() >= end)) return;
      at = leaf.high();
    }
  }

  KeyTree& tree_;
  const ScanRange& range_;
  ScanCopies& copies_;
  ScanStamp& stamp_;
  const std::uint32_t begin_, end_;  // of this scan's copies
  std::string_view at_;              // where the next leaf begins or, downwards, ends
  bool is_open_ = false;
  std::uint32_t merges_ = 0, last_live_ = no_leaf;
};

template <class Leaves>
ScanResult KeyTree<Leaves>::scan(const ScanRange& range, std::uint32_t most, ScanCopies& copies,
                                 ScanStamp& stamp) noexcept {
  return Scan(*this, range, most, copies, stamp).run();
}

}  // namespace tandem
