#if defined(TANDEM_XDP)
#include "net/xdp/xsk.hpp"

#include <fmt/format.h>
#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <xdp/xsk.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "net/xdp/error.hpp"

namespace tandem::net {
namespace {

constexpr std::size_t memory_bytes = std::size_t{xdp_frames} * xdp_frame_bytes;
// Frames that the kernel copies and sends a call (XDP_MAX_TX_SKB_BUDGET of Linux 6.17); before, it is 32.
constexpr int max_tx_budget_option = 9;
constexpr std::uint32_t tx_budget = 256;

// Shared, not private: pages of private memory that the kernel has pinned would not stay this process's when it forks
// (the option daemon does). A device could pin them as well.
char* map_memory() {
  void* const p = mmap(nullptr, memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (p == MAP_FAILED) throw XdpError(fmt::format("no memory for {} MiB of frames", memory_bytes >> 20));
  return static_cast<char*>(p);
}

std::string reason(int error) {
  switch (error) {
    case EPERM:
      return "not permitted: CAP_NET_RAW is needed";
    case ENOBUFS:
      return fmt::format("{} MiB cannot be locked in memory: raise the limit (ulimit -l), or give CAP_IPC_LOCK",
                         memory_bytes >> 20);
    case EAFNOSUPPORT:
      return "the kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS), or a sandbox refuses them";
    case EBUSY:
      return "another program has an AF_XDP socket there";
    default:
      return std::generic_category().message(error);
  }
}

}  // namespace

struct Xsk::Parts {
  Parts() : memory(map_memory()) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    if (socket != nullptr) xsk_socket__delete(socket);
    if (umem != nullptr) xsk_umem__delete(umem);
    munmap(memory, memory_bytes);
  }
  // Returns an error number, 0: none.
  int open(const std::string& on, unsigned number, bool native) {
    interface = on;
    queue = number;
    const xsk_umem_config frames{.fill_size = xdp_ring_places,
                                 .comp_size = xdp_ring_places,
                                 .frame_size = xdp_frame_bytes,
                                 .frame_headroom = 0,
                                 .flags = 0};
    if (const int e = xsk_umem__create(&umem, memory, memory_bytes, &fill, &completion, &frames); e != 0) return -e;
    // Neither XDP_COPY nor XDP_ZEROCOPY: the kernel takes zero copies where the driver has it.
    const xsk_socket_config config{
        .rx_size = xdp_ring_places,
        .tx_size = xdp_ring_places,
        .libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
        .xdp_flags = 0,
        .bind_flags = static_cast<std::uint16_t>(XDP_USE_NEED_WAKEUP | (native ? 0 : XDP_COPY))};
    return -xsk_socket__create(&socket, interface.c_str(), queue, umem, &rx, &tx, &config);
  }

