// A system call filter inside the process (seccomp). Once the server serves, the kernel refuses calls that serving does
// not need, even if a client has taken control of the process.
#pragma once

namespace tandem::cli {

// What the server does beyond serving clients, by its settings.
struct SystemCallNeeds {
  bool removes_files = false;  // a pid file or a Unix socket, when it stops
  bool memory_file = false;
};

// Takes effect for all present and future threads until the process ends. Calls outside the list of those that a
// serving server makes fail with EPERM; calls that only an intruder makes end the process (docs/decisions/0019). No
// program that the process might start gains privileges. Called when all sockets are bound and all files open for
// writing. Throws CommandError if the system has no such filters.
void filter_system_calls(const SystemCallNeeds& needs);

}  // namespace tandem::cli
