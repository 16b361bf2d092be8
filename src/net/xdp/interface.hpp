// What the kernel tells of a network interface.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::net {

struct Interface {
  unsigned index = 0;
  std::array<std::uint8_t, 6> mac{};
  int mtu = 0;
  unsigned receive_queues = 0;
  std::vector<std::uint32_t> addresses;  // IPv4, in network byte order
};

// Throws XdpError: there is none, or it is no Ethernet.
Interface find_interface(const std::string& name);

// Of these addresses those with a listener at `port`, for these entries of the option listen: entries without a port of
// their own, or with this one; one for any address is for all of them. Throws std::invalid_argument.
std::vector<std::uint32_t> listened_addresses(const std::vector<std::uint32_t>& addresses,
                                              const std::vector<std::string>& listen, int port);

// "192.0.2.1,192.0.2.2"
std::string address_list(const std::vector<std::uint32_t>& addresses);

}  // namespace tandem::net
