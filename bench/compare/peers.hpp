// The servers of a comparison, and how each is started.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/child.hpp"

namespace tandem::bench {

enum class Dialect : std::uint8_t {
  memcached,
  resp,   // of Redis and compatible servers
  canned  // answers like memcached without storing anything
};

// memcached's own largest item.
inline constexpr std::uint64_t item_bytes_default = std::uint64_t{1} << 20;

// Values for the names in braces of a command line.
struct PeerValues {
  std::uint16_t port = 0;
  std::uint64_t memory_mib = 1024;
  unsigned threads = 1;
  std::string key_bytes, value_bytes;  // of a bare server's ready-made replies
  std::uint64_t item_bytes_max = item_bytes_default;
};

struct Peer {
  std::string name;
  Dialect dialect = Dialect::memcached;
  bool tcp = true, udp = false;  // both on the same port
  // With {port}, {udp_port} (the same number), {memory} (MiB), {threads}, {key_bytes}, {value_bytes}, {item_max}
  // (bytes).
  std::vector<std::string> command;

  bool stores() const noexcept { return dialect != Dialect::canned; }
};

inline constexpr std::string_view tandem_name = "tandem";
inline constexpr std::string_view floor_name = "floor";
// As the first word of a command: this program, which shell_line() calls tandem.
inline constexpr std::string_view this_program = "/proc/self/exe";

// "NAME=COMMAND {port}": any server, by a shell command line. Throws std::invalid_argument with a message for users.
Peer parse_peer(std::string_view text, Dialect dialect);

// Known names: floor, memcached, redis, valkey, tandem.
std::span<const std::string_view> known_peers();

// The installed ones of `names` (for the floor two, one for TCP and one for UDP), `extra` before tandem, which is last.
// If `must_exist`, a missing one is a std::runtime_error, else a line in `notes`. Throws std::invalid_argument for an
// unknown or duplicate name.
std::vector<Peer> find_peers(std::span<const std::string> names, std::span<const Peer> extra, bool must_exist,
                             std::vector<std::string>& notes);

std::string substitute(std::string_view text, const PeerValues& values);

// A free port of 127.0.0.1 for TCP and UDP, below those that the kernel assigns to clients.
std::uint16_t free_port();

// "0,2-4"; throws std::invalid_argument.
std::vector<int> parse_processors(std::string_view text);
std::string to_string(std::span<const int> processors);

struct Placement {
  std::vector<int> server, load;
  std::string note;  // if they have to share
};
// `threads` processors for the server, one per core, and for the load as many further ones as it may use, at most twice
// as many. `allowed`: the process may run there; `core_of` tells which share a core.
Placement place(std::span<const int> allowed, const std::function<int(int)>& core_of, unsigned threads);
// The same for this process on this machine.
Placement place_here(unsigned threads);

// A running server that answers.
class RunningPeer {
 public:
  // Throws std::runtime_error with the server's output when it ends or does not answer within `timeout_s`.
  RunningPeer(const Peer& peer, PeerValues values, const std::vector<int>& processors, double timeout_s);

  const Peer& peer() const noexcept { return peer_; }
  std::uint16_t port() const noexcept { return port_; }
  ServerChild& child() noexcept { return *child_; }
  // The command line with which it was started.
  const std::string& command() const noexcept { return command_; }
  // "NAME ended by signal 11 (...); the end of its output: ..."; nothing while it runs.
  std::optional<std::string> why_ended();

 private:
  bool answers();

  Peer peer_;
  std::uint16_t port_;
  std::string command_;
  std::unique_ptr<ServerChild> child_;
};

// For users, and for a shell to read back.
std::string shell_line(std::span<const std::string> words);

}  // namespace tandem::bench
