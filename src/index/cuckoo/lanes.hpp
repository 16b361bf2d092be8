// The contract between the index algorithm (cuckoo-inl.hpp) and a processor.
//
// 1. Width 8: lane i stands for cell i of a bucket. On a CPU one thread is all lanes; on CUDA a tile of 8 threads of a
//    warp is.
// 2. Two kinds of value. PerLane holds one cell a lane and is opaque: no operator bool, no comparison, so no code can
//    branch on it. Everything else is uniform: the same in every lane. So control flow is uniform in a tile by
//    construction (a divergent branch does not compile: tests/model/must_not_compile), ballots are always reached by
//    all lanes, and no lane can wait for a fellow lane.
// 3. load() is 8 loads, each single-copy atomic for its own 8 bytes and NOT for the bucket, in no order among
//    themselves. order_loads() keeps every later load of this thread behind the loads that load() did (an acquire fence
//    for them).
// 4. take(b, v, i) gives every lane the cell of lane i, fit for a dereference on this processor: an acquire reload on a
//    CPU (an L1 hit), a shuffle of the loaded value on CUDA, where Search only returns the location and the end of the
//    kernel orders it. It may differ from what match() saw.
// 5. cas() is one 64-bit compare-and-swap, acq_rel on success, acquire on failure, done once for the tile; it returns
//    the previous cell. Only one processor does read-modify-writes on a memory: host lanes on host memory, CUDA lanes
//    (device scope) on device memory.
// 6. once(f) runs f in one lane: for side effects outside the index (answer columns), which the other lanes do not see.
// 7. Lock-free only: an operation may retry because another tile made progress, never wait for one (tiles of a warp
//    share a scheduler).
#pragma once
#include <concepts>
#include <type_traits>

#include "index/cuckoo/cell.hpp"

namespace tandem {

// clang-format off
template <class L>
concept Lanes = requires(const L l, const Bucket* b, std::uint64_t* p, Cell c, std::uint32_t s, typename L::PerLane v) {
  requires L::width == bucket_cells;
  { l.load(b) }       -> std::same_as<typename L::PerLane>;
  { l.match(v, s) }   -> std::same_as<std::uint32_t>;  // bit i: lane i's signature is s; s = 0 finds empty cells
  { l.take(b, v, s) } -> std::same_as<Cell>;
  { l.cas(p, c, c) }  -> std::same_as<Cell>;
  { l.lowest(s) }     -> std::same_as<std::uint32_t>;  // index of the lowest set bit; s != 0
  l.order_loads();
  l.once(static_cast<void (*)()>(nullptr));
} && !std::convertible_to<typename L::PerLane, bool> && !std::equality_comparable<typename L::PerLane> &&
  std::is_trivially_copyable_v<L>;
// clang-format on

}  // namespace tandem
