// The code that runs in a child between fork and exec, and the process that watches a server.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace tandem::bench {

struct WatcherMessage {
  enum class Kind : int {
    started,  // value: the server's process
    failed,   // value: errno
    ended     // value: the status of waitpid(2)
  };
  Kind kind;
  int value;
};

// In a child of `parent`: runs `command` in its own process group, to be killed when `parent` ends. Returns, with errno
// set, only on failure.
void become_program(const std::vector<std::string>& command, const std::vector<int>& processors, int out, int error,
                    pid_t parent);

// In a child: starts the server, reports through `socket`, and ends it and all its descendants when the other end of
// `socket` is shut down or closed by any process.
[[noreturn]] void watch_server(const std::vector<std::string>& command, const std::vector<int>& processors, int socket,
                               int output);

}  // namespace tandem::bench
