#include "bench/load/codec.hpp"

#include <algorithm>
#include <charconv>

#include "bench/load/codecs.hpp"

namespace tandem::load {

bool can_ask(Protocol protocol, workload::OpKind kind) {
  return kind != workload::OpKind::scan || protocol == Protocol::meta;
}

namespace {

// Word number `n` of a line, counted from 0, as a number.
std::optional<std::uint32_t> number_word(std::string_view line, int n) {
  line = line.substr(0, line.find("\r\n"));
  for (; n > 0; --n) {
    const std::size_t space = line.find(' ');
    if (space == line.npos) return std::nullopt;
    line.remove_prefix(space + 1);
  }
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  const bool is_whole = end == line.data() + line.size() || *end == ' ';
  return error == std::errc{} && is_whole ? std::optional(number) : std::nullopt;
}

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

}  // namespace

std::optional<std::uint32_t> announced_value_bytes(Protocol protocol, std::string_view reply) {
  switch (protocol) {
    case Protocol::text:
      return reply.starts_with("VALUE ") ? number_word(reply, 3) : std::nullopt;
    case Protocol::meta:
      return reply.starts_with("VA ") ? number_word(reply, 1) : std::nullopt;
    case Protocol::resp:
      if (reply.starts_with('*')) reply.remove_prefix(std::min(reply.size(), reply.find("\r\n") + 2));
      return reply.starts_with('$') ? number_word(reply.substr(1), 0) : std::nullopt;
    case Protocol::binary: {
      constexpr std::size_t head_bytes = 24;
      // A response without an error.
      if (reply.size() < head_bytes || reply[0] != '\x81' || big_endian(reply.substr(6, 2)) != 0) return std::nullopt;
      const std::uint32_t body = big_endian(reply.substr(8, 4));
      const std::uint32_t before = big_endian(reply.substr(2, 2)) + big_endian(reply.substr(4, 1));
      return body >= before ? std::optional(body - before) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::unique_ptr<Codec> make_codec(Protocol protocol, const Contents& contents, bool verify, bool getk) {
  switch (protocol) {
    case Protocol::text:
      return std::make_unique<TextCodec>(contents, verify);
    case Protocol::meta:
      return std::make_unique<MetaCodec>(contents, verify, getk);
    case Protocol::binary:
      return std::make_unique<BinaryCodec>(contents, verify);
    case Protocol::resp:
      return std::make_unique<RespCodec>(contents, verify);
  }
  return nullptr;
}

}  // namespace tandem::load
