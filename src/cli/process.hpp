// What the process asks of the system around the server: limits, identity, background, pid file. For the time before
// other threads exist, unless said otherwise. Failures are CommandErrors with memcached's texts and codes.
#pragma once
#include <optional>
#include <string>

namespace tandem::cli {

// Why huge pages cannot be had; empty when they can.
std::string huge_pages_missing();

// Raises the limit of core files as far as it goes; throws when it stays 0.
void raise_core_limit();

// Raises the limit of open files so that `connections` and the server's own files fit, the hard limit too if it must
// and may. Returns how many connections fit. Throws when there is no room for what the server needs itself; with
// `must_fit` also when the hard limit is below the connections, as memcached does.
unsigned raise_file_limit(unsigned connections, unsigned own_files, bool must_fit);

// Lets lock_memory() work after become_user(), when root allows it.
void raise_lock_limit();

// Keeps memory that is in use, now or later, out of swap. To be called when all is set up: memory that the lock's limit
// does not cover could otherwise not be had. Returns an error text, empty on success.
std::string lock_memory();

bool is_root();

// Gives up root for good: user, its group, no other groups. `core_files`: the process may still leave a core file.
void become_user(const std::string& user, bool core_files);

// A background process with a foreground one that waits until it is ready, so that errors of the start reach the
// terminal and its exit code.
class Daemon {
 public:
  // Forks. In the waiting parent: the exit code that it is to end with, once the child is ready or has ended. In the
  // child: nothing.
  std::optional<int> start();
  // In the child: leaves the working directory (unless `stay`), and opens what ready() needs.
  void leave(bool stay);
  // In the child, after leave(): lets the parent end, and leaves the terminal (stderr and stdout unless `keep_output`).
  void ready(bool keep_output);

 private:
  int pipe_ = -1;
  int null_ = -1;
};

// A file that holds the process id as long as the object lives. Written beside its place and renamed, so that nobody
// reads half of it.
class PidFile {
 public:
  PidFile() = default;
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;
  ~PidFile();
  // Returns a warning, empty for none: a process that the file named is still running. Throws when it cannot be
  // written.
  std::string write(const std::string& path);

 private:
  std::string path_;
};

// The path from the root, so that it still means the same after the working directory has changed.
std::string absolute_path(const std::string& path);

}  // namespace tandem::cli
