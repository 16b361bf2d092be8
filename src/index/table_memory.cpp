#include "index/table_memory.hpp"

#include <sys/mman.h>

namespace tandem {

std::optional<TableMemory> TableMemory::make(std::uint64_t bytes, const Rules& rules, MemoryBudget& budget) noexcept {
  // Extra space to start at a huge page's boundary. The rest around the table is never accessed and so never resident.
  // Not worth a mapping; another thread may still take the room in between.
  if (!rules.overdraw && (bytes > budget.limit_bytes() || budget.used_bytes() > budget.limit_bytes() - bytes)) {
    if (rules.unmapped != nullptr) *rules.unmapped = false;
    return std::nullopt;
  }
  constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;
  const bool align = rules.huge_pages && bytes >= huge_page_bytes;
  const std::uint64_t mapping_bytes = bytes + (align ? huge_page_bytes : 0);
  void* const mapping =
      mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (rules.unmapped != nullptr) *rules.unmapped = mapping == MAP_FAILED;
  if (mapping == MAP_FAILED) return std::nullopt;
  // After the mapping: a refusal by the budget alone tells the caller that evicting may help.
  if (!(rules.overdraw ? budget.claim(bytes) : budget.take(bytes))) {
    munmap(mapping, mapping_bytes);
    return std::nullopt;
  }
  auto* start = static_cast<std::byte*>(mapping);
  if (align) {
    const auto past = reinterpret_cast<std::uintptr_t>(start) % huge_page_bytes;
    if (past != 0) start += huge_page_bytes - past;
    madvise(start, bytes, MADV_HUGEPAGE);  // advice: without huge pages it is only slower
  }
  return TableMemory(start, bytes, mapping, mapping_bytes, budget);
}

TableMemory::~TableMemory() {
  if (mapping_ == nullptr) return;
  munmap(mapping_, mapping_bytes_);
  budget_.give_back(bytes_);
}

}  // namespace tandem
