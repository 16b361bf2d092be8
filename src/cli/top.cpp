// `tandem top`: a server's numbers in the terminal, from its stats commands; also for memcached, as far as its
// statistics go.
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sysexits.h>

#include <chrono>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>

#include <CLI/CLI.hpp>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/options.hpp"
#include "cli/top_screen.hpp"
#include "cli/value.hpp"
#include "monitor/top_view.hpp"
#include "net/endpoint.hpp"
#include "net/fd.hpp"

namespace tandem::cli {
namespace {

constexpr int default_port = 11211;
constexpr int answer_timeout_s = 5;

class StatsConnection {
 public:
  explicit StatsConnection(const std::string& server) : server_(server) { connect(); }

  monitor::TopSample sample() {
    monitor::TopSample s;
    s.general = ask("stats\r\n");
    s.own = ask("stats tandem\r\n");
    s.histograms = ask("stats histograms\r\n");
    s.hot_keys = ask("stats hotkeys 10\r\n");
    s.time_s = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    if (s.general.empty()) fail("does not answer `stats`");
    return s;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw CommandError(EX_UNAVAILABLE, fmt::format("top: {} {}", server_, what));
  }

  void connect() {
    const net::Endpoint endpoint = net::parse_endpoint(server_);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const std::string host = endpoint.host.empty() ? "127.0.0.1" : endpoint.host;
    const std::string port = std::to_string(endpoint.port > 0 ? endpoint.port : default_port);
    if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
      fail(gai_strerror(error));
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
    int error = 0;
    for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
      socket_.reset(socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
      const timeval limit{answer_timeout_s, 0};
      setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
      if (::connect(socket_.get(), a->ai_addr, a->ai_addrlen) == 0) return;
      error = errno;
    }
    fail(std::generic_category().message(error));
  }

  // Empty: the server does not know the group.
  monitor::Stats ask(std::string_view request) {
    if (send(socket_.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
      fail("has closed the connection");
    std::string reply;
    char part[16 * 1024];
    for (;;) {
      const ssize_t got = recv(socket_.get(), part, sizeof part, 0);
      if (got <= 0) fail(got == 0 ? "has closed the connection" : "does not answer");
      reply.append(part, static_cast<std::size_t>(got));
      if (reply.size() > monitor::stats_bytes_max) fail("sends more than statistics");
      if (!reply.ends_with('\n')) continue;
      monitor::Stats stats;
      const monitor::StatsEnd end = monitor::parse_stats(reply, stats);
      if (end == monitor::StatsEnd::done) return stats;
      if (end == monitor::StatsEnd::refused) return {};
    }
  }

  const std::string server_;
  net::Fd socket_;
};

}  // namespace

int run_top(std::span<const std::string> arguments) {
  std::string server = fmt::format("127.0.0.1:{}", default_port);
  double interval_s = 1;
  bool once = false;
  CLI::App app("Shows a server's numbers in the terminal. Works with memcached, too.", "tandem top");
  app.add_option("--connect", server, "address of the server, HOST:PORT")->capture_default_str();
  app.add_option("--interval", interval_s, "seconds between two looks")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  app.add_flag("--once", once, "print once, as plain text, after one interval");
  if (const auto done = parse_arguments(app, arguments, "top")) return *done;

  StatsConnection connection(server);
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
