#include "process/start_checks.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iterator>
#include <system_error>
#include <utility>

#include "codec/credentials.hpp"
#include "heap/memory_file.hpp"
#include "monitor/http_server.hpp"
#include "monitor/token.hpp"
#include "net/secret_files.hpp"
#include "net/tls_context.hpp"
#include "options/calibration_file.hpp"
#include "options/control_group.hpp"
#include "options/value.hpp"
#include "process/process.hpp"

namespace tandem::cli {
namespace {

// The most that a process has open beside its connections: standard streams, listeners, what C library, TLS and a GPU's
// driver open; of each worker an epoll and an event file and its UDP sockets; the monitor's own connections.
unsigned own_files(const Settings& settings) {
  constexpr unsigned of_process = 64, of_worker = 8, of_monitor = monitor::http_threads + monitor::http_queue + 4;
  constexpr unsigned of_xdp = 160;  // map, program, link, and a socket for each receive queue, of which cards have some
  return of_process + of_worker * settings.server.threads + (settings.server.metrics.empty() ? 0 : of_monitor) +
         (settings.server.xdp_interface.empty() ? 0 : of_xdp);
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

// To the user who asked for the check. Failures to print are ignored.
void tell_user(const std::string& line) {
  std::fputs(line.c_str(), stderr);
  std::fputc('\n', stderr);
}

// What would end a start, one after the other.
class Problems {
 public:
  // `check` throws what the server would have thrown.
  void look(const std::function<void()>& check) {
    try {
      check();
    } catch (const CommandError& error) {
      add(error.exit_code(), error.what());
    } catch (const CredentialsError& error) {
      add(error.is_unreadable() ? EX_NOINPUT : EX_CONFIG, error.what());
    } catch (const TlsError& error) {
      add(EX_USAGE, error.what());
    }
  }
  int exit_code() const noexcept { return exit_code_; }

 private:
  void add(int exit_code, std::string_view what) {
    tell_user(fmt::format("tandem: {}", what));
    if (exit_code_ == EX_OK) exit_code_ = exit_code;
  }

  int exit_code_ = EX_OK;
};

// A file that the server would make or open for writing.
void check_writable(std::string_view what, const std::string& path, int exit_code) {
  if (path.empty()) return;
  const bool is_there = access(path.c_str(), F_OK) == 0;
  if (struct stat file{}; lstat(path.c_str(), &file) == 0 && !S_ISREG(file.st_mode))
    throw CommandError(exit_code, fmt::format("{} {}: not a regular file", what, path));
  const std::string looked_at = is_there ? path : folder_of(path);
  if (access(looked_at.c_str(), W_OK) == 0) return;
  throw CommandError(exit_code, fmt::format("{} {}: cannot write {}: {}", what, path, looked_at,
                                            std::generic_category().message(errno)));
}

void check_user(const std::string& user) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before any other thread
  if (!user.empty() && getpwnam(user.c_str()) == nullptr)
    throw CommandError(EX_NOUSER, fmt::format("can't find the user {} to switch to", user));
}

}  // namespace

std::string memory_file_warning(const std::string& path, std::uint64_t memory_bytes) {
  struct statvfs system{};
  // Without blocks: it has no limit.
  if (path.empty() || statvfs(folder_of(path).c_str(), &system) != 0 || system.f_blocks == 0) return {};
  std::uint64_t room = std::uint64_t{system.f_bavail} * system.f_frsize;
  constexpr std::uint64_t block_bytes = 512;  // of st_blocks, on every file system
  if (struct stat file{}; stat(path.c_str(), &file) == 0)
    room += static_cast<std::uint64_t>(file.st_blocks) * block_bytes;
  if (room >= memory_bytes + MemoryFile::pages_at) return {};
  return fmt::format("memory file {}: its file system has room for {}, memory is {}: the store stays below that", path,
                     format_size_rounded(room), format_size_rounded(memory_bytes));
}

std::vector<std::string> fit_to_system(Settings& settings, ServerStyle style) {
  std::vector<std::string> warnings;
  const unsigned wanted = settings.server.connections_max;
  const unsigned fits = raise_file_limit(wanted, own_files(settings), style == ServerStyle::memcached);
  if (fits < wanted) {
    settings.server.connections_max = fits;
    warnings.push_back(fmt::format(
        "connections lowered from {} to {}: with the server's own files they need {} open files, more than the hard "
        "limit (LimitNOFILE, ulimit -Hn)",
        wanted, fits, wanted + own_files(settings)));
  }
  const std::uint64_t memory = settings.engine.memory_bytes;
  for (const std::string& warning : {memory_warning(memory, process_limits().memory_bytes, machine_memory_bytes()),
                                     memory_file_warning(settings.engine.memory_file, memory)}) {
    if (!warning.empty()) warnings.push_back(warning);
  }
  return warnings;
}

int check_settings(Settings settings, std::vector<std::string> warnings) {
  Problems problems;
  const auto warn = [&warnings](std::string warning) {
    if (!warning.empty()) warnings.push_back(std::move(warning));
  };
  const ServerOptions& server = settings.server;
  problems.look([&] { std::ranges::move(fit_to_system(settings, ServerStyle::tandem), std::back_inserter(warnings)); });
  problems.look([&] { check_user(settings.process.user); });
  if (server.tls.enabled) {
    problems.look([&] {
      warn(net::expiry_warning(server.tls.certificate, net::TlsContext(server.tls).not_after(), std::time(nullptr)));
    });
  }
  const auto read_passwords = [&](const std::string& path, Credentials::Format format) {
    problems.look([&] {
      const Credentials credentials(path, format);
      warn(net::password_file_warning(path));
    });
  };
  if (server.sasl) read_passwords(server.sasl_file, Credentials::Format::sasl_file);
  if (!server.auth_file.empty()) read_passwords(server.auth_file, Credentials::Format::auth_file);
  if (!server.metrics_token_file.empty()) {
    problems.look([&] {
      const monitor::Token token(server.metrics_token_file);
      warn(net::password_file_warning(server.metrics_token_file));
    });
  }
  if (!settings.gpu.calibration.empty()) {
    problems.look([&] {
      try {
        read_calibration(settings.gpu.calibration);
      } catch (const CalibrationError& error) {
        throw CommandError(EX_CONFIG, fmt::format("gpu-calibration: {}", error.what()));
      }
    });
  }
  problems.look([&] { check_writable("memory file", settings.engine.memory_file, EX_OSERR); });
  problems.look([&] { check_writable("pid file", settings.process.pid_file, EX_CANTCREAT); });
  for (const std::string& warning : warnings) tell_user("tandem: warning: " + warning);
  if (problems.exit_code() == EX_OK) fmt::print("settings and files can be used\n");
  return problems.exit_code();
}

}  // namespace tandem::cli
