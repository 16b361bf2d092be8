// Tells AddressSanitizer, where it is on, which item memory must not be accessed.
#pragma once
#include <cstddef>

#include "base/platform.hpp"

#if TD_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace tandem {

#if TD_ADDRESS_SANITIZER
inline void poison_memory(const volatile void* at, std::size_t bytes) noexcept { ASAN_POISON_MEMORY_REGION(at, bytes); }
inline void unpoison_memory(const volatile void* at, std::size_t bytes) noexcept {
  ASAN_UNPOISON_MEMORY_REGION(at, bytes);
}
#else
TD_INLINE void poison_memory(const volatile void*, std::size_t) noexcept {}
TD_INLINE void unpoison_memory(const volatile void*, std::size_t) noexcept {}
#endif

}  // namespace tandem
