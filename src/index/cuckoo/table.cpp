#include "index/cuckoo/table.hpp"

#include <bit>
#include <utility>

#include "base/platform.hpp"

namespace tandem {

std::unique_ptr<Table> Table::make(std::uint64_t buckets, std::uint32_t serial, bool huge_pages, MemoryBudget& budget,
                                   std::uint32_t shard_bits, bool overdraw, bool* unmapped) {
  TD_ASSERT(std::has_single_bit(buckets) && buckets >> shard_bits >= buckets_min && buckets <= buckets_max);
  std::optional<TableMemory> memory = TableMemory::make(
      buckets * sizeof(Bucket), {.huge_pages = huge_pages, .overdraw = overdraw, .unmapped = unmapped}, budget);
  if (!memory) return nullptr;
  const IndexView view{reinterpret_cast<Bucket*>(memory->start()), static_cast<std::uint32_t>(buckets - 1), shard_bits};
  return std::unique_ptr<Table>(new Table(view, serial, std::move(*memory)));
}

}  // namespace tandem
