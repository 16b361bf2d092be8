// The address of a connection's client, from accept(): the kernel forgets it when the client resets the connection.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace tandem::net {

struct PeerAddress {
  std::uint16_t family = AF_UNSPEC;  // AF_INET, AF_INET6; any other: a Unix socket, with no address
  std::uint16_t port = 0;            // host order
  std::array<std::uint8_t, 16> host{};

  PeerAddress() = default;
  explicit PeerAddress(const sockaddr_storage& address) noexcept {
    const auto take = [this](const auto& from, std::uint16_t network_port) {
      const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&from);
      std::copy_n(bytes, sizeof from, host.begin());
      port = ntohs(network_port);
    };
    family = address.ss_family;
    if (family == AF_INET) {
      const auto& in = reinterpret_cast<const sockaddr_in&>(address);
      take(in.sin_addr, in.sin_port);
    } else if (family == AF_INET6) {
      const auto& in = reinterpret_cast<const sockaddr_in6&>(address);
      take(in.sin6_addr, in.sin6_port);
    }
  }
  bool is_local() const noexcept { return family != AF_INET && family != AF_INET6; }
};

}  // namespace tandem::net
