#include "net/xdp/xdp.hpp"

#include <fmt/format.h>

#include "net/options.hpp"
#include "net/xdp/error.hpp"

#if defined(TANDEM_XDP)
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <xdp/libxdp.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "net/fd.hpp"
#include "net/xdp/interface.hpp"
#include "net/xdp/program.hpp"
#include "net/xdp/xsk.hpp"
#endif

namespace tandem::net {

std::string Xdp::text() const {
  const std::string mode =
      facts_.native ? std::string("native mode") : fmt::format("generic mode (the driver: {})", facts_.not_native);
  return fmt::format("XDP: UDP to {} on {}, {} {}, {}, {}", facts_.addresses, facts_.interface, facts_.queues,
                     facts_.queues == 1 ? "queue" : "queues", mode, facts_.zero_copy ? "zero copies" : "with copies");
}

#if defined(TANDEM_XDP)

namespace {

constexpr const char* capabilities = "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (or root) are needed";

// The kernel's answer to a call of bpf().
[[noreturn]] void throw_kernel_error(const std::string& interface, std::string_view what, int error) {
  const std::string why = error == EPERM || error == EACCES ? fmt::format("not permitted: {}", capabilities)
                          : error == ENOSYS                 ? "the kernel has no BPF, or a sandbox refuses it"
                                                            : std::generic_category().message(error);
  throw XdpError(fmt::format("{}: cannot {}: {}", interface, what, why));
}

Fd load_program(const std::string& interface, const XdpMatch& match, int map) {
  const std::vector<bpf_insn> program = make_xdp_program(match, map);
  const int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "tandem", "Dual MIT/GPL", program.data(), program.size(), nullptr);
  if (fd < 0) throw_kernel_error(interface, "load the XDP program", -fd);
  return Fd(fd);
}

// By a link, which the kernel removes with its descriptor.
Fd attach_program(const Interface& to, const std::string& name, int program, Xdp::Facts& facts) {
  int error = 0;
  for (const bool by_driver : {true, false}) {
    bpf_link_create_opts options{};
    options.sz = sizeof options;
    options.flags = by_driver ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
    const int fd = bpf_link_create(program, static_cast<int>(to.index), BPF_XDP, &options);
    if (fd >= 0) {
      facts.native = by_driver;
      return Fd(fd);
    }
    error = -fd;
    if (by_driver) facts.not_native = std::generic_category().message(error);
    if (error == EBUSY || error == EEXIST)
      throw XdpError(fmt::format("{}: another XDP program is attached (`ip link show {}` names it)", name, name));
    if (error == EPERM) break;
  }
  throw_kernel_error(name, "attach the XDP program", error);
}

class OpenXdp final : public Xdp {
 public:
  explicit OpenXdp(const ServerOptions& options) {
    const std::string& name = options.xdp_interface;
    const Interface interface = find_interface(name);
    const XdpMatch match = match_for(interface, options);
    const int map = bpf_map_create(BPF_MAP_TYPE_XSKMAP, "tandem", sizeof(std::uint32_t), sizeof(std::uint32_t),
                                   interface.receive_queues, nullptr);
    if (map < 0) throw_kernel_error(name, "make a map of sockets", -map);
    map_ = Fd(map);
    program_ = load_program(name, match, map);
    link_ = attach_program(interface, name, program_.get(), facts_);
    facts_.zero_copy = true;
    for (std::uint32_t queue = 0; queue < interface.receive_queues; ++queue) {
      Xsk socket(name, queue, facts_.native);
      facts_.zero_copy = facts_.zero_copy && socket.has_zero_copy();
      const int fd = socket.fd();
      ports_.push_back(std::make_unique<BasicXdpPort<Xsk>>(std::move(socket)));
      if (const int error = bpf_map_update_elem(map, &queue, &fd, BPF_ANY); error != 0)
        throw_kernel_error(name, fmt::format("give the program the socket of queue {}", queue), -error);
    }
    facts_.interface = name;
    facts_.addresses = address_list(match.addresses);
    facts_.queues = interface.receive_queues;
  }

  UdpPorts take_ports(unsigned worker, unsigned workers) override {
    UdpPorts taken;
    for (std::size_t queue = worker; queue < ports_.size(); queue += workers) taken.push_back(std::move(ports_[queue]));
    return taken;
  }

 private:
  static XdpMatch match_for(const Interface& interface, const ServerOptions& options) {
    const std::string& name = options.xdp_interface;
    if (interface.mtu < xdp_mtu_min)
      throw XdpError(fmt::format("{}: its MTU of {} is less than the {} that a reply's packet may have", name,
                                 interface.mtu, xdp_mtu_min));
    XdpMatch match{.mac = interface.mac,
                   .addresses = listened_addresses(interface.addresses, options.listen, options.udp_port),
                   .port = static_cast<std::uint16_t>(options.udp_port),
                   .frame_bytes_max = xdp_received_bytes_max};
    if (match.addresses.empty())
      throw XdpError(fmt::format("{} has no IPv4 address that the option listen names", name));
    if (match.addresses.size() > xdp_addresses_max)
      throw XdpError(fmt::format("{} has more than {} IPv4 addresses: name those to serve by the option listen", name,
                                 xdp_addresses_max));
    return match;
  }

  // The link goes first: packets go to the kernel again before their sockets end.
  Fd map_, program_;
  UdpPorts ports_;
  Fd link_;
};

}  // namespace

bool Xdp::is_built_in() noexcept { return true; }

std::shared_ptr<Xdp> Xdp::attach(const ServerOptions& options) {
  libbpf_set_print(nullptr);  // errors are told by this file
  libxdp_set_print(nullptr);
  try {
    return std::make_shared<OpenXdp>(options);
  } catch (const XdpError& error) {
    throw XdpError(fmt::format("xdp: {}", error.what()));
  }
}

#else

bool Xdp::is_built_in() noexcept { return false; }

std::shared_ptr<Xdp> Xdp::attach(const ServerOptions& /*options*/) {
  throw XdpError("xdp: this program was built without AF_XDP: install libxdp-dev and libbpf-dev, and build it again");
}

#endif

}  // namespace tandem::net
