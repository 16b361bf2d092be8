#include "cli/stats_connection.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sysexits.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <system_error>

#include "net/endpoint.hpp"
#include "options/options.hpp"

namespace tandem::cli {
namespace {

constexpr int answer_timeout_s = 5;

std::string reason_of(int error) { return std::generic_category().message(error); }

// The reason of the last failed call of OpenSSL.
std::string tls_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  std::array<char, 256> text{};
  if (code == 0) return errno == EAGAIN ? "no answer" : errno != 0 ? reason_of(errno) : "the connection was closed";
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> parsed{};
  return inet_pton(AF_INET, host.c_str(), parsed.data()) == 1 || inet_pton(AF_INET6, host.c_str(), parsed.data()) == 1;
}

}  // namespace

StatsConnection::StatsConnection(const StatsTarget& target) : server_(target.server) {
  const std::string host = connect();
  if (target.tls) begin_tls(target, host);
  if (!target.credentials.empty()) authenticate(target.credentials);
}

monitor::TopSample StatsConnection::sample() {
  monitor::TopSample s;
  s.general = ask("stats\r\n");
  s.own = ask("stats tandem\r\n");
  s.histograms = ask("stats histograms\r\n");
  s.hot_keys = ask("stats hotkeys 10\r\n");
  s.time_s = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (s.general.empty()) fail("does not answer `stats`");
  return s;
}

void StatsConnection::fail(std::string_view what) const {
  throw CommandError(EX_UNAVAILABLE, fmt::format("top: {} {}", server_, what));
}

// Closed, or a TLS alert, before any answer.
void StatsConnection::fail_refused() const {
  fail(session_ != nullptr ? "has ended TLS: does it ask for a client's certificate (--tls-cert)?"
                           : "has refused a plain request: for TLS there is --tls; a server that asks for SASL alone "
                             "has its metrics page");
}

// AF_UNIX, which getaddrinfo() does not know.
void StatsConnection::connect_locally(std::string_view path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) fail("is no path of a Unix socket");
  path.copy(address.sun_path, path.size());
  const int error = try_to_connect(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (error != 0) fail(reason_of(error));
}

// 0, or an errno.
int StatsConnection::try_to_connect(int family, const sockaddr* address, socklen_t bytes) {
  socket_.reset(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{answer_timeout_s, 0};
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  return ::connect(socket_.get(), address, bytes) == 0 ? 0 : errno;
}

std::string StatsConnection::connect() {
  constexpr std::string_view local = "unix:";
  if (server_.starts_with(local)) {
    connect_locally(std::string_view(server_).substr(local.size()));
    return {};
  }
  const net::Endpoint endpoint = net::parse_endpoint(server_);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string host = endpoint.host.empty() ? "127.0.0.1" : endpoint.host;
  const std::string port = std::to_string(endpoint.port > 0 ? endpoint.port : default_memcached_port);
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) fail(gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  int error = 0;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    error = try_to_connect(a->ai_family, a->ai_addr, a->ai_addrlen);
    if (error == 0) return host;
  }
  fail(reason_of(error));
}

