#include "process/signals.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace tandem::cli {
namespace {

sigset_t held_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&set, number);
  return set;
}

// From now on an INT ends the process, even while the server is stopping.
void release_interrupt() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  sigaction(SIGINT, &action, nullptr);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace

void hold_signals() {
  struct sigaction action{};
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
  const sigset_t set = held_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Signals::Signals(std::function<void(int)> on_signal) : on_signal_(std::move(on_signal)) {
  const sigset_t set = held_signals();
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  end_ = eventfd(0, EFD_CLOEXEC);
  if (signals_ < 0 || end_ < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
  thread_ = std::thread([this] { run(); });
}

Signals::~Signals() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t told = write(end_, &one, sizeof one);
  thread_.join();
  close(signals_);
  close(end_);
}

void Signals::run() const {
  for (;;) {
    pollfd files[2] = {{signals_, POLLIN, 0}, {end_, POLLIN, 0}};
    if (poll(files, 2, -1) < 0 && errno != EINTR) return;
    if (files[1].revents != 0) return;
    signalfd_siginfo info{};
    if (read(signals_, &info, sizeof info) != sizeof info) continue;
    const auto number = static_cast<int>(info.ssi_signo);
    if (number == SIGINT || number == SIGTERM) release_interrupt();
    on_signal_(number);
  }
}

}  // namespace tandem::cli
