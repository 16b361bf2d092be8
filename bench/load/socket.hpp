// Sockets of the load generator.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "net/fd.hpp"

namespace tandem::load {

inline constexpr int default_port = 11211;

// A server's address. Resolved once: the connections of a run all go to one address.
struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  std::string text;  // as it was given

  int family() const noexcept { return storage.ss_family; }
  const sockaddr* generic() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
};

// HOST, HOST:PORT, [V6]:PORT, unix:/PATH. Throws std::invalid_argument for an invalid one, std::system_error for a name
// that does not resolve.
Address resolve(std::string_view text, bool udp);

// Both throw std::system_error with the address in its text.
net::Fd connect_stream(const Address& address);
net::Fd connect_datagrams(const Address& address);

// Throws std::system_error with errno if `result` is negative, else returns it.
int check(int result, const char* what);

// Raises the descriptor limit to the hard limit; throws std::invalid_argument if that is too low.
void raise_descriptor_limit(std::uint32_t wanted);

}  // namespace tandem::load
