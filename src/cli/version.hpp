// The version that the program prints; CMakeLists.txt has the same (tests/cli compares them).
#pragma once
#include <string_view>

namespace tandem::cli {

inline constexpr std::string_view version = "0.1.0";

}  // namespace tandem::cli
