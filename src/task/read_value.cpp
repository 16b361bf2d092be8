#include "task/read_value.hpp"

#include <algorithm>

namespace tandem::task {
namespace {
// Beyond this many lines the processor's stream prefetcher keeps up with the copy.
constexpr std::uint64_t prefetch_lines_max = 9;
}  // namespace

void read_value(Batch& batch, const StripState& state) noexcept {
  const Query* const queries = batch.queries();
  const Result* const results = batch.results();
  for (std::uint32_t i = state.strip.begin, strip_end = state.strip.end; i < strip_end; ++i) {
    const Result& r = results[i];
    // KC has read the item's first line, which is all of a small item. (A result that is no hit may appear longer.)
    const std::uint64_t value_end = std::uint64_t{r.value_offset} + r.value_bytes;
    if (TD_LIKELY(reinterpret_cast<std::uintptr_t>(r.item) % cache_line_bytes + value_end <= cache_line_bytes))
      continue;
    if (TD_UNLIKELY(r.status != Status::hit || r.item == nullptr || queries[i].has(option::no_value))) continue;
    const char* const at = r.item->bytes();
    const std::uint64_t first = cache_line_bytes - reinterpret_cast<std::uintptr_t>(at) % cache_line_bytes;
    const std::uint64_t end = std::min<std::uint64_t>(value_end, prefetch_lines_max * cache_line_bytes);
    for (std::uint64_t line = first; line < end; line += cache_line_bytes) prefetch_read(at + line);
  }
}

}  // namespace tandem::task