  std::string interface;
  unsigned queue = 0;
  char* const memory;
  xsk_umem* umem = nullptr;
  xsk_socket* socket = nullptr;
  xsk_ring_prod fill{}, tx{};
  xsk_ring_cons completion{}, rx{};
  std::uint32_t put = 0;  // frames put and not submitted
};

Xsk::Xsk(const std::string& interface, unsigned queue, bool native) {
  // A socket that was closed has its queue until the kernel has waited for its readers: one of a server that has just
  // ended may still be there.
  constexpr std::chrono::milliseconds patience(2000), pause(20);
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    parts_ = std::make_unique<Parts>();
    const int error = parts_->open(interface, queue, native);
    if (error == 0) break;
    if (error != EBUSY || std::chrono::steady_clock::now() > end)
      throw XdpError(fmt::format("{}, queue {}: {}", interface, queue, reason(error)));
    parts_ = nullptr;
    std::this_thread::sleep_for(pause);
  }
  Parts& p = *parts_;
  memory_ = p.memory;
  fd_ = xsk_socket__fd(p.socket);
  // Optional: a call sends what a pass answers.
  static_cast<void>(setsockopt(fd_, SOL_XDP, max_tx_budget_option, &tx_budget, sizeof tx_budget));
  // As a reply's frames are many; only root may ask for more than the system's limit.
  const int send_bytes = 4 << 20;
  static_cast<void>(setsockopt(fd_, SOL_SOCKET, SO_SNDBUFFORCE, &send_bytes, sizeof send_bytes));
  xdp_options options{};
  socklen_t bytes = sizeof options;
  zero_copy_ =
      getsockopt(fd_, SOL_XDP, XDP_OPTIONS, &options, &bytes) == 0 && (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

Xsk::Xsk(Xsk&&) noexcept = default;
Xsk::~Xsk() = default;

std::string Xsk::address() const { return fmt::format("xdp:{}:{}", parts_->interface, parts_->queue); }

unsigned Xsk::take_received(std::span<XdpFrame> frames) noexcept {
  Parts& p = *parts_;
  std::uint32_t at = 0;
  const std::uint32_t count = xsk_ring_cons__peek(&p.rx, static_cast<std::uint32_t>(frames.size()), &at);
  for (std::uint32_t i = 0; i < count; ++i) {
    const xdp_desc& d = *xsk_ring_cons__rx_desc(&p.rx, at + i);
    frames[i] = {d.addr, d.len};
  }
  if (count != 0) xsk_ring_cons__release(&p.rx, count);
  return count;
}

unsigned Xsk::take_sent(std::span<std::uint64_t> addresses) noexcept {
  Parts& p = *parts_;
  std::uint32_t at = 0;
  const std::uint32_t count = xsk_ring_cons__peek(&p.completion, static_cast<std::uint32_t>(addresses.size()), &at);
  for (std::uint32_t i = 0; i < count; ++i) addresses[i] = *xsk_ring_cons__comp_addr(&p.completion, at + i);
  if (count != 0) xsk_ring_cons__release(&p.completion, count);
  return count;
}

unsigned Xsk::offer(std::span<const std::uint64_t> addresses) noexcept {
  Parts& p = *parts_;
  const auto wanted = static_cast<std::uint32_t>(addresses.size());
  const std::uint32_t count = std::min(wanted, xsk_prod_nb_free(&p.fill, wanted));
  std::uint32_t at = 0;
  if (count == 0 || xsk_ring_prod__reserve(&p.fill, count, &at) == 0) return 0;
  for (std::uint32_t i = 0; i < count; ++i) *xsk_ring_prod__fill_addr(&p.fill, at + i) = addresses[i];
  xsk_ring_prod__submit(&p.fill, count);
  // A driver that found the ring empty waits to be told.
  if (xsk_ring_prod__needs_wakeup(&p.fill) != 0) recvfrom(fd_, nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
  return count;
}

bool Xsk::put(const XdpFrame& frame) noexcept {
  Parts& p = *parts_;
  std::uint32_t at = 0;
  if (xsk_ring_prod__reserve(&p.tx, 1, &at) == 0) return false;
  *xsk_ring_prod__tx_desc(&p.tx, at) = {.addr = frame.address, .len = frame.bytes, .options = 0};
  ++p.put;
  return true;
}

// Without zero copies the kernel sends a number of frames a call, and says EAGAIN while there are more.
void Xsk::send() noexcept {
  Parts& p = *parts_;
  if (p.put != 0) xsk_ring_prod__submit(&p.tx, std::exchange(p.put, 0));
  constexpr int calls_max = 128;
  for (int i = 0; i < calls_max && xsk_ring_prod__needs_wakeup(&p.tx) != 0; ++i) {
    if (sendto(fd_, nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0) return;
    // Other errors (no interface, no memory): the frames wait in the ring for the next call, or for its end.
    if (errno != EAGAIN && errno != EBUSY && errno != EINTR) return;
  }
}

}  // namespace tandem::net
#endif
