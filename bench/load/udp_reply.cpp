#include "bench/load/udp_reply.hpp"

#include <algorithm>

namespace tandem::load {
namespace {

constexpr std::size_t parts_max = 65536;

std::uint16_t read_u16(std::string_view in, std::size_t at) noexcept {
  const auto byte = [in](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(in[i])); };
  return static_cast<std::uint16_t>(byte(at) << 8 | byte(at + 1));
}

}  // namespace

UdpReplyFrame UdpReplyFrame::read(std::string_view datagram) noexcept {
  return {read_u16(datagram, 0), read_u16(datagram, 2), read_u16(datagram, 4)};
}

// Whether all parts state the same total, which is their number, and no two have the same place.
bool UdpReply::is_one_message() const noexcept {
  const std::size_t total = parts_.front().total;
  if (parts_.size() != total) return false;
  std::vector<bool> seen(total);
  for (const Part& part : parts_) {
    if (part.total != total || part.sequence >= total || seen[part.sequence]) return false;
    seen[part.sequence] = true;
  }
  return true;
}

UdpReply::Status UdpReply::add(const UdpReplyFrame& frame, std::string_view payload) {
  if (payload.empty()) return Status::more;  // memcached sends such for an absent key
  if (frame.total == 0 || frame.sequence >= frame.total || parts_.size() == parts_max) return Status::wrong;
  if (frame.total == 1 && parts_.empty()) {
    parts_.push_back({0, 1, std::string(payload)});
    joined_ = payload;
    return Status::whole;
  }
  parts_.push_back({frame.sequence, frame.total, std::string(payload)});
  const bool is_one = is_one_message();
  if (!is_one && frame.sequence + 1U != frame.total) return Status::more;
  if (!is_one && parts_.size() <= parts_.front().total) return Status::more;
  joined_.clear();
  if (is_one) {
    std::vector<const Part*> order(parts_.size());
    for (const Part& part : parts_) order[part.sequence] = &part;
    for (const Part* part : order) joined_ += part->bytes;
  } else {
    for (const Part& part : parts_) joined_ += part.bytes;
  }
  return Status::whole;
}

}  // namespace tandem::load
