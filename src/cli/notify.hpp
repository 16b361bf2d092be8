// Tells the service manager how far the process is: sd_notify(3)'s protocol, a datagram to the socket that
// $NOTIFY_SOCKET names.
#pragma once
#include <string_view>

namespace tandem::cli {

// Sends "READY=1", "STOPPING=1" or the like. Without $NOTIFY_SOCKET, or where nobody listens on it, nothing happens.
// From any thread, as long as none changes the environment.
void notify_manager(std::string_view state) noexcept;

}  // namespace tandem::cli
