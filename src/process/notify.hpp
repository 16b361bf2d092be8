// Reports the process's state to the service manager: sd_notify(3)'s protocol, a datagram to the socket that
// $NOTIFY_SOCKET names.
#pragma once
#include <sys/socket.h>
#include <sys/un.h>

#include <string_view>

namespace tandem::cli {

// Thread safety: any thread.
class ServiceManager {
 public:
  // Uses the present $NOTIFY_SOCKET. Makes the socket now: later the process may not be allowed to.
  ServiceManager() noexcept;
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;
  ~ServiceManager();
  // Sends "READY=1", "STOPPING=1" or the like. Does nothing without $NOTIFY_SOCKET or without a listener.
  void tell(std::string_view state) const noexcept;

 private:
  int fd_ = -1;
  sockaddr_un address_{};
  socklen_t address_bytes_ = 0;
};

}  // namespace tandem::cli
