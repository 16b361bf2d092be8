// The instructions that the environment variable TANDEM_LANES asks for, in tests: "scalar", "avx2", "avx512",
// "avx512-vaes", "neon". An index searches with the part before '-', a lane of a worker (lane/) with all of it.
#pragma once
#include <cstdlib>
#include <string_view>

namespace tandem {

// Empty: the widest of this processor. Read at set-up, before there are threads that could change it.
inline std::string_view wanted_lanes() noexcept {
  const char* const wanted = std::getenv("TANDEM_LANES");
  return wanted != nullptr ? std::string_view(wanted) : std::string_view();
}
inline std::string_view wanted_index_lanes() noexcept {
  const std::string_view wanted = wanted_lanes();
  return wanted.substr(0, wanted.find('-'));
}

}  // namespace tandem
