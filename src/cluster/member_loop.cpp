#include "cluster/member_loop.hpp"

#include <sys/random.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <system_error>
#include <vector>

#include "cluster/member_report.hpp"

namespace tandem::cluster {
namespace {

void say(const std::string& text) { std::fprintf(stderr, "tandem-member: %s\n", text.c_str()); }

// TERM and INT, as a descriptor.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL, below libcurl, writes without MSG_NOSIGNAL
    fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
  }
  ~Signals() { ::close(fd_); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  int fd() const noexcept { return fd_; }
  // 0: none has come.
  int next() const noexcept {
    signalfd_siginfo info{};
    return ::read(fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  int fd_ = -1;
};

// Whole or not at all: node_exporter reads it at any time.
bool write_file(const std::string& path, const std::string& text) {
  const std::string made = path + ".new";
  std::ofstream out(made, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  return !out.fail() && std::rename(made.c_str(), path.c_str()) == 0;
}

class MemberLoop {
 public:
  MemberLoop(const MemberLoopOptions& options, Registry& registry)
      : options_(options), registry_(registry), membership_(options.membership, steady_now()), link_(options.link) {}

  int run() {
    while (!membership_.is_done()) {
      step(steady_now());
      wakes_ = {{signals_.fd(), true, false}};
      link_.add_wakes(wakes_);
      const Time limit = std::clamp(membership_.next_time() - steady_now(), Time{0}, options_.membership.tick);
      const std::vector<RegistryReply> replies = registry_.wait(wakes_, limit);
      const Time now = steady_now();
      for (const RegistryReply& reply : replies) membership_.on_registry(reply, now, unix_now());
      for (const ServerReply& reply : link_.progress(wakes_, now)) membership_.on_server(reply, now);
      for (int signal = signals_.next(); signal != 0; signal = signals_.next()) {
        if (signal == SIGINT) return EX_OK;
        membership_.leave(now);
      }
    }
    step(steady_now());
    return EX_OK;
  }

 private:
  void step(Time now) {
    membership_.advance(now, unix_now());
    for (RegistryRequest& request : membership_.take_registry_requests()) registry_.send(std::move(request));
    for (const ServerRequest& request : membership_.take_server_requests()) link_.send(request, now);
    for (const std::string& message : membership_.take_messages()) say(message);
    if (now < report_at_) return;
    report_at_ = now + options_.membership.tick;
    const MemberReport report{options_.membership.is_listed ? options_.membership.self.name() : "",
                              options_.registry_name, membership_.status(now), unix_now()};
    link_.tell(to_json(report), now);
    if (options_.metrics_file.empty()) return;
    const bool is_written = write_file(options_.metrics_file, to_metrics(report));
    if (!is_written && writes_metrics_) say(options_.metrics_file + ": " + std::generic_category().message(errno));
    writes_metrics_ = is_written;
  }

  const MemberLoopOptions& options_;
  Registry& registry_;
  Signals signals_;
  Membership membership_;
  ServerLink link_;
  std::vector<Registry::Wake> wakes_;
  Time report_at_{};
  bool writes_metrics_ = true;
};

}  // namespace

Time steady_now() noexcept {
  return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

std::uint64_t unix_now() noexcept {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(now).count()));
}

std::string random_boot() {
  std::array<unsigned char, 8> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw std::system_error(errno, std::generic_category(), "getrandom");
  std::string text;
  for (const unsigned char byte : bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

int run_member(const MemberLoopOptions& options, Registry& registry) { return MemberLoop(options, registry).run(); }

}  // namespace tandem::cluster
