// Runs a server from start to end.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "net/log.hpp"
#include "options/options.hpp"

namespace tandem::cli {

enum class ServerStyle : std::uint8_t {
  tandem,     // logs when it serves; may keep running as root
  memcached,  // silent unless verbose; root must name a user; stops on USR1 too; an unwritable pid file is only a
              // warning
};

// Upon HUP: lines for the log about settings that have changed since the start and need a restart.
using ChangedSettings = std::function<std::vector<net::LogLine>()>;

// Sets up the process, serves until INT or TERM (or the server ends itself) and returns the exit code: 0 after a clean
// stop. If it cannot start, throws CommandError or an exception of Engine or Server.
int run_server(Settings settings, ServerStyle style, const ChangedSettings& changed_settings);

// "127.0.0.1:11211 (TCP, UDP)", with the ports that were bound.
std::string describe_addresses(const ServerOptions& options, int tcp_port, int udp_port);
// Of the live page, as a browser takes it. address: of --metrics.
std::string page_address(const std::string& address, int port);

}  // namespace tandem::cli
