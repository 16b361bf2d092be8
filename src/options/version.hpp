// The version: the program prints it, and CMakeLists.txt reads it here.
#pragma once
#include <string_view>

namespace tandem::cli {

inline constexpr std::string_view version = "0.1.0";
inline constexpr std::string_view version_date = "2026-11-24";  // of the release

}  // namespace tandem::cli
