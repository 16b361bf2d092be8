// What the process requests of the system around the server: limits, identity, background, pid file. Called before
// other threads exist, unless said otherwise. Failures are CommandErrors with memcached's texts and codes.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "net/options.hpp"

namespace tandem::cli {

// Why huge pages are unavailable; empty when they are available.
std::string huge_pages_missing();

// Raises the core file limit as far as possible; throws when it stays 0.
void raise_core_limit();

// Raises the limit of open files so that `connections` and the server's own files fit, the hard limit too if it must
// and may. Returns how many connections fit. Throws when there is no room for what the server needs itself; with
// `must_fit` also when the hard limit is below the connections, as memcached does.
unsigned raise_file_limit(unsigned connections, unsigned own_files, bool must_fit);

// If root permits it, lets lock_memory() work after become_user().
void raise_lock_limit();

// Locks present and future memory, so that it is never swapped. Called when set-up is complete: otherwise memory beyond
// the lock limit could not be allocated. Returns an error text, empty on success.
std::string lock_memory();

bool is_root();

// Drops root permanently: user, its group, no other groups. `core_files`: the process may still write a core file.
void become_user(const std::string& user, bool core_files);

// A background process, with a foreground one that waits until it is ready, so that start-up errors reach the terminal
// and its exit code.
class Daemon {
 public:
  // Forks. In the waiting parent: returns the exit code to end with, once the child is ready or has ended. In the
  // child: returns nothing.
  std::optional<int> start();
  // In the child: leaves the working directory (unless `stay`), and opens what ready() needs.
  void leave(bool stay);
  // In the child, after leave(): lets the parent end, and detaches from the terminal (stderr and stdout unless
  // `keep_output`).
  void ready(bool keep_output);

 private:
  int pipe_ = -1;
  int null_ = -1;
};

// A file that holds the process id for the object's lifetime. Written to a temporary name and renamed, so that no
// reader sees half of it.
class PidFile {
 public:
  PidFile() = default;
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;
  ~PidFile();
  // Returns a warning, empty for none: the process that the file named is still running. Throws when it cannot be
  // written.
  std::string write(const std::string& path);

 private:
  std::string path_;
};

// Writes a line for each port to the file, by way of a temporary one: memcached's format for the file that
// MEMCACHED_PORT_FILENAME names. Returns an error text, empty on success.
std::string write_port_file(const std::string& path, std::span<const ListeningPort> ports);

// The absolute path, which stays valid after a change of the working directory.
std::string absolute_path(const std::string& path);

}  // namespace tandem::cli
