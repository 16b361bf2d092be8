#include "task/read_value.hpp"

#include <algorithm>

namespace tandem::task {
namespace {
// Beyond so many lines the processor's own stream prefetcher keeps up with the copy.
constexpr std::uint64_t prefetch_lines_max = 9;
}  // namespace

void read_value(Batch& batch, const StripState& state) noexcept {
  for (std::uint32_t i = state.strip.begin; i < state.strip.end; ++i) {
    const Result& r = batch.result(i);
    if (r.status != Status::hit || r.item == nullptr || batch.query(i).has(option::no_value)) continue;
    // KC has read the item's first line; its value may go on.
    const auto first = reinterpret_cast<std::uintptr_t>(r.item) & ~(cache_line_bytes - 1);
    const auto last = reinterpret_cast<std::uintptr_t>(r.item->value()) + r.value_bytes;
    const std::uintptr_t end = std::min<std::uintptr_t>(last, first + prefetch_lines_max * cache_line_bytes);
    for (std::uintptr_t line = first + cache_line_bytes; line < end; line += cache_line_bytes)
      prefetch_read(reinterpret_cast<const void*>(line));
  }
}

}  // namespace tandem::task
