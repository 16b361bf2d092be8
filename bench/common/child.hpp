// Child processes of a comparison: servers, which must be stopped at the end in every case, and programs that run to
// their end. Not for processes with other threads: children are forked.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "net/fd.hpp"

namespace tandem::bench {

// An INT, TERM or HUP was received.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int signal) : std::runtime_error("interrupted"), signal_(signal) {}
  int signal() const noexcept { return signal_; }

 private:
  int signal_;
};

// While one lives, INT, TERM and HUP make the waiting functions below throw Interrupted instead of ending the process.
// At most one at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

// Waits until `fd` (-1: none) is readable or the time has passed. Returns whether it is readable. Throws Interrupted.
bool wait_readable(int fd, std::chrono::milliseconds timeout);

// "with exit code 3", "by signal 11 (Segmentation fault)": from a status of waitpid(2).
std::string describe_status(int status);

// `root` and its descendants, except those orphaned by their parent.
std::vector<pid_t> process_tree(pid_t root);

// A server process and its descendants, under a watcher process that ends them on request, and also when this process
// has ended, even by a kill. stdout and stderr go to memory.
class ServerChild {
 public:
  // `processors`: where it may run; empty: anywhere. Throws std::runtime_error when `command` cannot be started.
  ServerChild(const std::vector<std::string>& command, const std::vector<int>& processors);
  // Sends TERM to the server and, after a grace time, KILL to all remaining descendants.
  ~ServerChild();
  ServerChild(const ServerChild&) = delete;
  ServerChild& operator=(const ServerChild&) = delete;

  // Starts what the destructor waits for, so that several can end at the same time.
  void begin_to_end() noexcept;

  pid_t pid() const noexcept { return pid_; }
  // The status, once the server process has ended.
  std::optional<int> ended();
  // The end of its output.
  std::string output() const;
  // The server process and its descendants, orphans too.
  std::vector<pid_t> processes() const;
  // CPU time and resident memory of these processes.
  double cpu_s() const;
  std::uint64_t resident_bytes() const;

 private:
  pid_t watcher_ = -1, pid_ = -1;
  net::Fd socket_;  // to the watcher
  net::Fd output_;
  std::optional<int> status_;
};

struct ProgramResult {
  int status = 0;  // of waitpid(2)
  std::string out, error;
};

// Runs a program to its end. It is killed when this process ends or is interrupted. Throws Interrupted.
ProgramResult run_program(const std::vector<std::string>& command, const std::vector<int>& processors);

}  // namespace tandem::bench
