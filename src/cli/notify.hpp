// Tells the service manager how far the process is: sd_notify(3)'s protocol, a datagram to the socket that
// $NOTIFY_SOCKET names.
#pragma once
#include <sys/socket.h>
#include <sys/un.h>

#include <string_view>

namespace tandem::cli {

// Thread safety: told from any thread.
class ServiceManager {
 public:
  // As $NOTIFY_SOCKET is now. The socket is there from now on: later the process may not make one.
  ServiceManager() noexcept;
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;
  ~ServiceManager();
  // Sends "READY=1", "STOPPING=1" or the like. Without $NOTIFY_SOCKET, or where nobody listens on it, nothing happens.
  void tell(std::string_view state) const noexcept;

 private:
  int fd_ = -1;
  sockaddr_un address_{};
  socklen_t address_bytes_ = 0;
};

}  // namespace tandem::cli
