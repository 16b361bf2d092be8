// Included by force where layers are compiled with the planted bugs (cmake/TandemLinearizability.cmake), never
// otherwise. The environment says which of them bites: TANDEM_CANARY=NAME, or NAME:N for those that strike once, at
// their Nth chance.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tandem {

struct Canary {
  std::string name;
  std::uint64_t nth = 0;  // 0: not said
};

inline const Canary& canary() {
  static const Canary chosen = [] {
    const char* const said = std::getenv("TANDEM_CANARY");
    const std::string text = said == nullptr ? "" : said;
    const std::size_t colon = text.find(':');
    return Canary{text.substr(0, colon), colon == std::string::npos ? 0 : std::stoull(text.substr(colon + 1))};
  }();
  return chosen;
}

inline bool canary_bites(std::string_view name) { return canary().name == name; }

// True once: at this chance, if nothing else is said.
inline bool canary_strikes(std::string_view name, std::uint64_t nth) {
  if (!canary_bites(name)) return false;
  static std::atomic<std::uint64_t> chances{0};
  return chances.fetch_add(1, std::memory_order_relaxed) + 1 == (canary().nth == 0 ? nth : canary().nth);
}

}  // namespace tandem
