// Any bytes as memcached's command line, one argument a line, give valid settings, a text to print, or a CommandError.
#include <getopt.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cli/invocation.hpp"

using namespace tandem::cli;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  opterr = 0;  // getopt_long() prints nothing
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> arguments;
  while (!text.empty()) {
    const std::size_t end = text.find('\n') == std::string_view::npos ? text.size() : text.find('\n');
    const std::string_view line = text.substr(0, end);
    arguments.emplace_back(line.substr(0, line.find('\0')));  // as the system would pass it
    text.remove_prefix(end == text.size() ? end : end + 1);
  }
  try {
    const Invocation result = parse_memcached(arguments);
    if (!result.output.empty()) return 0;
    for (const Option& option : all_options()) {
      const std::string value = option.is_serve() ? show(option, result.settings) : std::string();
      if (value.empty() || option.kind == Kind::list) continue;
      Settings copy = result.settings;
      set_from_text(option, copy, value);
      TD_ASSERT(show(option, copy) == value);
    }
    TD_ASSERT(result.settings.engine.item_bytes_max <= result.settings.engine.memory_bytes / 2);
  } catch (const CommandError& error) {
    TD_ASSERT(*error.what() != 0);
  }
  return 0;
}
