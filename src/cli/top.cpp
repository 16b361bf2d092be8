// `tandem top`: a server's numbers in the terminal, from its stats commands; also for memcached, as far as its
// statistics go.
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sysexits.h>

#include <cerrno>
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

  // AF_UNIX, which getaddrinfo() does not know.
  void connect_locally(std::string_view path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) fail("is no path of a Unix socket");
    path.copy(address.sun_path, path.size());
    const int error = try_to_connect(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    if (error != 0) fail(std::generic_category().message(error));
  }

  // 0, or an errno.
  int try_to_connect(int family, const sockaddr* address, socklen_t bytes) {
    socket_.reset(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{answer_timeout_s, 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return ::connect(socket_.get(), address, bytes) == 0 ? 0 : errno;
  }

  void connect() {
    constexpr std::string_view local = "unix:";
    if (server_.starts_with(local)) return connect_locally(std::string_view(server_).substr(local.size()));
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
      error = try_to_connect(a->ai_family, a->ai_addr, a->ai_addrlen);
      if (error == 0) return;
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
      if (got <= 0 && has_answered_) fail(got == 0 ? "has closed the connection" : "does not answer");
      constexpr char tls_alert = 0x15;
      // Without a word: so do servers that expect something else.
      if (got <= 0 || (!has_answered_ && part[0] == tls_alert)) {
        fail(got < 0 && errno == EAGAIN ? "does not answer"
                                        : "has refused a plain request: top speaks neither TLS nor SASL (a server with "
                                          "TLS can have a plain listener, --listen notls:127.0.0.1:11212)");
      }
      has_answered_ = true;
      reply.append(part, static_cast<std::size_t>(got));
      if (reply.starts_with("CLIENT_ERROR unauthenticated"))
        fail("asks for a password, and top sends none: its metrics endpoint (--metrics) shows the same numbers");
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
  bool has_answered_ = false;
};

}  // namespace

int run_top(std::span<const std::string> arguments) {
  std::string server = fmt::format("127.0.0.1:{}", default_port);
  double interval_s = 1;
  bool once = false;
  CLI::App app("Shows a server's numbers in the terminal. Works with memcached, too.", "tandem top");
  app.add_option("--connect", server, "address of the server, HOST:PORT or unix:/PATH")->capture_default_str();
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
