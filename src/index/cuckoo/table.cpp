#include "index/cuckoo/table.hpp"

#include <sys/mman.h>

#include <bit>

#include "base/platform.hpp"

namespace tandem {

std::unique_ptr<Table> Table::make(std::uint64_t buckets, std::uint32_t serial, bool huge_pages, MemoryBudget& budget,
                                   std::uint32_t shard_bits, bool overdraw, bool* unmapped) {
  TD_ASSERT(std::has_single_bit(buckets) && buckets >> shard_bits >= buckets_min && buckets <= buckets_max);
  const std::uint64_t bytes = buckets * sizeof(Bucket);
  // Extra space to start at a huge page's boundary. The rest around the table is never accessed and so never resident.
  constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;
  const bool align = huge_pages && bytes >= huge_page_bytes;
  const std::uint64_t mapping_bytes = bytes + (align ? huge_page_bytes : 0);
  void* mapping =
      mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (unmapped != nullptr) *unmapped = mapping == MAP_FAILED;
  if (mapping == MAP_FAILED) return nullptr;
  // After the mapping: a refusal by the budget alone tells the caller that evicting may help.
  if (!(overdraw ? budget.claim(bytes) : budget.take(bytes))) {
    munmap(mapping, mapping_bytes);
    return nullptr;
  }
  char* start = static_cast<char*>(mapping);
  if (align) {
    const auto past = reinterpret_cast<std::uintptr_t>(start) % huge_page_bytes;
    if (past != 0) start += huge_page_bytes - past;
    madvise(start, bytes, MADV_HUGEPAGE);  // advice: without huge pages it is only slower
  }
  const IndexView view{reinterpret_cast<Bucket*>(start), static_cast<std::uint32_t>(buckets - 1), shard_bits};
  return std::unique_ptr<Table>(new Table(view, serial, mapping, mapping_bytes, budget));
}

Table::~Table() {
  munmap(mapping_, mapping_bytes_);
  budget_.give_back(bytes());
}

}  // namespace tandem
