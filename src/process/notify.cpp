#include "process/notify.hpp"

#include <sys/time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace tandem::cli {

ServiceManager::ServiceManager() noexcept {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr) return;
  const std::size_t bytes = std::strlen(path);
  if (bytes < 2 || bytes > sizeof address_.sun_path || (path[0] != '/' && path[0] != '@')) return;
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path, path, bytes);
  if (path[0] == '@') address_.sun_path[0] = '\0';  // an abstract name, outside the file system
  address_bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + bytes);
  fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return;
  // The longest time that a manager that does not read can block the server.
  const timeval timeout{.tv_sec = 1, .tv_usec = 0};
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
}

ServiceManager::~ServiceManager() {
  if (fd_ >= 0) close(fd_);
}

void ServiceManager::tell(std::string_view state) const noexcept {
  if (fd_ < 0) return;
  static_cast<void>(sendto(fd_, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address_),
                           address_bytes_));
}

}  // namespace tandem::cli
