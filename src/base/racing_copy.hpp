// Copies of bytes that another thread may change meanwhile: the two sides of a sequence lock.
//
// The copy may be a mix of old and new bytes; the caller detects that afterwards and discards it. C++ has no such copy
// yet (P1478 proposes it, after Boehm, "Can seqlocks get along with programming language memory models?", 2012): a
// plain memcpy would be a data race. Here every access is one volatile load or store of at most 16 bytes, which the
// compiler neither merges, repeats nor invents. ThreadSanitizer sees a relaxed atomic byte of each piece instead, and
// still checks everything else. The bytes are unordered: the caller's fences order them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/platform.hpp"

namespace tandem {
namespace detail {

// Types for any address and any object's bytes. (As template arguments they would lose these attributes.)
typedef std::uint32_t Racing4 __attribute__((may_alias, aligned(1)));
typedef std::uint64_t Racing8 __attribute__((may_alias, aligned(1)));
typedef std::uint64_t Racing16 __attribute__((vector_size(16), may_alias, aligned(1)));

TD_INLINE void racing_1(char* to, const char* from) noexcept {
  *static_cast<volatile char*>(to) = *static_cast<const volatile char*>(from);
}
TD_INLINE void racing_4(char* to, const char* from) noexcept {
  *reinterpret_cast<volatile Racing4*>(to) = *reinterpret_cast<const volatile Racing4*>(from);
}
TD_INLINE void racing_8(char* to, const char* from) noexcept {
  *reinterpret_cast<volatile Racing8*>(to) = *reinterpret_cast<const volatile Racing8*>(from);
}
TD_INLINE void racing_16(char* to, const char* from) noexcept {
  *reinterpret_cast<volatile Racing16*>(to) = *reinterpret_cast<const volatile Racing16*>(from);
}

#if TD_THREAD_SANITIZER
__attribute__((no_sanitize("thread"), noinline)) inline void racing_rest(char* to, const char* from,
                                                                         std::size_t bytes) {
  for (std::size_t i = 1; i < bytes; ++i) racing_1(to + i, from + i);
}
#endif

}  // namespace detail

// Copies `bytes` bytes; exactly these are read and written. Either side, or both, may be shared. Returns the end of the
// copy. Thread safety: with any other copies by this function, as described above.
TD_INLINE char* racing_copy(char* to, const char* from, std::size_t bytes) noexcept {
#if TD_THREAD_SANITIZER
  constexpr std::size_t piece = 16;
  for (std::size_t i = 0; i < bytes; i += piece) {
    __atomic_store_n(to + i, __atomic_load_n(from + i, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    detail::racing_rest(to + i, from + i, bytes - i < piece ? bytes - i : piece);
  }
#else
  using namespace detail;
  if (TD_LIKELY(bytes >= 16)) {
    for (std::size_t i = 0; i + 16 < bytes; i += 16) racing_16(to + i, from + i);
    racing_16(to + bytes - 16, from + bytes - 16);
  } else if (bytes >= 8) {
    racing_8(to, from);
    racing_8(to + bytes - 8, from + bytes - 8);
  } else if (bytes >= 4) {
    racing_4(to, from);
    racing_4(to + bytes - 4, from + bytes - 4);
  } else {
    for (std::size_t i = 0; i < bytes; ++i) racing_1(to + i, from + i);
  }
#endif
  return to + bytes;
}

// The same in pieces of 16 bytes, one at least: may read and write up to 16 bytes more, but does not with
// AddressSanitizer, which forbids what lies behind an item.
TD_INLINE char* racing_copy_pieces(char* to, const char* from, std::size_t bytes) noexcept {
#if TD_THREAD_SANITIZER || TD_ADDRESS_SANITIZER
  return racing_copy(to, from, bytes);
#else
  detail::racing_16(to, from);
  for (std::size_t i = 16; TD_UNLIKELY(i < bytes); i += 16) detail::racing_16(to + i, from + i);
  return to + bytes;
#endif
}

// An acquire fence: later loads are not executed before earlier ones. ThreadSanitizer does not model fences. It needs
// none here, since only the atomic copies above rely on this one.
TD_INLINE void fence_acquire() noexcept {
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  std::atomic_thread_fence(std::memory_order_acquire);
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}
TD_INLINE void fence_release() noexcept {
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  std::atomic_thread_fence(std::memory_order_release);
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

}  // namespace tandem
