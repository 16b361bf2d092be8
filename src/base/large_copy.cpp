#include "base/large_copy.hpp"

#include <algorithm>
#include <cstdint>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace tandem::detail {
namespace {

constexpr std::size_t piece_bytes = 4096;  // the smallest page of any system
constexpr std::size_t pieces_ahead = 2;
// Of a longer value most lies in huge pages, and memcpy streams to the program's buffer.
constexpr std::size_t pieced_bytes_max = std::size_t{8} << 20;

}  // namespace

void copy_large_from_heap(char* to, const char* from, std::size_t bytes) noexcept {
  if (bytes > pieced_bytes_max) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t at = 0; at < bytes; at += piece_bytes) {
    if (const std::size_t ahead = at + pieces_ahead * piece_bytes; ahead < bytes) prefetch_read(from + ahead);
    std::memcpy(to + at, from + at, std::min(piece_bytes, bytes - at));
  }
}

#if defined(__x86_64__)
void copy_large_to_heap(char* to, const char* from, std::size_t bytes) noexcept {
  constexpr std::size_t line = cache_line_bytes, word = sizeof(__m128i);
  static_assert(line == 4 * word);
  const std::size_t first = -reinterpret_cast<std::uintptr_t>(to) % line;
  std::memcpy(to, from, first);
  std::size_t at = first;
  for (; at + line <= bytes; at += line) {  // all of a line at once, so that it goes to memory as one write
    const auto* const source = reinterpret_cast<const __m128i*>(from + at);
    auto* const target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence();  // streamed stores are not ordered by a later release
}
#else
void copy_large_to_heap(char* to, const char* from, std::size_t bytes) noexcept { std::memcpy(to, from, bytes); }
#endif

}  // namespace tandem::detail
