// What runs in a child between fork and exec, and the process that watches over a server.
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

// In a child of `parent`: runs `command` in a process group of its own, to be killed when `parent`'s ends. Returns,
// with errno set, only when it cannot.
void become_program(const std::vector<std::string>& command, const std::vector<int>& processors, int out, int error,
                    pid_t parent);

// In a child: starts the server, tells about it through `socket`, and ends it and all its descendants when the other
// end of `socket` is shut down or closed, whoever closed it.
[[noreturn]] void watch_server(const std::vector<std::string>& command, const std::vector<int>& processors, int socket,
                               int output);

}  // namespace tandem::bench
