#include "placement/mirrored/dirty_map.hpp"

#include <algorithm>
#include <bit>

namespace tandem {
namespace {

constexpr std::uint64_t word_bytes = sizeof(std::uint64_t), line_bytes = 8 * word_bytes;

}  // namespace

DirtyMap::DirtyMap(const Heap& heap, std::uint64_t heap_bytes, MemoryBudget& budget) noexcept
    : heap_(heap),
      budget_(budget),
      heap_bytes_(std::min(heap_bytes, heap.reserved_bytes())),
      first_block_(reinterpret_cast<std::uintptr_t>(heap.at(no_location)) >> block_shift) {}

bool DirtyMap::Bytes::make(std::uint64_t wanted, MemoryBudget& budget) noexcept {
  if (count == wanted) return true;
  release();
  if (auto made = TableMemory::make((wanted + word_bytes - 1) / word_bytes * word_bytes, {}, budget)) {
    memory.emplace(std::move(*made));
    at = reinterpret_cast<unsigned char*>(memory->start());
    count = wanted;
  }
  return count == wanted;
}

// Bytes that were never set stay without memory.
void DirtyMap::Bytes::clear() noexcept {
  for (std::uint64_t i = 0; i < (count + word_bytes - 1) / word_bytes; ++i) {
    if (word(i) != 0) std::fill_n(at + i * word_bytes, word_bytes, static_cast<unsigned char>(0));
  }
}

std::uint64_t DirtyMap::Bytes::marked() const noexcept {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < (count + word_bytes - 1) / word_bytes; ++i)
    sum += static_cast<std::uint64_t>(std::popcount(word(i)));
  return sum;
}

bool DirtyMap::Bytes::is_clean_line(std::uint64_t line) const noexcept {
  std::uint64_t all = 0;
  for (std::uint64_t i = 0; i < 8; ++i) all |= word(line * 8 + i);
  return all == 0;
}

// A call looks at a limited number of bytes: the caller is in an epoch.
std::uint64_t DirtyMap::Bytes::take(std::uint64_t from, std::span<std::uint32_t> out,
                                    std::size_t& taken) const noexcept {
  constexpr std::uint64_t looks_max = std::uint64_t{1} << 20;
  const std::uint64_t end = std::min(count, from + looks_max);
  taken = 0;
  for (std::uint64_t i = from; i < end;) {
    if (i % line_bytes == 0 && i + line_bytes <= count && is_clean_line(i / line_bytes)) {
      i += line_bytes;
      continue;
    }
    if (i % word_bytes == 0 && word(i / word_bytes) == 0) {
      i += word_bytes;
      continue;
    }
    if (byte(i).load(std::memory_order_relaxed) != 0) {
      if (taken == out.size()) return i;
      // Acquire: who has set it has changed what it stands for.
      if (byte(i).exchange(0, std::memory_order_acquire) != 0) out[taken++] = static_cast<std::uint32_t>(i);
    }
    ++i;
  }
  return end;
}

void DirtyMap::make(const FollowedTable& table) noexcept {
  const std::uint64_t blocks = (heap_bytes_ + block_bytes - 1) / block_bytes;
  const std::uint64_t buckets = table.shape.cells() / bucket_cells;
  cells_ = table.cells;
  serial_ = table.serial;
  is_whole_.store(true, std::memory_order_relaxed);
  if (is_used_) {
    blocks_.clear();
    buckets_.clear();
    is_used_ = false;
  }
  is_made_ = blocks_.make(blocks, budget_) && buckets_.make(buckets, budget_);
  lacking_bytes_.store(is_made_ ? 0 : blocks + buckets, std::memory_order_relaxed);
  if (is_made_) return;
  blocks_.release();
  buckets_.release();
}

// Other tables are those of a growth, after which everything is sent.
void DirtyMap::mark(LogRecord change) noexcept {
  const std::uint64_t cell = change.cell_index(), bucket = cell / bucket_cells;
  if (change.table() != LogRecord::of({serial_, 0}).table() || bucket >= buckets_.count) return;
  buckets_.byte(bucket).store(1, std::memory_order_release);
  const Location l = Cell{ScalarLanes::at(cells_.at(cell)).load(std::memory_order_relaxed)}.location();
  const std::uint64_t block = l / block_granules;
  if (l != no_location && block < blocks_.count) blocks_.byte(block).store(1, std::memory_order_release);
}

double DirtyMap::share() const noexcept {
  const std::uint64_t used = std::min(heap_bytes_, std::uint64_t{heap_.page_end()} * page_bytes);
  const std::uint64_t all = buckets_.count * sizeof(Bucket) + used;
  const std::uint64_t dirty = buckets_.marked() * sizeof(Bucket) + blocks_.marked() * block_bytes;
  return all == 0 ? 0 : static_cast<double>(dirty) / static_cast<double>(all);
}

}  // namespace tandem
