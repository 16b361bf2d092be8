// The event loop's system calls without glibc's wrappers, which are cancellation points: two locked operations a call
// in a process with threads. Tandem's threads are never cancelled. Results and errno are those of the functions in
// <sys/socket.h>.
#pragma once
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>

namespace tandem::net {

#if defined(TANDEM_SANITIZED) || !defined(SYS_recvfrom) || !defined(SYS_sendto)
// Sanitizers know the wrappers.
inline std::ptrdiff_t receive_bytes(int fd, char* to, std::size_t bytes) noexcept { return ::recv(fd, to, bytes, 0); }
inline std::ptrdiff_t send_bytes(int fd, const char* from, std::size_t bytes) noexcept {
  return ::send(fd, from, bytes, MSG_NOSIGNAL);
}
#else
inline std::ptrdiff_t receive_bytes(int fd, char* to, std::size_t bytes) noexcept {
  return ::syscall(SYS_recvfrom, fd, to, bytes, 0, nullptr, nullptr);
}
inline std::ptrdiff_t send_bytes(int fd, const char* from, std::size_t bytes) noexcept {
  return ::syscall(SYS_sendto, fd, from, bytes, MSG_NOSIGNAL, nullptr, 0);
}
#endif

// After EFAULT: touches the heap page that the system could not read, so that the fault is the bus error that any
// other access would raise (heap/bus_error.hpp).
inline void touch_pages(const iovec* parts, std::size_t count) noexcept {
  constexpr std::size_t smallest_page_bytes = 4096;
  for (const iovec* part = parts; part != parts + count; ++part) {
    const auto* const bytes = static_cast<const volatile char*>(part->iov_base);
    for (std::size_t at = 0; at < part->iov_len; at += smallest_page_bytes) static_cast<void>(bytes[at]);
    if (part->iov_len != 0) static_cast<void>(bytes[part->iov_len - 1]);
  }
}

}  // namespace tandem::net
