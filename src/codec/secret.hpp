// Comparison of secrets.
#pragma once
#include <string_view>

namespace tandem {

// Branches on no compared byte, so that the time depends on the guess's length only.
bool is_same_secret(std::string_view secret, std::string_view guess) noexcept;

}  // namespace tandem
