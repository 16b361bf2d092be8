// Included by force where a layer is compiled with a planted bug (cmake/TandemLinearizability.cmake), never otherwise.
#pragma once
#include <atomic>
#include <cstdint>

namespace tandem {

// True once: at the nth call.
inline bool canary_strikes(std::uint64_t nth) noexcept {
  static std::atomic<std::uint64_t> calls{0};
  return calls.fetch_add(1, std::memory_order_relaxed) + 1 == nth;
}

}  // namespace tandem
