#include "cluster/server_link.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

namespace tandem::cluster {
namespace {

constexpr std::string_view legacy_key = "AmazonElastiCache:cluster";

std::string reason_of(int error) { return std::generic_category().message(error); }

std::string set_line(std::string_view key, const std::string& value) {
  return "config set " + std::string(key) + " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

}  // namespace

std::string socket_address(const std::string& path) { return path.find('/') == std::string::npos ? "./" + path : path; }

bool LinkSocket::connect() {
  const auto try_to_connect = [this](int family, const sockaddr* address, socklen_t bytes) {
    close();
    fd_ = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ >= 0 && (::connect(fd_, address, bytes) == 0 || errno == EINPROGRESS)) return true;
    problem_ = address_ + ": " + reason_of(errno);
    close();
    return false;
  };
  if (address_.find('/') != std::string::npos) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (address_.size() >= sizeof address.sun_path) {
      problem_ = address_ + ": longer than a Unix socket's name may be";
      return false;
    }
    address_.copy(address.sun_path, address_.size());
    return try_to_connect(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  const std::size_t colon = address_.rfind(':');
  std::string host = address_.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), address_.c_str() + colon + 1, &hints, &found); error != 0) {
    problem_ = address_ + ": " + gai_strerror(error);
    return false;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  return try_to_connect(found->ai_family, found->ai_addr, found->ai_addrlen);
}

bool LinkSocket::send(std::string_view bytes) {
  if (!is_open() && !connect()) return false;
  unsent_ += bytes;
  return true;
}

bool LinkSocket::progress(const Registry::Wake& wake, std::string& received) {
  if (!is_open()) return true;
  if (wake.writes && !unsent_.empty()) {
    const ssize_t sent = ::send(fd_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent > 0) unsent_.erase(0, static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      problem_ = address_ + ": " + reason_of(errno);
      close();
      return false;
    }
  }
  if (!wake.reads) return true;
  std::array<char, 16 * 1024> part;
  const ssize_t got = ::recv(fd_, part.data(), part.size(), 0);
  if (got > 0) {
    received.append(part.data(), static_cast<std::size_t>(got));
    return true;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  problem_ = address_ + ": " + (got == 0 ? "the server has closed the connection" : reason_of(errno));
  close();
  return false;
}

void LinkSocket::close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  unsent_.clear();
}

ServerLink::ServerLink(ServerLinkOptions options)
    : options_(std::move(options)), control_(socket_address(options_.control)), port_(options_.server) {}

void ServerLink::ask(Ask what, std::string_view bytes, Time now, std::string document) {
  asked_.push_back({what, now, std::move(document)});
  if (!control_.send(bytes)) end_control(control_.problem());
}

void ServerLink::send(const ServerRequest& request, Time now) {
  switch (request.call) {
    case ServerCall::probe:
      probes_ = true;
      probe_since_ = now;
      if (!port_.send("mn\r\n")) on_probe(false, port_.problem());
      break;
    case ServerCall::get:
      getting_ = {.call = ServerCall::get};
      ask(Ask::list, "config get cluster\r\n", now);
      if (control_.is_open()) ask(Ask::drained, "config get " + std::string(drain_key) + "\r\n", now);
      break;
    case ServerCall::set:
      ask(Ask::set, set_line("cluster", request.document), now, request.document);
      break;
  }
}

void ServerLink::tell(const std::string& status, Time now) {
  if (control_.is_open()) ask(Ask::status, set_line(status_key, status), now);
}

// Clients of before `config` read an item. It is stored again when it was evicted, flushed or overwritten.
void ServerLink::keep_legacy(const std::string& list, Time now) {
  if (list.empty() || now < legacy_at_ || !control_.is_open()) return;
  legacy_at_ = now + options_.legacy_pause;
  list_ = list;
  ask(Ask::legacy, "get " + std::string(legacy_key) + "\r\n", now);
}

void ServerLink::on_probe(bool done, std::string problem) {
  if (std::exchange(probes_, false))
    replies_.push_back({.call = ServerCall::probe, .done = done, .problem = std::move(problem)});
}

// Nothing that was asked will be answered.
void ServerLink::end_control(const std::string& problem) {
  control_.close();
  control_replies_ = {};
  for (const Asked& asked : std::exchange(asked_, {})) {
    // Of the two halves of a `get` the one that is left.
    if (asked.ask == Ask::list || (asked.ask == Ask::drained && getting_.done))
      replies_.push_back({.call = ServerCall::get, .problem = problem});
    if (asked.ask == Ask::set) replies_.push_back({.call = ServerCall::set, .problem = problem});
  }
  getting_ = {};
}

void ServerLink::on_control(const ControlReply& reply, Time now) {
  if (asked_.empty()) return end_control("the server answers what nobody asked");
  const Asked asked = asked_.front();
  asked_.pop_front();
  switch (asked.ask) {
    case Ask::list:
      if (!reply.is_value && reply.text != "END") return end_control("config get: " + reply.text);
      getting_.done = true;
      getting_.document = reply.is_value ? reply.text : std::string();
      break;
    case Ask::drained:
      getting_.is_drained = reply.is_value;
      replies_.push_back(std::exchange(getting_, {}));
      keep_legacy(replies_.back().document, now);
      break;
    case Ask::set:
      replies_.push_back(
          {.call = ServerCall::set, .done = reply.text == "STORED", .document = asked.document, .problem = reply.text});
      if (reply.text == "STORED") legacy_at_ = {};
      break;
    case Ask::legacy:
      if (reply.text != list_)
        ask(Ask::other,
            "set " + std::string(legacy_key) + " 0 0 " + std::to_string(list_.size()) + "\r\n" + list_ + "\r\n", now);
      break;
    case Ask::status:
    case Ask::other:
      break;
  }
}

void ServerLink::add_wakes(std::vector<Registry::Wake>& wakes) const {
  if (control_.is_open()) wakes.push_back(control_.wake());
  if (port_.is_open()) wakes.push_back(port_.wake());
}

std::vector<ServerReply> ServerLink::progress(const std::vector<Registry::Wake>& wakes, Time now) {
  const auto of = [&](const LinkSocket& socket) {
    const auto found = std::ranges::find(wakes, socket.wake().fd, &Registry::Wake::fd);
    return found == wakes.end() ? Registry::Wake{} : *found;
  };
  std::string received;
  bool is_open = control_.progress(of(control_), received);
  control_replies_.feed(received);
  while (std::optional<ControlReply> reply = control_replies_.next()) on_control(*reply, now);
  if (!is_open) end_control(control_.problem());
  if (control_replies_.is_broken()) end_control("the server's answer cannot be read");
  if (!asked_.empty() && now - asked_.front().since > options_.control_limit)
    end_control("no answer on the control socket");

  received.clear();
  is_open = port_.progress(of(port_), received);
  // Any bytes are an answer, also a refusal that asks for a password.
  if (!received.empty()) on_probe(true, {});
  if (!is_open) on_probe(false, port_.problem());
  if (probes_ && now - probe_since_ > options_.probe_limit) {
    port_.close();
    on_probe(false, "no answer");
  }
  return std::exchange(replies_, {});
}

}  // namespace tandem::cluster
