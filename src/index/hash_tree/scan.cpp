// Scans, leaf by leaf. Within a leaf a scan is the reader of a sequence lock: it loads the version, collects items in
// the order of their keys, and loads the version again. What it follows meanwhile is bounded by the leaf, and items
// stay readable during the epoch.
#include <algorithm>

#include "index/hash_tree/hash_tree.hpp"

namespace tandem {

class HashTree::Scan {
 public:
  Scan(HashTree& tree, const ScanRange& range, std::span<ScanHit> hits, ScanStamp& stamp) noexcept
      : tree_(tree), range_(range), hits_(hits), stamp_(stamp) {}

  ScanResult run() noexcept {
    if (hits_.empty()) return {};
    for (int in_vain = 0;;) {
      stamp_.clear();
      count_ = 0;
      at_ = range_.reverse ? range_.end : range_.begin;
      is_open_ = range_.reverse && range_.end.empty();
      last_live_ = no_leaf;
      Step step = Step::next;
      while (step == Step::next) step = stamp_.is_full() ? Step::full : read_next();
      if (step == Step::done) return {count_, true};
      if (step != Step::again && count_ != 0) return {count_, false};
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
  static constexpr std::uint32_t merges_max = 4;    // of one scan, while it finds items
  static constexpr std::uint32_t items_ahead = 12;  // prefetched before they are read

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
      std::uint64_t version = 0;
      if (!settle(leaf, version)) continue;
      // Writers keep changing it: it is read under its latch, which is bounded.
      const bool latched = attempt >= attempts_max && leaf.try_latch(version);
      const std::uint32_t live = leaf.live.load(std::memory_order_relaxed);
      if (last_live_ != no_leaf && merges_ < merges_max && tree_.should_merge(last_live_, live)) {
        ++merges_;
        if (!latched && tree_.merge_at(leaf.low())) return Step::again;
      }
      const std::uint32_t before = count_;
      const Read read = range_.reverse ? read_down(leaf) : read_up(leaf);
      if (TD_UNLIKELY(latched)) {
        leaf.unlatch(version, false);
      } else {
        fence_acquire();
        if (leaf.version.load(std::memory_order_relaxed) != version) {
          count_ = before;
          continue;
        }
      }
      stamp_.add(leaf.version, version);
      last_live_ = live;
      if (read == Read::full) return Step::full;
      if (read == Read::past_range || is_last(leaf)) return Step::done;
      if (count_ == hits_.size()) return Step::full;
      at_ = range_.reverse ? leaf.low() : leaf.high();
      is_open_ = false;
      return Step::next;
    }
  }

  bool is_last(const Leaf& leaf) const noexcept {
    if (range_.reverse) return leaf.low().empty() || leaf.low() <= range_.begin;
    return !leaf.has_high || range_.is_above(leaf.high());
  }

  // leaf_end: the leaf has no further item; full: it has, but hits_ has no place.
  enum class Read : std::uint8_t { leaf_end, past_range, full };

  Read read_up(const Leaf& leaf) noexcept {
    const LeafTable& leaves = tree_.leaves_;
    const std::uint32_t n = leaves.sorted(leaf);
    // A merge may have put the leaf in the place of one that was read: what is below at_ is not read again.
    bool may_be_below = at_ > leaf.low() || (range_.after_begin && range_.begin == leaf.low());
    const bool may_be_above = !range_.end.empty() && (!leaf.has_high || leaf.high() > range_.end);
    std::uint32_t i = 0;
    if (may_be_below) {
      i = leaves.lower_bound(leaf, n, at_, items_ahead + 1);  // which may be the key behind the first fetched
    } else {
      leaves.prefetch_items(leaf, 0, std::min(items_ahead, n));
    }
    for (; i < n; ++i) {
      if (i + items_ahead < n) prefetch_item(leaf, i + items_ahead);
      Item* const item = item_at(leaf, i);
      if (item == nullptr) continue;
      if (TD_UNLIKELY(may_be_below)) {
        if (range_.is_below(item->key()) || item->key() < at_) continue;
        may_be_below = false;
      }
      if (may_be_above && range_.is_above(item->key())) return Read::past_range;
      if (!take(item)) return Read::full;
    }
    return Read::leaf_end;
  }

  Read read_down(const Leaf& leaf) noexcept {
    const LeafTable& leaves = tree_.leaves_;
    const std::uint32_t n = leaves.sorted(leaf);
    const bool has_end = !is_open_ && (!leaf.has_high || at_ < leaf.high());
    const bool may_be_below = !range_.begin.empty() && range_.begin >= leaf.low();
    std::uint32_t i = has_end ? leaves.lower_bound(leaf, n, at_, 0) : n;
    leaves.prefetch_items(leaf, i > items_ahead ? i - items_ahead : 0, i);
    while (i-- != 0) {
      if (i >= items_ahead) prefetch_item(leaf, i - items_ahead);
      Item* const item = item_at(leaf, i);
      if (item == nullptr) continue;
      if (may_be_below && range_.is_below(item->key())) return Read::past_range;
      if (!take(item)) return Read::full;
    }
    return Read::leaf_end;
  }

  Item* item_at(const Leaf& leaf, std::uint32_t i) const noexcept {
    const Location l = tree_.leaves_.location_at(leaf, i);
    return l == no_location ? nullptr : tree_.leaves_.item(l);
  }
  void prefetch_item(const Leaf& leaf, std::uint32_t i) const noexcept {
    prefetch_read(tree_.leaves_.item(tree_.leaves_.location_at(leaf, i)));
  }

  // False: it is live, and there is no place for it.
  TD_INLINE bool take(Item* item) noexcept {
    const ItemVersion version = settled_version(item);
    if (TD_UNLIKELY(!version.is_live())) return true;
    if (count_ == hits_.size()) return false;
    hits_[count_++] = {item, version};
    return true;
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

  HashTree& tree_;
  const ScanRange& range_;
  const std::span<ScanHit> hits_;
  ScanStamp& stamp_;
  std::string_view at_;  // where the next leaf begins or, downwards, ends
  bool is_open_ = false;
  std::uint32_t count_ = 0, merges_ = 0, last_live_ = no_leaf;
};

ScanResult HashTree::scan(const ScanRange& range, std::span<ScanHit> hits, ScanStamp& stamp) noexcept {
  return Scan(*this, range, hits, stamp).run();
}

}  // namespace tandem
