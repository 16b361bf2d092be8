// A copy of few bytes.
#pragma once
#include <cstddef>
#include <cstring>

#include "base/platform.hpp"

namespace tandem {

// memcpy for short strings: no call, exact reads and writes.
TD_INLINE char* copy_short(char* to, const char* from, std::size_t bytes) noexcept {
  if (TD_LIKELY(bytes >= 16)) {
    std::size_t i = 0;
    for (; i + 16 <= bytes; i += 16) std::memcpy(to + i, from + i, 16);
    std::memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 4) {
    std::memcpy(to, from, 4);
    std::memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
  return to + bytes;
}

}  // namespace tandem
