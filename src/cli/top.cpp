// `tandem top`: a server's numbers in the terminal, from its stats commands; also for memcached, as far as its
// statistics go.
#include <fmt/format.h>
#include <sysexits.h>

#include <chrono>
#include <thread>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/command.hpp"
#include "cli/stats_connection.hpp"
#include "cli/top_screen.hpp"
#include "monitor/top_view.hpp"
#include "options/arguments.hpp"
#include "options/options.hpp"

namespace tandem::cli {

int run_top(std::span<const std::string> arguments) {
  StatsTarget target;
  target.server = fmt::format("127.0.0.1:{}", default_memcached_port);
  std::string& server = target.server;
  double interval_s = 1;
  bool once = false;
  CLI::App app("Shows a server's numbers in the terminal. Works with memcached, too.", "tandem top");
  app.add_option("--connect", server, "address of the server, HOST:PORT or unix:/PATH")->capture_default_str();
  app.add_option("--interval", interval_s, "seconds between two looks")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  app.add_flag("--once", once, "print once, as plain text, after one interval");
  app.add_option("--auth-file", target.credentials, "file whose first line is user:password, for the text protocol")
      ->type_name("FILE");
  app.add_flag("--tls", target.tls, "speak TLS; on when one of the next three is given");
  app.add_option("--tls-ca", target.ca,
                 "PEM file of the CAs that may have signed the server's certificate; if not given: the system's")
      ->type_name("FILE");
  app.add_option("--tls-cert", target.certificate, "PEM file of a client's certificate")->type_name("FILE");
  app.add_option("--tls-key", target.key, "its private key; if not given: in the certificate's file")
      ->type_name("FILE");
  app.add_flag("--tls-insecure", target.trusts_any, "do not check the server's certificate");
  if (const auto done = parse_arguments(app, arguments, "top")) return *done;
  target.tls = target.tls || target.trusts_any || !target.ca.empty() || !target.certificate.empty();
  if (!target.key.empty() && target.certificate.empty())
    throw CommandError(EX_USAGE, "top: --tls-key: has no effect without --tls-cert");

  StatsConnection connection(target);
  monitor::TopSample before = connection.sample();
  const auto interval = std::chrono::duration<double>(interval_s);
  if (once) {
    std::this_thread::sleep_for(interval);
    for (const monitor::TopLine& line : monitor::top_lines(server, before, connection.sample(), {.rows = 1000}))
      fmt::print("{}\n", line.text);
    return EX_OK;
  }
  TopScreen screen;
  screen.show({{fmt::format("{}: measuring", server), true}});
  while (screen.wait(static_cast<int>(interval_s * 1000))) {
    monitor::TopSample now = connection.sample();
    screen.show(monitor::top_lines(server, before, now, screen.size()));
    before = std::move(now);
  }
  return EX_OK;
}

}  // namespace tandem::cli
