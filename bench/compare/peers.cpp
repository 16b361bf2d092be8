#include "bench/compare/peers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>

#include "net/fd.hpp"

namespace tandem::bench {
namespace {

constexpr std::array<std::string_view, 5> known{floor_name, "memcached", "redis", "valkey", tandem_name};
constexpr std::uint16_t first_port = 12'000;
constexpr std::uint16_t last_port = 32'000;

std::optional<std::string> find_program(std::string_view name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const std::string file = fmt::format("{}/{}", rest.substr(0, colon), name);
    if (access(file.c_str(), X_OK) == 0) return file;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return std::nullopt;
}

// The first number with a dot in a program's version output; empty: none.
std::string version_of(const std::string& program, const std::string& option) {
  const std::string text = run_program({program, option}, {}).out;
  const auto is_part = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  for (auto at = text.begin(); at != text.end();) {
    const auto begin = std::find_if(at, text.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto end = std::find_if_not(begin, text.end(), is_part);
    if (std::find(begin, end, '.') != end) return {begin, end};
    at = end;
  }
  return "";
}

std::string with_version(std::string_view name, const std::string& version) {
  return version.empty() ? std::string(name) : fmt::format("{} {}", name, version);
}

// Options that memcached and `tandem memcached` share.
void add_memcached_options(std::vector<std::string>& command) {
  for (const char* word : {"-l", "127.0.0.1", "-p", "{port}", "-U", "{udp_port}", "-t", "{threads}", "-m", "{memory}",
                           "-c", "4096", "-R", "1024", "-I", "{item_max}"})
    command.emplace_back(word);
  if (geteuid() == 0) command.insert(command.end(), {"-u", "root"});
}

// Separate programs for TCP and UDP: neither has to poll for the other.
Peer floor_for(bool udp) {
  Peer peer{std::string(floor_name), Dialect::canned, !udp, udp, {std::string(this_program), "bench", "floor"}};
  for (const char* word : {"--listen", "127.0.0.1:{port}", "--threads", "{threads}", "--key-size", "{key_bytes}",
                           "--value-size", "{value_bytes}"})
    peer.command.emplace_back(word);
  if (udp) peer.command.emplace_back("--udp");
  return peer;
}

std::optional<Peer> find_peer(std::string_view name) {
  Peer peer;
  peer.name = name;
  if (name == tandem_name) {
    peer.udp = true;
    peer.command = {std::string(this_program), "memcached"};
    add_memcached_options(peer.command);
    return peer;
  }
  if (name == "memcached") {
    const auto program = find_program("memcached");
    if (!program) return std::nullopt;
    peer.name = with_version(name, version_of(*program, "-V"));
    peer.udp = true;
    peer.command = {*program};
    add_memcached_options(peer.command);
    return peer;
  }
  const auto program = find_program(fmt::format("{}-server", name));
  if (!program) return std::nullopt;
  peer.name = with_version(name, version_of(*program, "--version"));
  peer.dialect = Dialect::resp;
  peer.command = {*program,      "--port",       "{port}",     "--bind",
                  "127.0.0.1",   "--save",       "",           "--appendonly",
                  "no",          "--daemonize",  "no",         "--maxclients",
                  "4096",        "--maxmemory",  "{memory}mb", "--maxmemory-policy",
                  "allkeys-lru", "--io-threads", "{threads}"};
  return peer;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool can_bind(int type, std::uint16_t port) {
  const net::Fd socket(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  return bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

Peer parse_peer(std::string_view text, Dialect dialect) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    throw std::invalid_argument("a peer is NAME=COMMAND, such as 'mine=./server --port {port}'");
  Peer peer;
  peer.name = text.substr(0, equals);
  peer.dialect = dialect;
  const std::string command(text.substr(equals + 1));
  const auto is_odd = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '|' || c == 0x7f; };
  if (std::ranges::any_of(peer.name, is_odd))
    throw std::invalid_argument("a peer's name cannot hold control characters or |");
  if (std::ranges::find(known, peer.name) != known.end())
    throw std::invalid_argument(fmt::format("a peer cannot be called {}: choose another name", peer.name));
  if (command.find("{port}") == std::string::npos)
    throw std::invalid_argument(fmt::format("the command of {} must say {{port}} where its port belongs", peer.name));
  peer.udp = dialect == Dialect::memcached && command.find("{udp_port}") != std::string::npos;
  // A plain command replaces the shell.
  const bool is_plain = command.find_first_of(";&|<>()`$\n#'\"\\*?[~") == std::string::npos &&
                        command.substr(0, command.find(' ')).find('=') == std::string::npos;
  peer.command = {"sh", "-c", is_plain ? "exec " + command : command};
  return peer;
}

std::span<const std::string_view> known_peers() { return known; }

std::vector<Peer> find_peers(std::span<const std::string> names, std::span<const Peer> extra, bool must_exist,
                             std::vector<std::string>& notes) {
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) == known.end())
      throw std::invalid_argument(fmt::format("there is no peer {}; known are {}", name, fmt::join(known, ", ")));
  }
  std::vector<Peer> peers;
  const auto add_known = [&](std::string_view name) {
    if (std::ranges::find(names, name) == names.end()) return;
    if (name == floor_name) {
      peers.push_back(floor_for(false));
      peers.push_back(floor_for(true));
    } else if (auto peer = find_peer(name)) {
      peers.push_back(std::move(*peer));
    } else if (must_exist) {
      throw std::runtime_error(fmt::format("{} is not installed", name));
    } else {
      notes.push_back(fmt::format("{} is not installed and was not measured", name));
    }
  };
  for (const std::string_view name : known)
    if (name != tandem_name) add_known(name);
  peers.insert(peers.end(), extra.begin(), extra.end());
  add_known(tandem_name);
  // Two names for nearly the same server.
  const auto is_missing = [](const std::string& note) {
    return note.starts_with("redis ") || note.starts_with("valkey ");
  };
  const auto missing = std::ranges::count_if(notes, is_missing);
  if (missing > 0) std::erase_if(notes, is_missing);
  if (missing == 2) notes.emplace_back("neither redis nor valkey is installed: not measured");
  std::set<std::string> seen;
  for (const Peer& peer : peers) {
    if (peer.stores() && !seen.insert(peer.name).second)
      throw std::invalid_argument(fmt::format("two peers are called {}", peer.name));
  }
  return peers;
}

std::string substitute(std::string_view text, const PeerValues& values) {
  const std::array<std::pair<std::string_view, std::string>, 7> all{
      {{"{port}", std::to_string(values.port)},
       {"{udp_port}", std::to_string(values.port)},
       {"{memory}", std::to_string(values.memory_mib)},
       {"{threads}", std::to_string(values.threads)},
       {"{key_bytes}", values.key_bytes},
       {"{value_bytes}", values.value_bytes},
       {"{item_max}", std::to_string(values.item_bytes_max)}}};
  std::string result;
  while (!text.empty()) {
    const auto* const found =
        std::ranges::find_if(all, [&](const auto& placeholder) { return text.starts_with(placeholder.first); });
    if (found == all.end()) {
      result += text.front();
      text.remove_prefix(1);
    } else {
      result += found->second;
      text.remove_prefix(found->first.size());
    }
  }
  return result;
}

std::uint16_t free_port() {
  static std::random_device random;
  std::uniform_int_distribution<int> ports(first_port, last_port);
  for (int tries = 0; tries < 1000; ++tries) {
    const auto port = static_cast<std::uint16_t>(ports(random));
    if (can_bind(SOCK_STREAM, port) && can_bind(SOCK_DGRAM, port)) return port;
  }
  throw std::runtime_error("no free port found");
}

RunningPeer::RunningPeer(const Peer& peer, PeerValues values, const std::vector<int>& processors, double timeout_s)
    : peer_(peer), port_(free_port()) {
  values.port = port_;
  std::vector<std::string> words;
  for (const std::string& word : peer.command) words.push_back(substitute(word, values));
  command_ = words.front() == "sh" ? words.back() : shell_line(words);
  child_ = std::make_unique<ServerChild>(words, processors);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  while (!answers()) {
    if (const auto why = why_ended()) throw std::runtime_error(fmt::format("{}\n  command: {}", *why, command_));
    if (std::chrono::steady_clock::now() > deadline) {
      const std::string output = child_->output();
      throw std::runtime_error(fmt::format("{} does not answer on port {} within {} s{}{}\n  command: {}", peer_.name,
                                           port_, timeout_s, output.empty() ? "" : "; the end of its output:\n", output,
                                           command_));
    }
    wait_readable(-1, std::chrono::milliseconds(20));
  }
}

std::optional<std::string> RunningPeer::why_ended() {
  const std::optional<int> status = child_->ended();
  if (!status) return std::nullopt;
  const std::string output = child_->output();
  return fmt::format("{} ended {}{}{}", peer_.name, describe_status(*status),
                     output.empty() ? " and printed nothing" : "; the end of its output:\n", output);
}

// Whether it answers a command that every server of its kind supports: for memcached-like ones a get, by END.
bool RunningPeer::answers() {
  const int type = peer_.tcp ? SOCK_STREAM : SOCK_DGRAM;
  const net::Fd socket(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port_);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return false;
  const bool is_resp = peer_.dialect == Dialect::resp;
  using namespace std::string_view_literals;
  std::string request = is_resp ? "PING\r\n" : "get are-you-there\r\n";
  if (!peer_.tcp) request.insert(0, "\0\1\0\0\0\1\0\0"sv);  // a frame: request 1, datagram 0 of 1
  const std::string_view end = is_resp ? "+PONG\r\n" : "END\r\n";
  if (send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    return false;
  std::string reply;
  char part[64 * 1024];
  while (!reply.ends_with(end)) {
    if (!wait_readable(socket.get(), std::chrono::milliseconds(500))) return false;
    const ssize_t got = recv(socket.get(), part, sizeof part, MSG_DONTWAIT);
    if (got <= 0) return false;
    reply.append(part, static_cast<std::size_t>(got));
  }
  return true;
}

std::string shell_line(std::span<const std::string> words) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("@%+=:,./-_").find(c) != std::string_view::npos;
  };
  std::string line;
  bool is_first = true;
  for (const std::string& word : words) {
    if (!std::exchange(is_first, false)) line += ' ';
    if (word == this_program) {
      line += "tandem";
      continue;
    }
    if (!word.empty() && std::ranges::all_of(word, is_plain)) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) c == '\'' ? line += "'\\''" : line += c;
    line += '\'';
  }
  return line;
}

}  // namespace tandem::bench
