// What a server answers on its control socket: whole replies out of a stream of bytes.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::cluster {

// Bytes of a reply. The largest is a value of `config`, of 16 KiB.
inline constexpr std::size_t control_reply_bytes_max = std::size_t{32} * 1024;

struct ControlReply {
  bool is_value = false;  // the reply of `get` or `config get` that has a value
  std::string text;       // the value; or the line without its end: END, STORED, CLIENT_ERROR ...
};

class ControlReplies {
 public:
  void feed(std::string_view bytes) { bytes_ += bytes; }
  // nullopt: none is whole yet.
  std::optional<ControlReply> next();
  // What has come is no reply, or longer than any.
  bool is_broken() const noexcept { return is_broken_ || bytes_.size() > control_reply_bytes_max; }

 private:
  std::string bytes_;
  bool is_broken_ = false;
};

}  // namespace tandem::cluster
