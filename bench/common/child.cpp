#include "bench/common/child.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>

#include "bench/common/watcher.hpp"

namespace tandem::bench {
namespace {

constexpr std::array interrupting_signals{SIGINT, SIGTERM, SIGHUP};
constexpr std::size_t output_shown_bytes = 4000;

// Both belong to the InterruptScope. The pipe gets a byte for each signal.
std::atomic<int> interrupt_signal = 0;
std::array<int, 2> interrupt_pipe{-1, -1};
std::array<struct sigaction, interrupting_signals.size()> actions_before;

void on_interrupt(int number) {
  const int errno_before = errno;
  interrupt_signal.store(number, std::memory_order_relaxed);
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(interrupt_pipe[1], &byte, 1);
  errno = errno_before;
}

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

std::string read_all(int fd) {
  std::string text;
  char part[16 * 1024];
  for (;;) {
    const ssize_t got = read(fd, part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part, static_cast<std::size_t>(got));
  }
}

// Parent of each process, from /proc.
std::map<pid_t, pid_t> all_parents() {
  std::map<pid_t, pid_t> parents;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return parents;
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    std::ifstream stat(fmt::format("/proc/{}/stat", pid));
    std::string line;
    std::getline(stat, line);
    const std::size_t name_end = line.rfind(')');  // the name may contain any byte
    if (name_end == std::string::npos) continue;
    std::istringstream rest(line.substr(name_end + 1));
    char state = 0;
    pid_t parent = 0;
    if (rest >> state >> parent) parents[pid] = parent;
  }
  closedir(proc);
  return parents;
}

}  // namespace

InterruptScope::InterruptScope() {
  if (pipe2(interrupt_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) fail("pipe");
  interrupt_signal = 0;
  for (std::size_t i = 0; i < interrupting_signals.size(); ++i) {
    struct sigaction action{};
    action.sa_handler = on_interrupt;
    sigaction(interrupting_signals[i], &action, &actions_before[i]);
  }
}

InterruptScope::~InterruptScope() {
  for (std::size_t i = 0; i < interrupting_signals.size(); ++i)
    sigaction(interrupting_signals[i], &actions_before[i], nullptr);
  for (int& end : interrupt_pipe) close(std::exchange(end, -1));
}

bool wait_readable(int fd, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    if (interrupt_pipe[0] >= 0 && interrupt_signal != 0) throw Interrupted(interrupt_signal);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd files[2] = {{fd, POLLIN, 0}, {interrupt_pipe[0], POLLIN, 0}};
    const int ready = poll(files, 2, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready < 0 && errno != EINTR) fail("poll");
    if (files[1].revents == 0 && ready >= 0) return files[0].revents != 0;
  }
}

std::string describe_status(int status) {
  if (WIFEXITED(status)) return fmt::format("with exit code {}", WEXITSTATUS(status));
  return fmt::format("by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

std::vector<pid_t> process_tree(pid_t root) {
  const std::map<pid_t, pid_t> parents = all_parents();
  std::vector<pid_t> tree;
  if (parents.contains(root)) tree.push_back(root);
  for (std::size_t i = 0; i < tree.size(); ++i)
    for (const auto& [pid, parent] : parents)
      if (parent == tree[i]) tree.push_back(pid);
  return tree;
}

ServerChild::ServerChild(const std::vector<std::string>& command, const std::vector<int>& processors) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
  socket_.reset(ends[0]);
  net::Fd watcher_end(ends[1]);
  output_.reset(memfd_create("output", MFD_CLOEXEC));
  if (!output_) fail("memfd_create");
  watcher_ = fork();
  if (watcher_ < 0) fail("fork");
  if (watcher_ == 0) watch_server(command, processors, watcher_end.get(), output_.get());
  watcher_end.reset();
  WatcherMessage message{};
  ssize_t got = 0;
  do {
    got = recv(socket_.get(), &message, sizeof message, 0);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof message && message.kind == WatcherMessage::Kind::started) {
    pid_ = message.value;
    return;
  }
  waitpid(watcher_, nullptr, 0);
  const int error = got == sizeof message ? message.value : EPROTO;
  throw std::runtime_error(fmt::format("cannot start {}: {}", command.front(), std::generic_category().message(error)));
}

void ServerChild::begin_to_end() noexcept { shutdown(socket_.get(), SHUT_WR); }

ServerChild::~ServerChild() {
  begin_to_end();
  while (waitpid(watcher_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<int> ServerChild::ended() {
  WatcherMessage message{};
  if (!status_ && recv(socket_.get(), &message, sizeof message, MSG_DONTWAIT) == sizeof message)
    status_ = message.value;
  return status_;
}

std::string ServerChild::output() const {
  const off_t bytes = lseek(output_.get(), 0, SEEK_END);
  const auto shown = std::min<off_t>(bytes, output_shown_bytes);
  std::string text(static_cast<std::size_t>(shown), '\0');
  const ssize_t got = pread(output_.get(), text.data(), text.size(), bytes - shown);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<pid_t> ServerChild::processes() const {
  std::vector<pid_t> tree = process_tree(watcher_);
  std::erase(tree, watcher_);
  return tree;
}

double ServerChild::cpu_s() const {
  double sum_s = 0;
  for (const pid_t pid : processes()) {
    clockid_t clock{};
    timespec time{};
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) continue;
    sum_s += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
  return sum_s;
}

std::uint64_t ServerChild::resident_bytes() const {
  std::uint64_t pages = 0;
  for (const pid_t pid : processes()) {
    std::ifstream statm(fmt::format("/proc/{}/statm", pid));
    std::uint64_t total = 0;
    std::uint64_t resident = 0;
    if (statm >> total >> resident) pages += resident;
  }
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

ProgramResult run_program(const std::vector<std::string>& command, const std::vector<int>& processors) {
  int out_ends[2];
  if (pipe2(out_ends, O_CLOEXEC) != 0) fail("pipe");
  net::Fd out(out_ends[0]);
  net::Fd child_out(out_ends[1]);
  const net::Fd error(memfd_create("stderr", MFD_CLOEXEC));
  if (!error) fail("memfd_create");
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) fail("fork");
  if (pid == 0) {
    become_program(command, processors, child_out.get(), error.get(), parent);
    _exit(127);
  }
  child_out.reset();
  ProgramResult result;
  try {
    for (;;) {
      if (!wait_readable(out.get(), std::chrono::hours(1))) continue;
      char part[64 * 1024];
      const ssize_t got = read(out.get(), part, sizeof part);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      result.out.append(part, static_cast<std::size_t>(got));
    }
  } catch (...) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    throw;
  }
  while (waitpid(pid, &result.status, 0) < 0 && errno == EINTR) {
  }
  lseek(error.get(), 0, SEEK_SET);
  result.error = read_all(error.get());
  return result;
}

}  // namespace tandem::bench
