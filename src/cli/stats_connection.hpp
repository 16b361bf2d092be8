// A connection to a memcached server for its statistics, with TLS and a password where the server asks for them.
#pragma once
#include <netdb.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>

#include "monitor/top_view.hpp"
#include "net/fd.hpp"

namespace tandem::cli {

inline constexpr int default_memcached_port = 11211;

struct StatsTarget {
  std::string server;       // HOST:PORT or unix:/PATH
  bool tls = false;         // on when one of the next three is given
  std::string ca;           // PEM file of the CAs that may have signed its certificate; empty: the system's
  std::string certificate;  // of this client, PEM; empty: none
  std::string key;          // empty: in the certificate's file
  bool trusts_any = false;  // does not check the server's certificate
  std::string credentials;  // file with user:password as its first line; empty: no password is sent
};

// Thread safety: one thread.
class StatsConnection {
 public:
  // All members throw CommandError with the reason.
  explicit StatsConnection(const StatsTarget& target);
  monitor::TopSample sample();

 private:
  [[noreturn]] void fail(std::string_view what) const;
  [[noreturn]] void fail_refused() const;
  void connect_locally(std::string_view path);
  int try_to_connect(int family, const sockaddr* address, socklen_t bytes);
  std::string connect();  // returns the host, empty of a Unix socket
  void begin_tls(const StatsTarget& target, const std::string& host);
  void authenticate(const std::string& file);
  void send_all(std::string_view bytes);
  std::size_t receive(char* to, std::size_t bytes);
  monitor::Stats ask(std::string_view request);

  struct FreeTls {
    void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
    void operator()(SSL* session) const noexcept { SSL_free(session); }
  };

  const std::string server_;
  net::Fd socket_;
  std::unique_ptr<SSL_CTX, FreeTls> context_;
  std::unique_ptr<SSL, FreeTls> session_;  // nullptr: no TLS
  bool has_answered_ = false;
};

}  // namespace tandem::cli
