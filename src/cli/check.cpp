#include <fmt/format.h>
#include <sys/un.h>
#include <sysexits.h>

#include <stdexcept>

#include "cli/invocation.hpp"
#include "cli/value.hpp"
#include "net/endpoint.hpp"

namespace tandem::cli {
void check_unix_path(const Settings& settings, std::string_view where) {
  constexpr std::size_t bytes_max = sizeof(sockaddr_un::sun_path) - 1;
  if (settings.server.unix_path.size() <= bytes_max) return;
  throw CommandError(EX_USAGE,
                     fmt::format("{}: longer than the {} bytes that a Unix socket's name may have", where, bytes_max));
}

void check_together(const Settings& settings, const std::function<std::string(const Option&)>& where) {
  const Option& listen = *find_option("listen");
  for (const std::string& entry : settings.server.listen) {
    try {
      net::parse_endpoint(entry);
    } catch (const std::invalid_argument& error) {
      throw CommandError(EX_USAGE, fmt::format("{}: {}", where(listen), error.what()));
    }
  }
  check_unix_path(settings, where(*find_option("unix")));
  if (settings.server.unix_path.empty() && settings.server.tcp_port == 0 && settings.server.udp_port == 0) {
    throw CommandError(EX_USAGE, fmt::format("{}, {}: both are 0 and there is no Unix socket: nothing to listen on",
                                             where(*find_option("port")), where(*find_option("udp-port"))));
  }
  if (settings.server.prefix_delimiter.size() != 1) {
    throw CommandError(EX_USAGE, fmt::format("{}: one character is wanted", where(*find_option("prefix-delimiter"))));
  }
  if (settings.engine.item_bytes_max > settings.engine.memory_bytes / 2) {
    throw CommandError(
        EX_USAGE, fmt::format("{}: {} is more than half of the memory ({})", where(*find_option("item-max")),
                              format_size(settings.engine.item_bytes_max), format_size(settings.engine.memory_bytes)));
  }
}

}  // namespace tandem::cli
