#include "net/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <memory>

namespace tandem::net {

spdlog::logger& log() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    if (auto registered = spdlog::get("tandem")) return registered;
    return spdlog::stderr_logger_mt("tandem");
  }();
  return *logger;
}

void set_log_verbosity(int verbosity) {
  constexpr spdlog::level::level_enum levels[] = {spdlog::level::warn, spdlog::level::info, spdlog::level::debug,
                                                  spdlog::level::trace};
  log().set_level(levels[std::clamp(verbosity, 0, 3)]);
}

}  // namespace tandem::net
