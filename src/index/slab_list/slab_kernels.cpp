// The kernels' arguments and their host entries: a warp is a loop, and warps come one after the other.
#include "index/slab_list/slab_kernels.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>

#include "base/spin_wait.hpp"

namespace tandem {
namespace {

// On a simulated device, whose streams are threads. Slabs are read and written plainly, since a lock or the order of
// launches protects them: ThreadSanitizer sees where neither does. It knows no fences, so atomic operations order.
class LoopedWarp {
 public:
  template <class T>
  class PerLane {
   public:
    T& operator[](std::uint32_t lane) { return values_[lane]; }
    const T& operator[](std::uint32_t lane) const { return values_[lane]; }

   private:
    std::array<T, warp_lanes> values_{};
  };

  template <class F>
  void each(F f) const {
    for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) f(lane);
  }
  template <class F>
  std::uint32_t ballot(F f) const {
    std::uint32_t bits = 0;
    for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) bits |= (f(lane) ? 1u : 0u) << lane;
    return bits;
  }
  template <class F>
  auto by(std::uint32_t, F f) const {
    return f();
  }
  template <class T>
  T from(const PerLane<T>& v, std::uint32_t lane) const {
    return v[lane];
  }
  std::uint32_t lowest(std::uint32_t bits) const { return static_cast<std::uint32_t>(std::countr_zero(bits)); }
  std::uint32_t count(std::uint32_t bits) const { return static_cast<std::uint32_t>(std::popcount(bits)); }

  template <class T>
  static T load(T& word) {
    return std::atomic_ref<T>(word).load(std::memory_order_acquire);
  }
  template <class T>
  static void store(T& word, T now) {
    std::atomic_ref<T>(word).store(now, std::memory_order_release);
  }
  static std::uint32_t fetch_add(std::uint32_t& word, std::uint32_t n) {
    return std::atomic_ref<std::uint32_t>(word).fetch_add(n, std::memory_order_acq_rel);
  }
  static std::uint32_t fetch_sub(std::uint32_t& word, std::uint32_t n) {
    return std::atomic_ref<std::uint32_t>(word).fetch_sub(n, std::memory_order_acq_rel);
  }
  static std::uint32_t fetch_or(std::uint32_t& word, std::uint32_t bits) {
    return std::atomic_ref<std::uint32_t>(word).fetch_or(bits, std::memory_order_acq_rel);
  }
  template <class T>
  static T exchange_if(T& word, T expected, T desired) {
    std::atomic_ref<T>(word).compare_exchange_strong(expected, desired, std::memory_order_acq_rel,
                                                     std::memory_order_acquire);
    return expected;
  }
  static void prefetch(const Slab*) {}
  void acquire() const {}
  void release() const {}
  void pause() const { waiting_.once(); }

 private:
  mutable SpinWait waiting_;
};
static_assert(SlabWarp<LoopedWarp>);

SlabTable table_of(const DeviceSlabs& d, const HostMemory& memory) noexcept {
  return {memory.at(d.first), memory.at(d.more),      memory.at(d.lock), memory.at(d.below),
          memory.at(d.free),  SlabBuckets(d.buckets), d.more_count};
}

template <bool Locks>
bool host_slab_search(const SlabSearchArguments& a, const HostMemory& memory) noexcept {
  const SlabTable table = table_of(a.table, memory);
  const Fingerprint* const f = memory.at(a.f);
  Location* const location = memory.at(a.location);
  for (std::uint32_t at = 0; at < a.count; at += warp_lanes)
    slab_search_warp<Locks>(LoopedWarp(), table, f + at, std::min(a.count - at, warp_lanes), location + at);
  return true;
}

bool host_slab_change(const SlabChangeArguments& a, const HostMemory& memory) noexcept {
  const SlabTable table = table_of(a.table, memory);
  const CellChange* const changes = memory.at(a.changes);
  std::uint8_t* const done = memory.at(a.done);
  Location* const previous = memory.at(a.previous);
  for (std::uint32_t at = 0; at < a.count; at += warp_lanes) {
    slab_change_warp<true>(LoopedWarp(), table, changes + at, std::min(a.count - at, warp_lanes), done + at,
                           previous + at);
  }
  return true;
}

}  // namespace

void DeviceSlabs::memory(MemoryUse& use) const {
  if (buckets < 2) return use.refuse();
  use.add(first, buckets);
  use.add(more, more_count);
  use.add(lock, buckets);
  use.add(below, more_count);
  use.add(free, 1);
}

void SlabSearchArguments::memory(MemoryUse& use) const {
  table.memory(use);
  use.add(f, count);
  use.add(location, count);
}

void SlabChangeArguments::memory(MemoryUse& use) const {
  table.memory(use);
  use.add(changes, count);
  use.add(done, count);
  use.add(previous, count);
}

const Kernel<SlabSearchArguments> slab_search{"slab search", host_slab_search<true>,
                                              cuda_entry<SlabSearchArguments, cuda_slab_search>()};
const Kernel<SlabSearchArguments> slab_search_alone{"slab search alone", host_slab_search<false>,
                                                    cuda_entry<SlabSearchArguments, cuda_slab_search_alone>()};
const Kernel<SlabChangeArguments> slab_change{"slab change", host_slab_change,
                                              cuda_entry<SlabChangeArguments, cuda_slab_change>()};

}  // namespace tandem
