// A device's search, for kernels that begin with one.
#pragma once
#include "index/cuckoo/lanes_cuda.cuh"

#define TD_LANES_NAMESPACE cuda_lanes
#include "index/cuckoo/cuckoo-inl.hpp"

namespace tandem {

// One query per thread. The tile's threads read the buckets of each other's queries together, so that many loads are in
// flight and each is of whole sectors. Second buckets are read only for queries without a match in the first: bandwidth
// is the limit.
template <class L>
__device__ std::uint32_t search_thread(const SearchedTable& table, const Fingerprint* f, std::uint32_t count,
                                       std::uint32_t i) {
  if (i / L::threads * L::threads >= count) return 0;
  const L lanes = L::here();
  const Fingerprint mine = f[i < count ? i : count - 1];
  const std::uint32_t b1 = table.shape.first(mine), b2 = table.shape.second(b1, mine);

  typename L::PerLane v[L::threads];
#pragma unroll
  for (std::uint32_t q = 0; q < L::threads; ++q) v[q] = lanes.load(table.buckets + lanes.of_thread(b1, q));
  std::uint32_t found = 0;
#pragma unroll
  for (std::uint32_t q = 0; q < L::threads; ++q) {
    const std::uint32_t l = cuda_lanes::candidate(lanes, nullptr, v[q], lanes.of_thread(mine.signature, q));
    if (lanes.rank == q) found = l;
  }

  const std::uint32_t left = lanes.vote(found == 0);
  if (left != 0) {
#pragma unroll
    for (std::uint32_t q = 0; q < L::threads; ++q) {
      const std::uint32_t b = lanes.of_thread(b2, q);
      if ((left >> q & 1) != 0) v[q] = lanes.load(table.buckets + b);
    }
#pragma unroll
    for (std::uint32_t q = 0; q < L::threads; ++q) {
      const std::uint32_t signature = lanes.of_thread(mine.signature, q);
      if ((left >> q & 1) != 0) {
        const std::uint32_t l = cuda_lanes::candidate(lanes, nullptr, v[q], signature);
        if (lanes.rank == q) found = l;
      }
    }
  }
  return found;
}

}  // namespace tandem
