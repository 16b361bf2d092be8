// Features of compiler and processor, under one name each. Independent of keys and queries.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

// Whether the sanitizers are on: 0 or 1.
#if defined(__has_feature)
#define TD_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#define TD_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#if defined(__SANITIZE_ADDRESS__)
#define TD_ADDRESS_SANITIZER 1
#else
#define TD_ADDRESS_SANITIZER 0
#endif
#if defined(__SANITIZE_THREAD__)
#define TD_THREAD_SANITIZER 1
#else
#define TD_THREAD_SANITIZER 0
#endif
#endif

namespace tandem {

inline constexpr std::size_t cache_line_bytes = 64;

#if defined(TANDEM_SANITIZED)
inline constexpr bool is_sanitized = true;  // long tests do less
#else
inline constexpr bool is_sanitized = false;
#endif

// What AddressSanitizer instruments takes minutes to compile where all of it is one function. (ThreadSanitizer must not
// see what is inlined into a function that it leaves out.)
#if TD_ADDRESS_SANITIZER
#define TD_INLINE inline
#define TD_INLINE_LAMBDA
#else
#define TD_INLINE inline __attribute__((always_inline))
#define TD_INLINE_LAMBDA __attribute__((always_inline))
#endif
#define TD_NOINLINE __attribute__((noinline))
#define TD_LIKELY(x) __builtin_expect(!!(x), 1)
#define TD_UNLIKELY(x) __builtin_expect(!!(x), 0)

[[noreturn]] TD_NOINLINE inline void assertion_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "tandem: assertion failed: %s (%s:%d)\n", what, file, line);
  std::abort();
}

// For internal errors only, never for input of a client or user. Always on: each use is one predicted branch.
#define TD_ASSERT(cond) (TD_LIKELY(cond) ? void() : ::tandem::assertion_failed(#cond, __FILE__, __LINE__))
#if defined(NDEBUG)
#define TD_DEBUG_ASSERT(cond) void()
#else
#define TD_DEBUG_ASSERT(cond) TD_ASSERT(cond)
#endif

// The same value, of which the compiler knows nothing.
template <class T>
TD_INLINE T opaque(T value) noexcept {
  __asm__("" : "+r"(value));
  return value;
}
// Of two numbers that differ: x = x_else, y = y_else. Without a branch, for what no processor can guess: a compiler
// that is told so in C++ makes one all the same.
template <class T, class U>
TD_INLINE void replace_unless_equal(std::uint32_t a, std::uint32_t b, T*& x, T* x_else, U*& y, U* y_else) noexcept {
#if defined(__x86_64__)
  __asm__("cmpl %[b], %[a]\n\tcmovneq %[x_else], %[x]\n\tcmovneq %[y_else], %[y]"
          : [x] "+&r"(x), [y] "+&r"(y)
          : [a] "r"(a), [b] "rm"(b), [x_else] "rm"(x_else), [y_else] "rm"(y_else)
          : "cc");
#else
  x = a == b ? x : x_else;
  y = a == b ? y : y_else;
#endif
}

TD_INLINE void prefetch_read(const void* p) noexcept { __builtin_prefetch(p, 0, 3); }
// Into the second-level cache: many lines, which are read a little later.
TD_INLINE void prefetch_read_later(const void* p) noexcept { __builtin_prefetch(p, 0, 2); }
// The line comes as this processor's own, so that a write to it need not ask other processors. For any x86-64 compilers
// make a prefetch for reads of the builtin; a processor without the instruction does nothing.
TD_INLINE void prefetch_write(const void* p) noexcept {
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1, 3);
#endif
}

// One pause of a spin loop.
TD_INLINE void cpu_relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield" ::: "memory");
#endif
}

// A full barrier: no later load is executed before an earlier store is visible. Here only acquire and release prevent
// data races, never the fences. So ThreadSanitizer, which does not model fences, loses nothing.
TD_INLINE void fence_seq_cst() noexcept {
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

// A monotonic tick counter of the processor (TSC on x86-64, the virtual counter on AArch64). Not serialising: suitable
// for sums over many runs.
TD_INLINE std::uint64_t cycles_now() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t t;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
  return t;
#else
  return 0;
#endif
}

}  // namespace tandem
