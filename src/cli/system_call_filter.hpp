// A filter of system calls inside the process (seccomp): once the server serves, the kernel refuses what serving does
// not need, whatever a client may have made the process do.
#pragma once

namespace tandem::cli {

// What the server does beyond answering clients, by its settings.
struct SystemCallNeeds {
  bool removes_files = false;  // a pid file or a Unix socket, at its end
  bool memory_file = false;
};

// From now on, for this thread, all others and those they start, until the process ends: calls beyond a list of those
// that a serving server makes fail with EPERM; those that only an intruder makes end the process (docs/decisions/0019).
// No program that the process might have started gains privileges. To be called when all sockets are bound and all
// files open for writing. Throws CommandError where the system has no such filters.
void filter_system_calls(const SystemCallNeeds& needs);

}  // namespace tandem::cli
