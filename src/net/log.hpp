// The server's log: lines with time and level on stderr, as text or JSON. memcached's levels choose what is logged (0:
// warnings, 1: events, 2: each request, 3: more).
#pragma once
#include <spdlog/spdlog.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::net {

enum class LogFormat : std::uint8_t {
  text,  // 2026-11-28T22:05:09.120Z info: serving on ...
  json,  // {"time":"2026-11-28T22:05:09.120Z","level":"info","message":"serving on ..."}
};
// The default is text. Thread-safe.
void set_log_format(LogFormat format);
LogFormat log_format() noexcept;

// The logger registered as "tandem", made on first use. Thread-safe.
spdlog::logger& log();
void set_log_verbosity(int verbosity);

struct LogLine {
  std::string text;
  spdlog::level::level_enum level = spdlog::level::info;
};

// Log a line whatever the verbosity is. Never block: a line for which stderr has no room is dropped. Thread-safe.
void say(std::string_view line, spdlog::level::level_enum level = spdlog::level::info) noexcept;
inline void warn(std::string_view line) noexcept { say(line, spdlog::level::warn); }

}  // namespace tandem::net
