#include "index/slab_list/slab_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace tandem {

namespace {
constexpr std::uint64_t step_bytes = 4096, slabs_align = std::uint64_t{2} << 20;  // pages, and huge ones
constexpr std::uint64_t reserved_min = std::uint64_t{1} << 30;

// Four times the memory limit, which may be raised later, and no more than slabs can be.
std::uint64_t reserved_bytes(std::uint64_t bytes_most, std::uint64_t limit_bytes) noexcept {
  return std::min(bytes_most, std::max(4 * std::min(limit_bytes, bytes_most), reserved_min));
}

}  // namespace

SlabMemory::SlabMemory(std::uint64_t slabs_max, bool huge_pages, MemoryBudget& budget)
    : budget_(budget), bytes_max_(reserved_bytes(bytes_for(slabs_max), budget.limit_bytes())) {
  // A process may have a limit of address space, too: then less of it, as the heap's.
  for (;; bytes_max_ /= 2) {
    mapping_bytes_ = bytes_max_ + slabs_align;
    mapping_ = mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping_ != MAP_FAILED) break;
    if (bytes_max_ <= reserved_min) throw std::bad_alloc();
  }
  auto* start = static_cast<std::byte*>(mapping_);
  const auto past = reinterpret_cast<std::uintptr_t>(start) % slabs_align;
  if (past != 0) start += slabs_align - past;
  start_ = reinterpret_cast<Slab*>(start);
  // Advice: without huge pages it is only slower. The last one may be taken from the system whole.
  if (huge_pages) madvise(start, bytes_max_, MADV_HUGEPAGE);
}

SlabMemory::~SlabMemory() {
  munmap(mapping_, mapping_bytes_);
  budget_.give_back(bytes());
}

std::uint64_t SlabMemory::bytes_for(std::uint64_t slabs) noexcept {
  return (slabs * sizeof(Slab) + step_bytes - 1) / step_bytes * step_bytes;
}

bool SlabMemory::extend(std::uint64_t slabs, bool& unmapped) noexcept {
  const std::uint64_t had = bytes(), more = bytes_for(slabs);
  unmapped = false;
  if (more > bytes_max_ - had || !budget_.take(more)) return false;
  if (mprotect(reinterpret_cast<std::byte*>(start_) + had, more, PROT_READ | PROT_WRITE) != 0) {
    budget_.give_back(more);
    unmapped = true;
    return false;
  }
  bytes_.store(had + more, std::memory_order_relaxed);
  return true;
}

}  // namespace tandem
