// `tandem bench floor`: the bare server to which servers are compared.
#include <fmt/format.h>
#include <sysexits.h>

#include <cstdio>

#include <CLI/CLI.hpp>

#include "bench/cli/bench.hpp"
#include "bench/cli/bench_common.hpp"
#include "bench/load/floor.hpp"
#include "options/options.hpp"

namespace tandem::cli {

int run_bench_floor(std::span<const std::string> arguments) {
  load::FloorOptions options;
  CLI::App app(
      "A bare server with ready-made replies: it finds where requests end and looks nothing up. What a memcached "
      "server "
      "costs above this one is its own doing. Prints its address and runs until it is ended.",
      "tandem bench floor");
  app.option_defaults()->take_last();
  app.add_option("--listen", options.listen, "HOST:PORT (port 0: the system picks one) or unix:/PATH")
      ->capture_default_str();
  app.add_flag("--udp", options.udp, "UDP with memcached's frames: recvmmsg and sendmmsg");
  app.add_flag("--epoll", options.use_epoll, "UDP: wait in epoll_wait, not in recvmmsg");
  app.add_option("--threads", options.threads, "threads")->capture_default_str();
  app.add_option("--key-size", options.key_bytes, "bytes of a reply's key")->capture_default_str();
  app.add_option("--value-size", options.value_bytes, "bytes of a reply's value")->capture_default_str();
  if (const auto done = parse_arguments(app, arguments, "bench floor")) return *done;
  return run_bench_guarded("bench floor", [&] {
    if (options.use_epoll && !options.udp) throw std::invalid_argument("--epoll needs --udp");
    load::raise_descriptor_limit(1);
    load::Floor floor(options);
    fmt::print("{}\n", floor.address());
    std::fflush(stdout);
    floor.wait();
    return EX_OK;
  });
}

}  // namespace tandem::cli
