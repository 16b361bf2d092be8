// Reassembles replies of memcached's UDP protocol from their datagrams.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::load {

//     0        2         4        6         8 bytes, big-endian
//    [id      |sequence |total   |0        ]
struct UdpReplyFrame {
  std::uint16_t id, sequence, total;

  // REQUIRES: `datagram` has udp_frame_bytes at least.
  static UdpReplyFrame read(std::string_view datagram) noexcept;
};

// A message of datagrams in any order, or several messages in succession: memcached answers each command of a
// datagram, and each key of a get, with its own message. Several are accepted in the order of their arrival. Thread
// safety: none.
class UdpReply {
 public:
  enum class Status : std::uint8_t { whole, more, wrong };

  void clear() noexcept { parts_.clear(); }
  // Adds the payload of a datagram. `whole`: the data so far is a complete message (or, of several, ends one), which is
  // in bytes().
  Status add(const UdpReplyFrame& frame, std::string_view payload);
  std::string_view bytes() const noexcept { return joined_; }

 private:
  struct Part {
    std::uint16_t sequence, total;
    std::string bytes;
  };
  bool is_one_message() const noexcept;

  std::vector<Part> parts_;
  std::string joined_;
};

}  // namespace tandem::load
