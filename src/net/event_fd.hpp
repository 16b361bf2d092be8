// What wakes a thread that waits in epoll.
#pragma once
#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>

#include "net/fd.hpp"

namespace tandem::net {

// notify() is safe in a signal handler.
class EventFd {
 public:
  // Throws std::system_error.
  EventFd() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!fd_) throw std::system_error(errno, std::generic_category(), "eventfd");
  }
  int get() const noexcept { return fd_.get(); }
  void notify() const noexcept { eventfd_write(fd_.get(), 1); }
  void reset() const noexcept {
    eventfd_t count;
    eventfd_read(fd_.get(), &count);
  }

 private:
  Fd fd_;
};

}  // namespace tandem::net
