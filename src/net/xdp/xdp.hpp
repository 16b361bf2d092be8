// The AF_XDP front end (option xdp): one UDP port of one interface, its packets given to the workers past the kernel's
// network stack. docs/xdp.md says what it needs and what it changes.
//
// The program is attached as long as this lives, or its process: the kernel detaches it with its last descriptor.
//
// Thread safety: attached and ended by one thread; the rest is constant.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "net/udp_port.hpp"

namespace tandem {
struct ServerOptions;
}

namespace tandem::net {

class Xdp {
 public:
  // Whether this build has it: libxdp was there.
  static bool is_built_in() noexcept;
  // Attaches the program to options.xdp_interface and opens a socket for each of its receive queues. Needs privileges,
  // which its ports do not. Throws XdpError; its text says what would help.
  static std::shared_ptr<Xdp> attach(const ServerOptions& options);
  virtual ~Xdp() = default;
  Xdp(const Xdp&) = delete;
  Xdp& operator=(const Xdp&) = delete;

  // The ports of one of `workers` workers: those of its queues, which are spread over them. Once for each.
  virtual UdpPorts take_ports(unsigned worker, unsigned workers) = 0;

  struct Facts {
    std::string interface;
    std::string addresses;  // that are served, separated by commas
    unsigned queues = 0;
    bool native = false;     // the driver runs the program; else the kernel does, later and at more cost
    std::string not_native;  // why
    bool zero_copy = false;  // the device shares the frames' memory
  };
  const Facts& facts() const noexcept { return facts_; }
  // For the log.
  std::string text() const;

 protected:
  Xdp() = default;
  Facts facts_;
};

}  // namespace tandem::net