void StatsConnection::begin_tls(const StatsTarget& target, const std::string& host) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
  const auto require = [&](bool done, std::string_view what) {
    if (!done) fail(fmt::format("{}: {}", what, tls_error()));
  };
  ERR_clear_error();
  context_.reset(SSL_CTX_new(TLS_client_method()));
  require(context_ != nullptr, "TLS");
  require(target.ca.empty() ? SSL_CTX_set_default_verify_paths(context_.get()) == 1
                            : SSL_CTX_load_verify_locations(context_.get(), target.ca.c_str(), nullptr) == 1,
          "cannot be checked, --tls-ca");
  if (!target.certificate.empty()) {
    const std::string& key = target.key.empty() ? target.certificate : target.key;
    require(SSL_CTX_use_certificate_chain_file(context_.get(), target.certificate.c_str()) == 1, "--tls-cert");
    require(SSL_CTX_use_PrivateKey_file(context_.get(), key.c_str(), SSL_FILETYPE_PEM) == 1, "--tls-key");
  }
  SSL_CTX_set_verify(context_.get(), target.trusts_any ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  session_.reset(SSL_new(context_.get()));
  require(session_ != nullptr && SSL_set_fd(session_.get(), socket_.get()) == 1, "TLS");
  if (is_address(host)) {
    require(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session_.get()), host.c_str()) == 1, "TLS");
  } else if (!host.empty()) {
    require(SSL_set1_host(session_.get(), host.c_str()) == 1 &&
                // SSL_set_tlsext_host_name(): its macro has a cast of C.
                SSL_ctrl(session_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                         const_cast<char*>(host.c_str())) == 1,
            "TLS");
  }
  errno = 0;
  if (SSL_connect(session_.get()) == 1) return;
  if (const long verified = SSL_get_verify_result(session_.get()); verified != X509_V_OK)
    fail(fmt::format("has a certificate that cannot be trusted: {} (--tls-ca names its CA)",
                     X509_verify_cert_error_string(verified)));
  fail(fmt::format("refuses TLS: {}", tls_error()));
}

// memcached's way for the text protocol: the first command is a set with any key.
void StatsConnection::authenticate(const std::string& file) {
  errno = 0;
  std::ifstream in(file);
  std::string line;
  if (!in || (!std::getline(in, line) && in.bad()))
    throw CommandError(EX_NOINPUT, fmt::format("top: {}: {}", file, reason_of(errno != 0 ? errno : EIO)));
  if (line.ends_with('\r')) line.pop_back();
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == line.size())
    throw CommandError(EX_CONFIG, fmt::format("top: {}: the first line is not user:password", file));
  line[colon] = ' ';
  send_all(fmt::format("set auth 0 0 {}\r\n{}\r\n", line.size(), line));
  std::string reply;
  while (!reply.ends_with('\n') && reply.size() < 1024) {
    std::array<char, 256> part{};
    const std::size_t got = receive(part.data(), part.size());
    if (got == 0) fail_refused();
    reply.append(part.data(), got);
  }
  if (!reply.starts_with("STORED")) fail("refuses user and password");
}

void StatsConnection::send_all(std::string_view bytes) {
  errno = 0;
  const auto sent = session_ != nullptr
                        ? static_cast<ssize_t>(SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size())))
                        : send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(bytes.size())) fail("has closed the connection");
}

// 0: the server has closed.
std::size_t StatsConnection::receive(char* to, std::size_t bytes) {
  errno = 0;
  const auto got = session_ != nullptr ? static_cast<ssize_t>(SSL_read(session_.get(), to, static_cast<int>(bytes)))
                                       : recv(socket_.get(), to, bytes, 0);
  if (got > 0) return static_cast<std::size_t>(got);
  if (errno == EAGAIN) fail("does not answer");
  return 0;
}

// Empty: the server does not know the group.
monitor::Stats StatsConnection::ask(std::string_view request) {
  send_all(request);
  std::string reply;
  std::array<char, 16 * 1024> part;
  for (;;) {
    const std::size_t got = receive(part.data(), part.size());
    if (got == 0 && has_answered_) fail("has closed the connection");
    constexpr char tls_alert = 0x15;
    // Without a word: so do servers that expect something else.
    if (got == 0 || (!has_answered_ && part[0] == tls_alert)) fail_refused();
    has_answered_ = true;
    reply.append(part.data(), got);
    if (reply.starts_with("ERROR Too many")) fail("refuses: too many open connections");
    if (reply.starts_with("CLIENT_ERROR unauthenticated")) fail("asks for a password: --auth-file FILE");
    if (reply.size() > monitor::stats_bytes_max) fail("sends more than statistics");
    if (!reply.ends_with('\n')) continue;
    monitor::Stats stats;
    const monitor::StatsEnd end = monitor::parse_stats(reply, stats);
    if (end == monitor::StatsEnd::done) return stats;
    if (end == monitor::StatsEnd::refused) return {};
  }
}

}  // namespace tandem::cli
