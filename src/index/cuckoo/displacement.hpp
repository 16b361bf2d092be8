// Finds the shortest path of displacements that ends in an empty cell. Reads only; every step is checked again when it
// is made.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/platform.hpp"
#include "index/cuckoo/cell.hpp"
#include "index/cuckoo/lanes_scalar.hpp"

namespace tandem {

// Rule: the target bucket of a displaced cell. Only this one is correct; the tests try a wrong one.
struct OwnOtherBucket {
  static std::uint32_t target(IndexView view, std::uint32_t from, Cell victim, Fingerprint) {
    return view.other(from, victim.signature());
  }
};

struct DisplacementMove {
  std::uint32_t from_bucket, to_bucket;
  std::uint8_t from_slot, to_slot;
};

template <class Rule>
class BasicDisplacementPath {
 public:
  // False: no empty cell among the buckets_max buckets nearest to f's two.
  bool find(IndexView view, Fingerprint f) noexcept {
    std::uint32_t end = 0;
    nodes_[end++] = {view.first(f), 0, 0};
    nodes_[end++] = {view.second(f), 0, 0};
    for (std::uint32_t n = 0; n < end; ++n) {
      const std::uint32_t b = nodes_[n].bucket;
      for (std::uint32_t k = 0; k < bucket_cells; ++k) {
        // Starts at another cell in each bucket, so that two inserters of one bucket choose different victims.
        const std::uint32_t slot = (preferred_cell(f.signature) + n + k) % bucket_cells;
        const Cell c{ScalarLanes::at(&view.buckets[b].cell[slot]).load(std::memory_order_relaxed)};
        if (c.empty()) {
          node_ = n;
          hole_ = static_cast<std::uint8_t>(slot);
          return true;
        }
        if (end == buckets_max) continue;
        const std::uint32_t to = Rule::target(view, b, c, f);
        nodes_[end++] = {to, static_cast<std::uint16_t>(n), static_cast<std::uint8_t>(slot)};
        prefetch_read(view.buckets + to);
      }
    }
    return false;
  }
  bool at_root() const noexcept { return node_ < 2; }
  // The next move, from the empty cell backwards. REQUIRES: !at_root().
  DisplacementMove step() noexcept {
    const Node n = nodes_[node_];
    const DisplacementMove m{nodes_[n.parent].bucket, n.bucket, n.slot_in_parent, hole_};
    node_ = n.parent;
    hole_ = n.slot_in_parent;
    return m;
  }

 private:
  // Tables of all sizes fill to load 0.95 and beyond within this limit (index_test, index_bench fill_to_95).
  static constexpr std::uint32_t buckets_max = 1024;
  struct Node {
    std::uint32_t bucket;
    std::uint16_t parent;  // node of the bucket with the cell that would move here
    std::uint8_t slot_in_parent;
  };
  Node nodes_[buckets_max];
  std::uint32_t node_ = 0;
  std::uint8_t hole_ = 0;  // empty cell of nodes_[node_]
};

using DisplacementPath = BasicDisplacementPath<OwnOtherBucket>;

}  // namespace tandem
