#include "bench/common/watcher.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "bench/common/child.hpp"

namespace tandem::bench {
namespace {

constexpr std::chrono::milliseconds grace{3000};  // between TERM and KILL

sigset_t only(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  return set;
}

class Watcher {
 public:
  Watcher(int socket, int output) : socket_(socket), output_(output) {}

  [[noreturn]] void run(const std::vector<std::string>& command, const std::vector<int>& processors) {
    // Orphans of the server become children of this process, whatever they do to detach.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setpgid(0, 0);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
    close_others();
    const sigset_t child_signal = only(SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_signal, nullptr);
    children_ = signalfd(-1, &child_signal, SFD_CLOEXEC | SFD_NONBLOCK);
    start(command, processors);
    while (!is_told_to_end(-1)) reap();
    end();
  }

 private:
  void tell(WatcherMessage::Kind kind, int value) const {
    const WatcherMessage message{kind, value};
    [[maybe_unused]] const ssize_t sent = send(socket_, &message, sizeof message, MSG_NOSIGNAL);
  }

  // Closes inherited descriptors, such as the sockets of other watchers, which must notice the end of their peers.
  void close_others() const {
    const long limit = std::min(sysconf(_SC_OPEN_MAX), 65536L);
    for (int fd = 3; fd < limit; ++fd)
      if (fd != socket_ && fd != output_) close(fd);
  }

  void start(const std::vector<std::string>& command, const std::vector<int>& processors) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) refuse(errno);
    const pid_t watcher = getpid();
    server_ = fork();
    if (server_ < 0) refuse(errno);
    if (server_ == 0) {
      close(ends[0]);
      become_program(command, processors, output_, output_, watcher);
      const int error = errno;
      [[maybe_unused]] const ssize_t told = write(ends[1], &error, sizeof error);
      _exit(127);
    }
    close(ends[1]);
    int error = 0;
    if (read(ends[0], &error, sizeof error) == sizeof error) refuse(error);
    close(ends[0]);
    tell(WatcherMessage::Kind::started, server_);
  }

  [[noreturn]] void refuse(int error) const {
    tell(WatcherMessage::Kind::failed, error);
    _exit(1);
  }

  // Waits up to `timeout_ms` for a child's end or a message of the other side. Returns whether there was a message.
  bool is_told_to_end(int timeout_ms) const {
    pollfd files[2] = {{socket_, POLLIN, 0}, {children_, POLLIN, 0}};
    if (is_told_) files[0].fd = -1;
    poll(files, 2, timeout_ms);
    signalfd_siginfo info{};
    while (read(children_, &info, sizeof info) > 0) {
    }
    return is_told_ || files[0].revents != 0;
  }

  // Returns whether children are left.
  bool reap() {
    for (;;) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid < 0) return errno != ECHILD;
      if (pid == 0) return true;
      if (pid != server_) continue;
      server_ = -1;
      tell(WatcherMessage::Kind::ended, status);
    }
  }

  static void kill_all(int signal_number) {
    for (const pid_t pid : process_tree(getpid()))
      if (pid != getpid()) kill(pid, signal_number);
  }

  [[noreturn]] void end() {
    is_told_ = true;
    kill_all(SIGTERM);
    const auto deadline = std::chrono::steady_clock::now() + grace;
    while (reap()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) break;
      is_told_to_end(static_cast<int>(left.count()));
    }
    // The children of a killed process become this process's, which then kills them.
    while (reap()) {
      kill_all(SIGKILL);
      is_told_to_end(10);
    }
    _exit(0);
  }

  const int socket_, output_;
  int children_ = -1;
  pid_t server_ = -1;
  bool is_told_ = false;
};

}  // namespace

void become_program(const std::vector<std::string>& command, const std::vector<int>& processors, int out, int error,
                    pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent ended before prctl()
  setpgid(0, 0);                        // the terminal's INT must only reach the comparison
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (!processors.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int processor : processors) CPU_SET(static_cast<std::size_t>(processor), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) return;
  }
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(error, 2) < 0) return;
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
}

void watch_server(const std::vector<std::string>& command, const std::vector<int>& processors, int socket, int output) {
  Watcher(socket, output).run(command, processors);
}

}  // namespace tandem::bench
