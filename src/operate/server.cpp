#include "operate/server.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <iterator>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "net/endpoint.hpp"
#include "net/log.hpp"
#include "net/secret_files.hpp"
#include "net/tls_context.hpp"
#include "net/udp_socket.hpp"
#include "net/xdp/xdp.hpp"
#include "operate/control.hpp"
#include "worker/acceptor.hpp"
#include "worker/state.hpp"
#include "worker/worker.hpp"

namespace tandem {
namespace {

using namespace net;

// For its life, threads are started with signals blocked, so that the thread that made the server gets them. Except
// synchronous ones (a thread's own faults): blocked, they would end the process and skip its handlers.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int own : {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP}) sigdelset(&all, own);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

void name_thread(std::thread& thread, const std::string& name) {
  pthread_setname_np(thread.native_handle(), name.c_str());
}

}  // namespace

struct Server::Parts {
  Parts(const ServerOptions& options, Engine& engine) : state(options, engine), control(state) {}

  void start();
  void join() noexcept;

  State state;
  Control control;
  std::vector<std::unique_ptr<Worker>> workers;
  std::unique_ptr<Acceptor> acceptor;
  int tcp_port = 0, udp_port = 0;
  std::vector<ListeningPort> listening_ports;
  std::vector<std::thread> threads;  // the workers'
  std::thread acceptor_thread;       // joins them
  std::mutex join_mutex;
};

void Server::Parts::start() {
  const ServerOptions& options = state.options;
  set_log_verbosity(options.verbosity);
  const unsigned worker_count = std::max(options.threads, 1u);
  // A datagram has no authenticated sender.
  if ((state.sasl != nullptr || state.auth_file != nullptr) && options.udp_port != 0 && options.unix_path.empty())
    throw std::invalid_argument("UDP cannot be authenticated");

  // Ahead of the ports: who could connect to those finds it.
  constexpr unsigned own_user_only = 0600;
  UnixListener config = options.control_path.empty()
                            ? UnixListener()
                            : UnixListener(options.control_path, own_user_only, options.backlog);
  std::vector<BoundSocket> tcp, udp;
  std::vector<UnixListener> local;
  if (!options.unix_path.empty()) {
    local.emplace_back(options.unix_path, options.unix_mask, options.backlog);
  } else {
    if (options.tcp_port != 0) tcp = listen_tcp(options);
    if (options.udp_port != 0) udp = bind_udp(options, worker_count);
  }
  if (!tcp.empty()) tcp_port = tcp.front().port;
  if (!udp.empty()) udp_port = udp.front().port;
  for (const BoundSocket& socket : tcp)
    listening_ports.push_back({.ipv6 = is_ipv6(socket.fd.get()), .port = socket.port});
  for (std::size_t i = 0; i < udp.size(); i += worker_count)  // each address has a socket for each worker
    listening_ports.push_back({.udp = true, .ipv6 = is_ipv6(udp[i].fd.get()), .port = udp[i].port});

  for (unsigned w = 0; w < worker_count; ++w) {
    UdpPorts own;
    for (std::size_t i = w; i < udp.size(); i += worker_count)
      own.push_back(std::make_unique<UdpSocket>(std::move(udp[i].fd)));
    if (options.xdp != nullptr) std::ranges::move(options.xdp->take_ports(w, worker_count), std::back_inserter(own));
    workers.push_back(std::make_unique<Worker>(state, control, std::move(own)));
  }
  acceptor = std::make_unique<Acceptor>(state, std::move(tcp), std::move(local), workers, std::move(config));
  control.observe(workers, *acceptor, tcp_port, udp_port);

  const SignalsBlocked blocked;
  try {
    for (unsigned w = 0; w < worker_count; ++w) {
      threads.emplace_back([worker = workers[w].get()] { worker->run(); });
      name_thread(threads.back(), fmt::format("tandem-w{}", w));
    }
    acceptor_thread = std::thread([this] {
      acceptor->run();
      for (const auto& worker : workers) worker->wake();
    });
    name_thread(acceptor_thread, "tandem-accept");
  } catch (...) {
    state.stopping.store(true, std::memory_order_release);
    for (const auto& worker : workers) worker->wake();
    join();
    throw;
  }
}

void Server::Parts::join() noexcept {
  const std::lock_guard lock(join_mutex);
  if (acceptor_thread.joinable()) acceptor_thread.join();
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  if (acceptor) acceptor->close();
}

Server::Server(const ServerOptions& options, Engine& engine) : parts_(std::make_unique<Parts>(options, engine)) {
  parts_->start();
}

Server::~Server() {
  stop();
  wait();
}

int Server::tcp_port() const noexcept { return parts_->tcp_port; }
int Server::udp_port() const noexcept { return parts_->udp_port; }
const std::vector<ListeningPort>& Server::listening_ports() const noexcept { return parts_->listening_ports; }

net::Telemetry& Server::telemetry() noexcept { return parts_->control.telemetry(); }

std::string Server::reload_certificates() {
  return parts_->state.tls == nullptr ? std::string() : parts_->state.tls->reload();
}

std::vector<net::LogLine> Server::reload() {
  const State& state = parts_->state;
  std::vector<net::LogLine> lines;
  const auto failed = [&lines](std::string text) { lines.push_back({std::move(text), spdlog::level::warn}); };
  if (state.tls != nullptr) {
    if (const std::string error = state.tls->reload(); error.empty())
      lines.push_back({fmt::format("reloaded certificate, valid until {}", date_text(state.tls->not_after()))});
    else
      failed(fmt::format("{}; the certificate stays as it was", error));
  }
  for (Credentials* credentials : {state.sasl.get(), state.auth_file.get()}) {
    if (credentials == nullptr) continue;
    try {
      credentials->reload();
      const std::size_t users = credentials->size();
      lines.push_back(
          {fmt::format("reloaded {} {} from {}", users, users == 1 ? "user" : "users", credentials->path())});
    } catch (const CredentialsError& error) {
      failed(fmt::format("{}; the passwords stay as they were", error.what()));
    }
  }
  return lines;
}

std::vector<std::string> Server::warnings() const {
  const State& state = parts_->state;
  std::vector<std::string> all;
  const auto add = [&all](std::string warning) {
    if (!warning.empty()) all.push_back(std::move(warning));
  };
  if (state.tls != nullptr)
    add(expiry_warning(state.options.tls.certificate, state.tls->not_after(), std::time(nullptr)));
  for (const Credentials* credentials : {state.sasl.get(), state.auth_file.get()}) {
    if (credentials != nullptr) add(password_file_warning(credentials->path()));
  }
  return all;
}

void Server::stop() noexcept { parts_->state.stop(); }

void Server::wait() { parts_->join(); }

}  // namespace tandem
