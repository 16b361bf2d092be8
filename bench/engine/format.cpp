#include "bench/engine/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "codec/binary.hpp"
#include "codec/reply.hpp"

namespace tandem::bench {
namespace {

namespace binary = codec::binary;
namespace line = codec::line;

constexpr std::string_view get_text = "get ", get_meta = "mg ", get_meta_end = " v\r\n", getk_meta_end = " v K\r\n";
constexpr std::string_view set_text = "set ", set_text_flags = " 0 0 ", set_meta = "ms ";
constexpr std::string_view value_text = "VALUE ", value_text_flags = " 0 ", value_meta = "VA ", key_meta = " k";
constexpr std::string_view crlf = "\r\n", hd = "HD\r\n", en = "EN\r\n", en_key = "EN k";

std::uint64_t digits_of(std::uint64_t number) noexcept {
  std::uint64_t digits = 1;
  for (; number >= 10; number /= 10) ++digits;
  return digits;
}

char* put(std::string_view text, char* out) noexcept {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

char* put(std::uint64_t number, char* out) noexcept { return std::to_chars(out, out + 20, number).ptr; }

char* put_header(std::uint8_t opcode, std::uint32_t key_bytes, std::uint32_t extras_bytes, std::uint32_t value_bytes,
                 char* out) noexcept {
  std::memset(out, 0, binary::header_bytes);
  binary::write<std::uint8_t>(out + binary::at::magic, binary::request_magic);
  binary::write<std::uint8_t>(out + binary::at::opcode, opcode);
  binary::write<std::uint16_t>(out + binary::at::key_bytes, static_cast<std::uint16_t>(key_bytes));
  binary::write<std::uint8_t>(out + binary::at::extras_bytes, static_cast<std::uint8_t>(extras_bytes));
  binary::write<std::uint32_t>(out + binary::at::body_bytes, key_bytes + extras_bytes + value_bytes);
  return out + binary::header_bytes;
}

bool take(std::string_view& from, std::string_view prefix) noexcept {
  if (!from.starts_with(prefix)) return false;
  from.remove_prefix(prefix.size());
  return true;
}

std::optional<std::uint64_t> take_number(std::string_view& from) noexcept {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), number);
  if (error != std::errc{}) return std::nullopt;
  from.remove_prefix(static_cast<std::size_t>(end - from.data()));
  return number;
}

std::string printable(std::string_view bytes) {
  std::string out;
  for (const char c : bytes.substr(0, 40)) {
    if (c >= ' ' && c < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

// Content of a reply to a GET.
struct Hit {
  enum class Kind : std::uint8_t { hit, miss, other } kind = Kind::other;
  std::string_view key{};  // in a protocol that repeats it
  std::string_view value{};
};

Hit read_text(std::string_view& replies) {
  if (take(replies, line::end)) return {.kind = Hit::Kind::miss};
  if (!take(replies, value_text)) return {};
  const std::size_t key_bytes = replies.find(' ');
  if (key_bytes == std::string_view::npos) return {};
  const std::string_view key = replies.substr(0, key_bytes);
  replies.remove_prefix(key_bytes);
  if (!take(replies, value_text_flags)) return {};
  const auto bytes = take_number(replies);
  if (!bytes || !take(replies, crlf) || replies.size() < *bytes) return {};
  const std::string_view value = replies.substr(0, *bytes);
  replies.remove_prefix(*bytes);
  if (!take(replies, crlf) || !take(replies, line::end)) return {};
  return {.kind = Hit::Kind::hit, .key = key, .value = value};
}

Hit read_meta(std::string_view& replies, bool with_key) {
  if (with_key && take(replies, en_key)) {
    const std::size_t end = replies.find(crlf);
    if (end == std::string_view::npos) return {};
    replies.remove_prefix(end + crlf.size());
    return {.kind = Hit::Kind::miss};
  }
  if (take(replies, en)) return {.kind = Hit::Kind::miss};
  if (!take(replies, value_meta)) return {};
  const auto bytes = take_number(replies);
  std::string_view key;
  if (with_key) {
    if (!take(replies, key_meta)) return {};
    key = replies.substr(0, replies.find('\r'));
    replies.remove_prefix(key.size());
  }
  if (!bytes || !take(replies, crlf) || replies.size() < *bytes) return {};
  const std::string_view value = replies.substr(0, *bytes);
  replies.remove_prefix(*bytes);
  if (!take(replies, crlf)) return {};
  return {.kind = Hit::Kind::hit, .key = key, .value = value};
}

// The body of a response to `opcode`, and its status; nothing: it is not such a response.
std::optional<std::string_view> take_packet(std::string_view& replies, std::uint8_t opcode, binary::Status& status) {
  if (replies.size() < binary::header_bytes) return std::nullopt;
  const char* const at = replies.data();
  const auto body_bytes = binary::read<std::uint32_t>(at + binary::at::body_bytes);
  if (binary::read<std::uint8_t>(at + binary::at::magic) != binary::response_magic ||
      binary::read<std::uint8_t>(at + binary::at::opcode) != opcode ||
      replies.size() - binary::header_bytes < body_bytes) {
    return std::nullopt;
  }
  status = static_cast<binary::Status>(binary::read<std::uint16_t>(at + binary::at::status));
  const std::string_view body = replies.substr(binary::header_bytes, body_bytes);
  replies.remove_prefix(binary::header_bytes + body_bytes);
  return body;
}

Hit read_binary(std::string_view& replies) {
  binary::Status status{};
  const auto body = take_packet(replies, binary::opcode::get, status);
  if (body && status == binary::Status::not_found) return {.kind = Hit::Kind::miss};
  if (!body || status != binary::Status::ok || body->size() < binary::flags_bytes) return {};
  return {.kind = Hit::Kind::hit, .value = body->substr(binary::flags_bytes)};
}

// Headers of a reply to the client of `op`: its request has them with both ends swapped.
constexpr std::uint16_t server_port = 11211;
std::uint16_t client_port(WireOp op) noexcept { return static_cast<std::uint16_t>(1024 + op.key() % 60000); }

void put_frame_headers(WireOp op, std::uint32_t payload_bytes, char* frame) noexcept {
  char from_server[ethernet::header_bytes] = {0x02, 0, 0, 0, 0, 0x02, 0x02, 0, 0, 0, 0, 0x01};
  const char ends[] = {10, 0, 0, 1, 10, 0, 0, 2};
  std::memcpy(from_server + 26, ends, sizeof ends);
  ethernet::put_word(from_server, 34, ethernet::network_order(server_port));
  ethernet::put_word(from_server, 36, ethernet::network_order(client_port(op)));
  ethernet::write_reply_headers(from_server, payload_bytes, frame);
}

// The payload's bytes of the reply frame at the front of `replies`, without fault and for the client of `op`.
std::optional<std::uint32_t> take_frame_headers(WireOp op, std::string_view& replies) noexcept {
  if (replies.size() < ethernet::header_bytes) return std::nullopt;
  const char* const frame = replies.data();
  const std::uint64_t bytes = ethernet::ip_at + ethernet::number_at(frame, ethernet::ip_at + 2);
  if (bytes > replies.size()) return std::nullopt;
  const ethernet::Udp udp = ethernet::read_frame(frame, static_cast<std::uint32_t>(bytes));
  if (udp.fault != ethernet::Fault::none || udp.payload_bytes + ethernet::header_bytes != bytes) return std::nullopt;
  char request[ethernet::header_bytes], expected[ethernet::header_bytes];
  put_frame_headers(op, 0, request);
  ethernet::write_reply_headers(request, udp.payload_bytes, expected);
  std::memcpy(expected + ethernet::udp_at + 6, frame + ethernet::udp_at + 6, 2);
  if (ethernet::number_at(expected, ethernet::udp_at + 6) == 0 || !take(replies, {expected, sizeof expected}))
    return std::nullopt;
  return udp.payload_bytes;
}

}  // namespace

std::string_view to_string(WireProtocol protocol) {
  switch (protocol) {
    case WireProtocol::text:
      return "text";
    case WireProtocol::meta:
      return "meta";
    case WireProtocol::udp:
      return "udp";
    case WireProtocol::raw:
      return "raw";
    case WireProtocol::binary:
      break;
  }
  return "binary";
}

WireProtocol parse_wire_protocol(std::string_view name) {
  for (const WireProtocol p :
       {WireProtocol::text, WireProtocol::meta, WireProtocol::binary, WireProtocol::udp, WireProtocol::raw}) {
    if (to_string(p) == name) return p;
  }
  throw std::invalid_argument("unknown protocol \"" + std::string(name) +
                              "\"; there are: text, meta, binary, udp, raw");
}

void ReplyErrors::add(const ReplyErrors& other) {
  if (count() == 0) first = other.first;
  wrong_values += other.wrong_values;
  wrong_replies += other.wrong_replies;
  unexpected_misses += other.unexpected_misses;
  other_keys += other.other_keys;
}

std::uint64_t WireFormat::request_bytes(WireOp op) const noexcept {
  const std::uint64_t key = keys_.key_bytes(op.key()), value = op.is_set() ? keys_.value_bytes(op.key()) : 0;
  switch (protocol_) {
    case WireProtocol::text:
    case WireProtocol::udp:
    case WireProtocol::raw:
      if (!op.is_set()) return header_bytes() + get_text.size() + key + crlf.size();
      return header_bytes() + set_text.size() + key + set_text_flags.size() + digits_of(value) + crlf.size() + value +
             crlf.size();
    case WireProtocol::meta:
      if (!op.is_set()) return get_meta.size() + key + (getk_ ? getk_meta_end : get_meta_end).size();
      return set_meta.size() + key + 1 + digits_of(value) + crlf.size() + value + crlf.size();
    case WireProtocol::binary:
      break;
  }
  return binary::header_bytes + (op.is_set() ? binary::store_extras_bytes : 0) + key + value;
}

std::uint64_t WireFormat::reply_bytes(WireOp op) const noexcept {
  if (op.is_miss()) {
    if (protocol_ == WireProtocol::binary) return binary::header_bytes + binary::text::not_found.size();
    return protocol_ == WireProtocol::meta ? en.size() : header_bytes() + line::end.size();
  }
  const std::uint64_t value = keys_.value_bytes(op.key());
  switch (protocol_) {
    case WireProtocol::text:
    case WireProtocol::udp:
    case WireProtocol::raw:
      if (op.is_set()) return header_bytes() + line::stored.size();
      return header_bytes() + value_text.size() + keys_.key_bytes(op.key()) + value_text_flags.size() +
             digits_of(value) + crlf.size() + value + crlf.size() + line::end.size();
    case WireProtocol::meta:
      if (op.is_set()) return hd.size();
      return value_meta.size() + digits_of(value) + crlf.size() + value + crlf.size() +
             (getk_ ? key_meta.size() + keys_.key_bytes(op.key()) : 0);
    case WireProtocol::binary:
      break;
  }
  return binary::header_bytes + (op.is_set() ? 0 : binary::flags_bytes + value);
}

char* WireFormat::write_request(WireOp op, char* out) const noexcept {
  if (!is_raw()) return write_payload(op, out);
  const auto payload_bytes = static_cast<std::uint32_t>(request_bytes(op) - ethernet::header_bytes);
  put_frame_headers(op, payload_bytes, out);
  char* const end = write_payload(op, out + ethernet::header_bytes);
  ethernet::write_udp_sum(out, payload_bytes);
  return end;
}

char* WireFormat::write_payload(WireOp op, char* out) const noexcept {
  const std::uint32_t value_bytes = op.is_set() ? keys_.value_bytes(op.key()) : 0;
  if (protocol_ == WireProtocol::binary) {
    const std::uint32_t extras_bytes = op.is_set() ? binary::store_extras_bytes : 0;
    out = put_header(op.is_set() ? binary::opcode::set : binary::opcode::get, keys_.key_bytes(op.key()), extras_bytes,
                     value_bytes, out);
    std::memset(out, 0, extras_bytes);  // flags, expiry
    out = keys_.write_key(op.key(), out + extras_bytes);
    return op.is_set() ? keys_.write_value(op.key(), out) : out;
  }
  const bool is_text = protocol_ != WireProtocol::meta;
  if (in_datagrams()) {
    write_udp_frame({static_cast<std::uint16_t>(op.key()), 0, 1}, out);
    out += udp_frame_bytes;
  }
  if (!op.is_set()) {
    out = keys_.write_key(op.key(), put(is_text ? get_text : get_meta, out));
    return put(is_text ? crlf : getk_ ? getk_meta_end : get_meta_end, out);
  }
  out = keys_.write_key(op.key(), put(is_text ? set_text : set_meta, out));
  out = put(value_bytes, put(is_text ? set_text_flags : std::string_view(" "), out));
  return put(crlf, keys_.write_value(op.key(), put(crlf, out)));
}

std::string_view WireFormat::key_in(WireOp op, std::string_view request) const noexcept {
  const std::size_t at = protocol_ == WireProtocol::meta     ? get_meta.size()
                         : protocol_ != WireProtocol::binary ? header_bytes() + get_text.size()
                         : op.is_set()                       ? binary::header_bytes + binary::store_extras_bytes
                                                             : binary::header_bytes;
  static_assert(get_text.size() == set_text.size() && get_meta.size() == set_meta.size());
  return request.substr(at, keys_.key_bytes(op.key()));
}

std::string_view WireFormat::value_in(WireOp op, std::string_view request) const noexcept {
  if (!op.is_set()) return {};
  const std::size_t bytes = keys_.value_bytes(op.key()), behind = protocol_ == WireProtocol::binary ? 0 : crlf.size();
  return request.substr(request.size() - behind - bytes, bytes);
}

void WireFormat::check(std::span<const WireOp> ops, std::string_view replies, ReplyErrors& errors) const {
  std::string scratch;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::string_view rest = replies;
    if (check_one(ops[i], replies, scratch, errors)) continue;
    if (errors.count() == 0) {
      errors.first = fmt::format("{} of key {}: expected {} bytes of a reply, got \"{}\"",
                                 ops[i].is_set() ? "SET" : "GET", ops[i].key(), reply_bytes(ops[i]), printable(rest));
    }
    errors.wrong_replies += ops.size() - i;  // the rest cannot be located
    return;
  }
  if (replies.empty()) return;
  if (errors.count() == 0) errors.first = fmt::format("more than the replies: \"{}\"", printable(replies));
  ++errors.wrong_replies;
}

bool WireFormat::check_one(WireOp op, std::string_view& replies, std::string& scratch, ReplyErrors& errors) const {
  if (!is_raw()) return check_payload(op, replies, scratch, errors);
  const auto payload_bytes = take_frame_headers(op, replies);
  if (!payload_bytes) return false;
  std::string_view payload = replies.substr(0, *payload_bytes);
  replies.remove_prefix(*payload_bytes);
  return check_payload(op, payload, scratch, errors) && payload.empty();
}

bool WireFormat::check_payload(WireOp op, std::string_view& replies, std::string& scratch, ReplyErrors& errors) const {
  if (in_datagrams()) {
    char header[udp_frame_bytes];
    write_udp_frame({static_cast<std::uint16_t>(op.key()), 0, 1}, header);
    if (!take(replies, {header, sizeof header})) return false;
  }
  if (!op.is_set()) return check_get(op, replies, scratch, errors);
  switch (protocol_) {
    case WireProtocol::text:
    case WireProtocol::udp:
    case WireProtocol::raw:
      return take(replies, line::stored);
    case WireProtocol::meta:
      return take(replies, hd);
    case WireProtocol::binary:
      break;
  }
  binary::Status status{};
  const auto body = take_packet(replies, binary::opcode::set, status);
  return body && body->empty() && status == binary::Status::ok;
}

bool WireFormat::check_get(WireOp op, std::string_view& replies, std::string& scratch, ReplyErrors& errors) const {
  const bool is_text = protocol_ == WireProtocol::text || in_datagrams();
  const Hit hit = is_text                           ? read_text(replies)
                  : protocol_ == WireProtocol::meta ? read_meta(replies, getk_)
                                                    : read_binary(replies);
  const auto say = [&](std::string_view what) {
    if (errors.count() == 0) errors.first = fmt::format("GET of key {}: {}", op.key(), what);
  };
  if (op.is_miss() && hit.kind == Hit::Kind::hit) {
    say("a value, though the key was never stored");
    ++errors.wrong_values;
    return true;
  }
  switch (hit.kind) {
    case Hit::Kind::other:
      return false;
    case Hit::Kind::miss:
      if (op.is_miss()) return true;
      say("a miss, though the key was stored");
      ++errors.unexpected_misses;
      return true;
    case Hit::Kind::hit:
      break;
  }
  if (is_text && !keys_.is_key(op.key(), hit.key)) {
    say(fmt::format("the reply names the key \"{}\"", printable(hit.key)));
    ++errors.wrong_replies;
    return true;
  }
  if (getk_ && !keys_.is_key(op.key(), hit.key)) {
    ++errors.other_keys;
    return true;
  }
  scratch.resize(keys_.value_bytes(op.key()));
  keys_.write_value(op.key(), scratch.data());
  if (hit.value != scratch) {
    say(fmt::format("the value \"{}\" of {} bytes instead of \"{}\" of {} bytes", printable(hit.value),
                    hit.value.size(), printable(scratch), scratch.size()));
    ++errors.wrong_values;
  }
  return true;
}

}  // namespace tandem::bench
