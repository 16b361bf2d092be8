// What the server is told at its start: addresses, limits, TLS, protocols, passwords.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem {
namespace net {
class Xdp;
}  // namespace net

// TLS on TCP connections. UDP and Unix sockets stay plain, as memcached's do.
struct TlsOptions {
  bool enabled = false;               // -Z
  std::string certificate;            // -o ssl_chain_cert: PEM file, the server's own certificate first
  std::string key;                    // -o ssl_key; empty: it is in the certificate's file
  unsigned key_format = 1;            // -o ssl_keyformat: 1 PEM, 2 DER
  unsigned verify_mode = 0;           // -o ssl_verify_mode: clients' certificates are 0 not asked for, 1 checked when
                                      // they come, 2 required; 3 is 2
  std::string ca;                     // -o ssl_ca_cert: PEM file of trusted signers
  std::string ciphers;                // -o ssl_ciphers: of TLS 1.2 and before; empty: OpenSSL's
  unsigned min_version = 2;           // -o ssl_min_version: TLS 1.n
  bool session_cache = false;         // -o ssl_session_cache: clients may resume sessions
  bool kernel_tls = false;            // -o ssl_kernel_tls: the kernel encrypts, if it can
  unsigned handshake_timeout_s = 10;  // a client that has not finished its handshake by then is closed; 0: never
};

// Certificate, key or another part of TlsOptions cannot be used.
class TlsError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

struct ServerOptions {
  // Called by a worker when a client has asked the server to stop. Empty: nothing is called.
  std::function<void(bool graceful)> stop_asked;
  std::vector<std::string> listen = {"127.0.0.1"};  // addresses or host names, each may carry :port (memcached -l)
  int tcp_port = 11211;                             // -p; 0: off; -1: any free port
  // -U; -1: any free port; 0: off, because datagrams have no authenticated sender, and replies could flood a third
  // party
  int udp_port = 0;
  std::string xdp_interface;      // its UDP packets to udp_port, which is a number then, go to AF_XDP sockets
  std::shared_ptr<net::Xdp> xdp;  // attached to it (Xdp::attach) while the process has the rights; for one server
  std::string unix_path;          // -s; turns TCP and UDP off
  unsigned unix_mask = 0700;      // -a, the socket file's mode
  // Unix socket, for the server's user alone; its clients may change the values of `config`; beside all other
  // addresses. Empty: there is no command `config`.
  std::string control_path;
  bool control_tcp = false;            // any client may change them
  unsigned threads = 4;                // -t
  unsigned connections_max = 1024;     // -c
  unsigned requests_per_event = 20;    // -R: a connection yields after so many requests
  unsigned backlog = 1024;             // -b
  unsigned idle_timeout_s = 0;         // -o idle_timeout; 0: never
  unsigned input_limit_mib = 0;        // -o read_buf_mem_limit: all input that is kept; 0: long lines, 64 MiB
  bool maxconns_fast = true;           // past the limit: an error line and close at once
  bool flush_enabled = true;           // -F turns flush_all off
  bool track_sizes = false;            // -o track_sizes: `stats sizes` counts the items of each size
  bool shutdown_enabled = false;       // -A: the command shutdown
  bool dump_enabled = true;            // -X turns metadump, mgdump and cachedump off
  bool watch_enabled = true;           // -W turns watch off
  bool lru_maintainer = true;          // -o lru_maintainer: off, its commands are ERROR, its statistics absent
  std::string prefix_delimiter = ":";  // -D: the byte that ends a key's prefix for `stats detail`
  bool detail_enabled = false;         // `stats detail` counts from the start
  unsigned worker_log_kib = 64;        // -o worker_logbuf_size: a worker's events for watchers
  unsigned watcher_log_kib = 256;      // -o watcher_logbuf_size: lines for a client that watches
  bool hot_keys = true;                // keys are sampled for `stats hotkeys`
  std::string version;                 // Tandem's, for `stats tandem`
  std::string metrics;                 // address of the monitoring endpoint (src/monitor); empty: none
  std::string metrics_token_file;      // with the token that it asks for; empty: none is asked for
  int verbosity = 0;                   // -v
  unsigned log_format = 0;             // net::LogFormat
  unsigned preset = 1;                 // number of its row (preset/preset.hpp)
  TlsOptions tls;
  std::string protocol = "auto";  // -B: auto, ascii or binary
  bool sasl = false;              // -S: the binary protocol asks for user and password
  std::string sasl_file;          // lines of user:password (MEMCACHED_SASL_PWDB)
  std::string auth_file;          // -Y: the same for the text protocol; empty: no authentication
};

// A port that the server listens on, at one address.
struct ListeningPort {
  bool udp = false, ipv6 = false;
  int port = 0;
};

}  // namespace tandem
