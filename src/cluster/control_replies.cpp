#include "cluster/control_replies.hpp"

#include <charconv>

namespace tandem::cluster {

std::optional<ControlReply> ControlReplies::next() {
  const std::size_t end = bytes_.find("\r\n");
  if (is_broken() || end == std::string::npos) return std::nullopt;
  const std::string_view line(bytes_.data(), end);
  if (!line.starts_with("CONFIG ") && !line.starts_with("VALUE ")) {
    ControlReply reply{false, std::string(line)};
    bytes_.erase(0, end + 2);
    return reply;
  }
  // <word> <key> <flags> <bytes>
  const std::string_view number = line.substr(line.rfind(' ') + 1);
  std::size_t length = 0;
  const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), length);
  constexpr std::string_view tail = "\r\nEND\r\n";
  is_broken_ = error != std::errc{} || stop != number.data() + number.size() || length > control_reply_bytes_max;
  if (is_broken_ || bytes_.size() < end + 2 + length + tail.size()) return std::nullopt;
  is_broken_ = bytes_.compare(end + 2 + length, tail.size(), tail) != 0;
  if (is_broken_) return std::nullopt;
  ControlReply reply{true, bytes_.substr(end + 2, length)};
  bytes_.erase(0, end + 2 + length + tail.size());
  return reply;
}

}  // namespace tandem::cluster
