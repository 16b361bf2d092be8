// Fetches what scans to come read first. Nothing here is checked: what writers change meanwhile makes a hint worse.
#pragma once
#include <algorithm>
#include <array>

#include "index/hash_tree/key_tree.hpp"

namespace tandem {

template <class Leaves>
void KeyTree<Leaves>::prefetch_scans(std::span<const ScanStart> starts, ScansAhead& ahead) const noexcept {
  constexpr std::size_t together = ScansAhead::scans_max;
  const auto prefetch_leaf = [](const Leaf& leaf) {
    prefetch_read(&leaf);
    prefetch_read(leaf.samples);
    prefetch_read(leaf.low_key);
    prefetch_read(leaf.prefix_key);
  };
  struct Ids {
    std::uint32_t begin, end;
  };
  std::array<InnerTree::Place, together> places;
  std::array<Ids, together> ids;
  const auto n = static_cast<std::uint32_t>(starts.size());
  const auto key_of = [](const ScanRange& range) { return range.reverse ? range.end : range.begin; };

  inner_.descend(std::span(places).first(n), [&](std::size_t i) {
    const ScanRange& range = starts[i].range;
    return InnerTree::Bound{
        .key = key_of(range), .is_below = range.reverse, .is_highest = range.reverse && range.end.empty()};
  });
  for (std::uint32_t i = 0; i < n; ++i) prefetch_leaf(*places[i].leaf());
  for (std::uint32_t i = 0; i < n; ++i) ids[i].begin = leaves_.step_of(*places[i].leaf(), key_of(starts[i].range));
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto& [range, limit] = starts[i];
    const Leaf& leaf = *places[i].leaf();
    const std::uint32_t sorted = leaves_.sorted(leaf);
    const bool is_open = range.reverse && range.end.empty();
    const std::uint32_t at = is_open ? sorted : leaves_.find_in_step(leaf, ids[i].begin, key_of(range));
    // A writer may have made `sorted` less than `at` meanwhile.
    ids[i] = range.reverse ? Ids{at - std::min(at, limit), at} : Ids{at, std::max(at, std::min(at + limit, sorted))};
    leaves_.prefetch_order(leaf, ids[i].begin, ids[i].end);
    const std::uint32_t missing = limit - (ids[i].end - ids[i].begin);
    if (missing != 0 && !range.reverse && places[i].child != places[i].parent->count) {
      const Leaf& next = *static_cast<const Leaf*>(places[i].entry()[1]);
      prefetch_leaf(next);
      leaves_.prefetch_order(next, 0, std::min(missing, leaves_.cells()));
    }
  }
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto [begin, end] = ids[i];
    const auto count = std::min<std::uint32_t>(end - begin, ScansAhead::items_max);
    const std::uint32_t first = starts[i].range.reverse ? end - count : begin;
    ahead.scans[i].count = count;
    leaves_.copy_order(*places[i].leaf(), first, count, ahead.scans[i].items.data());
  }
}

}  // namespace tandem
