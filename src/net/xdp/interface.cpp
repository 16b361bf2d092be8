#include "net/xdp/interface.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <system_error>

#include "net/endpoint.hpp"
#include "net/fd.hpp"
#include "net/xdp/error.hpp"

namespace tandem::net {
namespace {

ifreq request_for(const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  return request;
}

unsigned count_queues(int socket, const std::string& name) {
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  ifreq request = request_for(name);
  request.ifr_data = reinterpret_cast<char*>(&channels);
  if (ioctl(socket, SIOCETHTOOL, &request) != 0) return 1;  // a driver that has nothing to set
  return std::max(1u, channels.combined_count + channels.rx_count);
}

std::vector<std::uint32_t> ipv4_addresses(const std::string& name) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) throw XdpError(fmt::format("{}: {}", name, std::generic_category().message(errno)));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, &freeifaddrs);
  std::vector<std::uint32_t> addresses;
  for (const ifaddrs* a = first; a != nullptr; a = a->ifa_next) {
    if (a->ifa_addr == nullptr || a->ifa_addr->sa_family != AF_INET || name != a->ifa_name) continue;
    addresses.push_back(reinterpret_cast<const sockaddr_in*>(a->ifa_addr)->sin_addr.s_addr);
  }
  return addresses;
}

// IPv4 addresses of a name.
std::vector<std::uint32_t> resolve_ipv4(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* first = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &first) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(first, &freeaddrinfo);
  std::vector<std::uint32_t> addresses;
  for (const addrinfo* a = first; a != nullptr; a = a->ai_next)
    addresses.push_back(reinterpret_cast<const sockaddr_in*>(a->ai_addr)->sin_addr.s_addr);
  return addresses;
}

}  // namespace

Interface find_interface(const std::string& name) {
  Interface found;
  if (name.size() < IFNAMSIZ) found.index = if_nametoindex(name.c_str());
  if (found.index == 0) throw XdpError(fmt::format("there is no interface {} (`ip link` lists them)", name));
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto ask = [&](unsigned long what) {
    ifreq request = request_for(name);
    if (ioctl(socket.get(), what, &request) != 0)
      throw XdpError(fmt::format("{}: {}", name, std::generic_category().message(errno)));
    return request;
  };
  const ifreq hardware = ask(SIOCGIFHWADDR);
  if (hardware.ifr_hwaddr.sa_family != ARPHRD_ETHER) throw XdpError(fmt::format("{} is no Ethernet interface", name));
  std::memcpy(found.mac.data(), hardware.ifr_hwaddr.sa_data, found.mac.size());
  found.mtu = ask(SIOCGIFMTU).ifr_mtu;
  found.receive_queues = count_queues(socket.get(), name);
  found.addresses = ipv4_addresses(name);
  return found;
}

std::vector<std::uint32_t> listened_addresses(const std::vector<std::uint32_t>& addresses,
                                              const std::vector<std::string>& listen, int port) {
  std::vector<std::uint32_t> named;
  for (const std::string& entry : listen) {
    const Endpoint endpoint = parse_endpoint(entry);
    if (endpoint.port >= 0 && endpoint.port != port) continue;
    if (endpoint.host.empty()) return addresses;
    for (const std::uint32_t address : resolve_ipv4(endpoint.host)) {
      if (address == htonl(INADDR_ANY)) return addresses;
      named.push_back(address);
    }
  }
  std::vector<std::uint32_t> both;
  std::ranges::copy_if(addresses, std::back_inserter(both),
                       [&](std::uint32_t address) { return std::ranges::find(named, address) != named.end(); });
  return both;
}

std::string address_list(const std::vector<std::uint32_t>& addresses) {
  std::string text;
  for (const std::uint32_t address : addresses) {
    char digits[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &address, digits, sizeof digits);
    text += (text.empty() ? "" : ",") + std::string(digits);
  }
  return text;
}

}  // namespace tandem::net
