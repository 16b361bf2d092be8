// Versions that the program prints.
#pragma once
#include <string_view>

namespace tandem::cli {

inline constexpr std::string_view version = "0.1.0";
// The memcached whose options, commands and replies Tandem has.
inline constexpr std::string_view memcached_version = "1.6.18";

}  // namespace tandem::cli
