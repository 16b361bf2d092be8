// A device's operations on a slab list in its memory (KVCG 5.1): one body (slab_warp.hpp) for GPUs and for simulated
// devices. Arrays may be in the device's memory or in pinned memory.
//
// Launches on any number of streams may overlap: a bucket's lock serialises them, and each key's changes are
// linearizable. Within a launch the order of queries is not determined.
#pragma once
#include <cstdint>

#include "base/fingerprint.hpp"
#include "device/device.hpp"
#include "heap/item.hpp"
#include "index/cuckoo/cell.hpp"
#include "index/slab_list/slab_warp.hpp"

namespace tandem {

// A table in device memory, all zero before its first use. Further slabs are added by a greater `more_count`, of zeroed
// slabs.
struct DeviceSlabs {
  DevicePtr<Slab> first;           // `buckets` of them
  DevicePtr<Slab> more;            // `more_count` of them
  DevicePtr<std::uint32_t> lock;   // one for each bucket
  DevicePtr<std::uint32_t> below;  // one for each further slab
  DevicePtr<SlabFree> free;        // one
  std::uint32_t buckets = 0, more_count = 0;

  void memory(MemoryUse& use) const;
};

struct SlabSearchArguments {
  DeviceSlabs table;
  DevicePtr<const Fingerprint> f;  // `count` of them, as of `location`
  DevicePtr<Location> location;
  std::uint32_t count = 0;

  std::uint64_t queries() const noexcept { return count; }
  void memory(MemoryUse& use) const;
};

struct SlabChangeArguments {
  DeviceSlabs table;
  DevicePtr<const CellChange> changes;  // `count` of them, as of the next two
  DevicePtr<std::uint8_t> done;
  DevicePtr<Location> previous;
  std::uint32_t count = 0;

  std::uint64_t queries() const noexcept { return count; }
  void memory(MemoryUse& use) const;
};

// location[i]: of the entry with f[i]'s key word, or no_location. A reader's lock is held along the chain.
extern const Kernel<SlabSearchArguments> slab_search;
// The same without locks. REQUIRES: no change of the table runs meanwhile, as where all launches are on one stream.
extern const Kernel<SlabSearchArguments> slab_search_alone;
// Gives the key the location `to`, or removes it if `to` is 0, under a writer's lock along the whole chain.
// previous[i]: the location that it had, or no_location. done[i]: 1, also when there was nothing to remove, or 0:
// nothing has changed, as the chain is full and there is no further slab. `from` is not read: the caller compares it
// with previous[i].
extern const Kernel<SlabChangeArguments> slab_change;

// Their CUDA entries (slab_cuda.cu).
int cuda_slab_search(const SlabSearchArguments& a, CUstream_st* stream) noexcept;
int cuda_slab_search_alone(const SlabSearchArguments& a, CUstream_st* stream) noexcept;
int cuda_slab_change(const SlabChangeArguments& a, CUstream_st* stream) noexcept;

}  // namespace tandem
