// Runs a server from start to end.
#pragma once
#include <cstdint>
#include <string>

#include "cli/options.hpp"

namespace tandem::cli {

enum class ServerStyle : std::uint8_t {
  tandem,     // says when it serves; root may stay root
  memcached,  // silent unless verbose; root has to name a user; stops on USR1 too; a pid file that cannot be written is
              // only a warning
};

// Sets up the process, serves until INT or TERM (or the server ends itself) and returns the exit code: 0 after a clean
// stop. Throws CommandError or what Engine and Server throw when it could not start.
int run_server(Settings settings, ServerStyle style);

// "127.0.0.1:11211 (TCP, UDP)", ports being those really bound.
std::string describe_addresses(const ServerOptions& options, int tcp_port, int udp_port);
// Of the live page, as a browser takes it. address: of --metrics.
std::string page_address(const std::string& address, int port);

}  // namespace tandem::cli
