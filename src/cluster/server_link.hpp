// A member's two connections to its server: the control socket, on which the list is set, and the port that clients
// use, on which the server is asked whether it answers. Neither ever blocks.
//
// Thread safety: one thread.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/control_replies.hpp"
#include "cluster/membership.hpp"
#include "cluster/registry.hpp"

namespace tandem::cluster {

// Keys of `config`: what `tandem-member status` shows; there while the node is drained.
inline constexpr std::string_view status_key = "member", drain_key = "member-drain";

// LinkSocket's address for the path of a Unix socket, which may have no slash.
std::string socket_address(const std::string& path);

// A stream socket with what is still to be sent.
class LinkSocket {
 public:
  // host:port, [v6]:port, or a path with a slash: a Unix socket.
  explicit LinkSocket(std::string address) : address_(std::move(address)) {}
  ~LinkSocket() { close(); }
  LinkSocket(const LinkSocket&) = delete;
  LinkSocket& operator=(const LinkSocket&) = delete;

  // Connects if need be. False: that failed.
  bool send(std::string_view bytes);
  // False: the connection has ended, and is closed.
  bool progress(const Registry::Wake& wake, std::string& received);
  void close() noexcept;
  bool is_open() const noexcept { return fd_ >= 0; }
  Registry::Wake wake() const noexcept { return {fd_, true, !unsent_.empty()}; }
  const std::string& problem() const noexcept { return problem_; }

 private:
  bool connect();

  const std::string address_;
  std::string unsent_, problem_;
  int fd_ = -1;
};

struct ServerLinkOptions {
  std::string server;         // LinkSocket's address
  std::string control;        // a path
  Time control_limit{1'000};  // for an answer on the control socket
  Time probe_limit{10'000};   // then it is asked on a new connection
  Time legacy_pause{15'000};  // between two looks at the list's copy for old clients
};

class ServerLink {
 public:
  explicit ServerLink(ServerLinkOptions options);
  void send(const ServerRequest& request, Time now);
  // What `tandem-member status` shows, kept in the server. At most 16 KiB.
  void tell(const std::string& status, Time now);

  void add_wakes(std::vector<Registry::Wake>& wakes) const;
  // With the wakes that add_wakes() added.
  std::vector<ServerReply> progress(const std::vector<Registry::Wake>& wakes, Time now);

 private:
  enum class Ask : std::uint8_t { list, drained, set, status, legacy, other };
  struct Asked {
    Ask ask{};
    Time since{};
    std::string document = {};  // of set
  };

  void ask(Ask what, std::string_view bytes, Time now, std::string document = {});
  void end_control(const std::string& problem);
  void on_control(const ControlReply& reply, Time now);
  void on_probe(bool done, std::string problem);
  void keep_legacy(const std::string& list, Time now);

  const ServerLinkOptions options_;
  LinkSocket control_, port_;
  ControlReplies control_replies_;
  std::deque<Asked> asked_;
  ServerReply getting_;
  std::string list_;  // as the server had it last
  Time legacy_at_{}, probe_since_{};
  bool probes_ = false;
  std::vector<ServerReply> replies_;
};

}  // namespace tandem::cluster
