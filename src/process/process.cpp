#include "process/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "options/options.hpp"

namespace tandem::cli {
namespace {

std::string error_text(int error) { return std::generic_category().message(error); }

}  // namespace

std::string huge_pages_missing() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string setting;
  if (!std::getline(file, setting)) return "Transparent huge pages support not detected.";
  if (setting.find("[never]") != std::string::npos) return "Transparent huge pages support disabled.";
  return {};
}

void raise_core_limit() {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  if (setrlimit(RLIMIT_CORE, &limit) != 0 && getrlimit(RLIMIT_CORE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
  }
  if (getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_cur == 0) {
    throw CommandError(EX_OSERR, "failed to ensure corefile creation");
  }
}

unsigned raise_file_limit(unsigned connections, unsigned own_files, bool must_fit) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) throw CommandError(EX_OSERR, "failed to getrlimit number of files");
  const rlim_t wanted = rlim_t{connections} + own_files;
  if (limit.rlim_cur >= wanted) return connections;
  const rlimit raised{wanted, std::max(wanted, limit.rlim_max)};
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) return connections;
  const rlimit best{limit.rlim_max, limit.rlim_max};
  if ((must_fit && limit.rlim_max < connections) || setrlimit(RLIMIT_NOFILE, &best) != 0) {
    throw CommandError(
        EX_OSERR, "failed to set rlimit for open files. Try starting as root or requesting smaller maxconns value.");
  }
  if (limit.rlim_max < own_files / 2) {
    throw CommandError(EX_OSERR, fmt::format("connections = {} needs {} open files, the hard limit is {}: raise "
                                             "LimitNOFILE (ulimit -Hn) or lower --connections",
                                             connections, wanted, limit.rlim_max));
  }
  // What a process keeps for itself is the most it may need, so a small limit is shared.
  const rlim_t fits = limit.rlim_max >= 2 * rlim_t{own_files} ? limit.rlim_max - own_files : limit.rlim_max / 4;
  return static_cast<unsigned>(std::min<rlim_t>(connections, fits));
}

void raise_lock_limit() {
  const rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_MEMLOCK, &limit);  // not root: lock_memory() reports failures
}

std::string lock_memory() {
  // ONFAULT: the heap reserves far more address space than it uses.
  if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0) return {};
  return fmt::format("mlockall() failed: {}", error_text(errno));
}

bool is_root() { return getuid() == 0 || geteuid() == 0; }

void become_user(const std::string& user, bool core_files) {
  std::vector<char> buffer(1 << 14);
  passwd entry{};
  passwd* found = nullptr;
  getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) throw CommandError(EX_NOUSER, fmt::format("can't find the user {} to switch to", user));
  if (!is_root()) {
    if (found->pw_uid == getuid()) return;
    throw CommandError(EX_NOPERM, fmt::format("only root can become the user {}", user));
  }
  // EPERM: already dropped, as in some containers.
  if (setgroups(0, nullptr) != 0 && errno != EPERM) {
    throw CommandError(EX_OSERR, fmt::format("failed to drop supplementary groups: {}", error_text(errno)));
  }
  if (setgid(found->pw_gid) != 0 || setuid(found->pw_uid) != 0) {
    throw CommandError(EX_OSERR, fmt::format("failed to assume identity of user {}", user));
  }
  if (found->pw_uid != 0 && setuid(0) == 0) throw CommandError(EX_OSERR, "root could be regained");
  if (core_files) prctl(PR_SET_DUMPABLE, 1);  // a change of user disables it
}

std::optional<int> Daemon::start() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw CommandError(1, fmt::format("failed to daemon() in order to daemonize: {}", error_text(errno)));
  if (child == 0) {
    close(ends[0]);
    pipe_ = ends[1];
    setsid();
    return std::nullopt;
  }
  close(ends[1]);
  char done = 0;
  ssize_t got = 0;
  do {
    got = read(ends[0], &done, 1);
  } while (got < 0 && errno == EINTR);
  close(ends[0]);
  if (got == 1) return EX_OK;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Daemon::leave(bool stay) {
  if (pipe_ < 0) return;
  if (!stay && chdir("/") != 0) throw std::system_error(errno, std::generic_category(), "chdir /");
  null_ = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null_ < 0) throw std::system_error(errno, std::generic_category(), "/dev/null");
}

void Daemon::ready(bool keep_output) {
  if (pipe_ < 0) return;
  dup2(null_, STDIN_FILENO);
  if (!keep_output) {
    dup2(null_, STDOUT_FILENO);
    dup2(null_, STDERR_FILENO);
  }
  close(null_);
  null_ = -1;
  const char done = 1;
  [[maybe_unused]] const ssize_t told = write(pipe_, &done, 1);  // the parent may have been killed
  close(pipe_);
  pipe_ = -1;
}

std::string PidFile::write(const std::string& path) {
  std::string warning;
  long other = 0;
  if (std::ifstream old(path);
      old >> other && other > 0 && other != getpid() && kill(static_cast<pid_t>(other), 0) == 0) {
    warning = fmt::format("WARNING: The pid file contained the following (running) pid: {}", other);
  }
  const std::string beside = path + ".tmp";
  {
    std::ofstream file(beside, std::ios::trunc);
    file << getpid() << '\n';
    file.close();
    if (!file)
      throw CommandError(EX_CANTCREAT, fmt::format("Could not write the pid file {}: {}", beside, error_text(errno)));
  }
  if (std::rename(beside.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(beside.c_str());
    throw CommandError(EX_CANTCREAT,
                       fmt::format("Could not rename the pid file from {} to {}: {}", beside, path, error_text(error)));
  }
  path_ = path;
  return warning;
}

PidFile::~PidFile() {
  if (!path_.empty()) unlink(path_.c_str());
}

std::string write_port_file(const std::string& path, std::span<const ListeningPort> ports) {
  const std::string beside = path + ".lck";  // memcached's name
  {
    std::ofstream file(beside, std::ios::trunc);
    if (!file) return fmt::format("Failed to open \"{}\": {}", beside, error_text(errno));
    for (const ListeningPort& port : ports)
      file << fmt::format("{} {}: {}\n", port.udp ? "UDP" : "TCP", port.ipv6 ? "INET6" : "INET", port.port);
    file.close();
    if (file && std::rename(beside.c_str(), path.c_str()) == 0) return {};
  }
  const int error = errno;
  unlink(beside.c_str());
  return fmt::format("Failed to write \"{}\": {}", path, error_text(error));
}

std::string absolute_path(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).string();
}

}  // namespace tandem::cli
