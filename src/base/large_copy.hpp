// Copies of values that lie in runs of pages: memcpy's result, faster where one side lies in the heap.
//
// Such a side is cold, and often in small pages (a run's last frame, docs/decisions/0044-ends-of-runs.md), for each of
// which the processor walks the page tables: by prefetches of a page while another is copied, walks and copy overlap.
// A streamed store neither fetches the line that it overwrites nor drives another out of the caches.
#pragma once
#include <cstddef>
#include <cstring>

#include "base/platform.hpp"

namespace tandem {

inline constexpr std::size_t large_copy_bytes_min = std::size_t{512} << 10;

namespace detail {
void copy_large_from_heap(char* to, const char* from, std::size_t bytes) noexcept;
void copy_large_to_heap(char* to, const char* from, std::size_t bytes) noexcept;
}  // namespace detail

// Of a value in the heap, to a program's buffer. REQUIRES: no thread writes the value meanwhile.
TD_INLINE void copy_from_heap(char* to, const char* from, std::size_t bytes) noexcept {
  if (TD_UNLIKELY(bytes >= large_copy_bytes_min)) return detail::copy_large_from_heap(to, from, bytes);
  std::memcpy(to, from, bytes);
}

// To an item that is not published. A later store with release publishes these bytes, too.
TD_INLINE void copy_to_heap(char* to, const char* from, std::size_t bytes) noexcept {
  if (TD_UNLIKELY(bytes >= large_copy_bytes_min)) return detail::copy_large_to_heap(to, from, bytes);
  std::memcpy(to, from, bytes);
}

}  // namespace tandem
