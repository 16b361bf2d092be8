#include "bench/engine/ceiling.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/platform.hpp"
#include "bench/workload/random.hpp"
#include "bench/workload/stream.hpp"
#include "heap/item.hpp"
#include "heap/size_classes.hpp"

namespace tandem::bench {

HugeMemory::HugeMemory(std::uint64_t bytes) : bytes_(bytes) {
  void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  madvise(p, bytes, MADV_HUGEPAGE);
  data_ = static_cast<char*>(p);
}

HugeMemory::~HugeMemory() { munmap(data_, bytes_); }

Ceiling::Ceiling(std::uint32_t key_bytes, std::uint32_t value_bytes, std::uint64_t items, std::uint64_t index_bytes)
    : slot_bytes_((Item::total_bytes(0, key_bytes, value_bytes) + granule_bytes - 1) / granule_bytes * granule_bytes),
      value_bytes_(value_bytes),
      value_offset_(Item::total_bytes(0, key_bytes, 0)),
      lines_(std::max<std::uint64_t>(1, index_bytes / cache_line_bytes)),
      index_(lines_ * cache_line_bytes),
      items_(items * slot_bytes_) {
  constexpr std::uint64_t page_bytes = 4096, another_order = 77;
  for (std::uint64_t i = 0; i < items_.size(); i += page_bytes) items_.data()[i] = 1;
  for (std::uint64_t key = 0; key < items; ++key)
    *cell(key) = static_cast<std::uint32_t>(workload::scatter(key, items, another_order));
}

std::uint32_t* Ceiling::cell(std::uint64_t key) const noexcept {
  constexpr std::uint64_t cells_per_line = cache_line_bytes / sizeof(std::uint32_t);
  const std::uint64_t h = (key + 1) * 0x9E3779B97F4A7C15U;
  // Maps to a line by multiplication (D. Lemire, Fast random integer generation in an interval, 2019): a division by a
  // variable would take longer than the rest of the loop.
  const std::uint64_t line = (h >> 32) * lines_ >> 32;
  return reinterpret_cast<std::uint32_t*>(index_.data() + line * cache_line_bytes) + h % cells_per_line;
}

// Pipelined: an operation's cell is prefetched `lead` operations before its item, and the item as long before it is
// read, so that the number of lines in flight is constant.
std::uint64_t Ceiling::two_lines(std::span<const WireOp> ops) const noexcept {
  constexpr std::size_t lead = 16;
  constexpr std::size_t ring = 2 * lead, mask = ring - 1;
  static_assert((ring & mask) == 0);
  std::uint64_t sum = 0;
  const std::uint32_t* cells[ring];
  const char* items[ring];
  const std::size_t n = ops.size();
  const auto look = [&](std::size_t i) { prefetch_read(cells[i & mask] = cell(ops[i].key())); };
  const auto follow = [&](std::size_t i) {
    prefetch_read(items[i & mask] = items_.data() + *cells[i & mask] * slot_bytes_);
  };
  const auto read = [&](std::size_t i) { sum += static_cast<unsigned char>(*items[i & mask]); };
  for (std::size_t i = 0; i < std::min(n, lead); ++i) look(i);
  for (std::size_t i = lead; i < std::min(n, 2 * lead); ++i) {
    look(i);
    follow(i - lead);
  }
  for (std::size_t i = 2 * lead; i < n; ++i) {
    read(i - 2 * lead);
    look(i);
    follow(i - lead);
  }
  for (std::size_t i = std::max(n, lead) - lead; i < n; ++i) follow(i);
  for (std::size_t i = std::max(n, 2 * lead) - 2 * lead; i < n; ++i) read(i);
  return sum;
}

std::uint64_t Ceiling::copy(std::span<const WireOp> ops, char* out) const noexcept {
  constexpr std::size_t strip = 16;
  std::uint64_t sum = 0;
  const char* item[strip];
  for (std::size_t i = 0; i < ops.size(); i += strip) {
    const std::size_t n = std::min(strip, ops.size() - i);
    for (std::size_t j = 0; j < n; ++j) prefetch_read(cell(ops[i + j].key()));
    for (std::size_t j = 0; j < n; ++j) {
      item[j] = items_.data() + *cell(ops[i + j].key()) * slot_bytes_;
      const auto first = reinterpret_cast<std::uintptr_t>(item[j]) & ~std::uintptr_t{cache_line_bytes - 1};
      const auto end = reinterpret_cast<std::uintptr_t>(item[j]) + value_offset_ + value_bytes_;
      for (std::uintptr_t line = first; line < end; line += cache_line_bytes)
        prefetch_read(reinterpret_cast<const void*>(line));
    }
    for (std::size_t j = 0; j < n; ++j, out += value_bytes_) {
      std::memcpy(out, item[j] + value_offset_, value_bytes_);
      sum += static_cast<unsigned char>(*out);
    }
  }
  return sum;
}

}  // namespace tandem::bench
