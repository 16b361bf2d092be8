#include "load/resp_codec.hpp"

#include <algorithm>
#include <cstdint>

namespace tandem::load {
namespace {

constexpr std::string_view other_reply = "not the reply to this request";
constexpr std::string_view other_length = "the length is not that of what was set";
constexpr std::size_t length_digits_max = 10;

// "$5\r\n", "*3\r\n", ":1\r\n".
char* put_length(char* out, char type, std::uint64_t number) noexcept {
  *out++ = type;
  return put(put_number(out, number), "\r\n");
}

char* put_word(char* out, std::string_view word) noexcept {
  return put(put(put_length(out, '$', word.size()), word), "\r\n");
}

char* put_number_word(char* out, std::uint64_t number) noexcept {
  char digits[20];
  const char* end = put_number(digits, number);
  return put_word(out, {digits, static_cast<std::size_t>(end - digits)});
}

// The number of a "$n\r\n" at the front, which is taken off.
std::uint32_t take_length(ReplyCursor& in) {
  const std::string_view rest = in.rest();
  std::uint32_t bytes = 0;
  const std::size_t line = rest.substr(0, length_digits_max + 3).find('\n');
  if (line == std::string_view::npos) {
    if (rest.size() >= length_digits_max + 3) {
      in.fail(other_reply);
    } else {
      in.status = ReplyStatus::partial;
    }
    return 0;
  }
  const char* const end = rest.data() + line - 1;
  const auto [stop, error] = std::from_chars(rest.data() + 1, rest.data() + line, bytes);
  if (error != std::errc{} || stop != end || *end != '\r') {
    in.fail(other_reply);
    return 0;
  }
  in.position += line + 1;
  return bytes;
}

}  // namespace

char* RespCodec::write_command(std::string_view name, std::uint64_t words, char* out) const {
  return put_word(put_length(out, '*', words + 1), name);
}

char* RespCodec::write_key(std::uint64_t key, char* out) const {
  out = put_length(out, '$', contents_.key_bytes(key));
  return put(contents_.write_key(key, out), "\r\n");
}

char* RespCodec::write(const Request& request, const std::uint64_t* keys, char* out) const {
  const std::uint64_t key = request.key;
  switch (request.kind) {
    case RequestKind::get:
      return write_key(key, write_command("GET", 1, out));
    case RequestKind::multiget:
      out = write_command("MGET", request.key_count, out);
      for (std::uint32_t i = 0; i < request.key_count; ++i) out = write_key(keys[i], out);
      return out;
    case RequestKind::set:
      out = write_key(key, write_command("SET", request.ttl_s == 0 ? 2 : 4, out));
      out = put_length(out, '$', request.value_bytes);
      out = put(contents_.write_value(key, request.value_bytes, out), "\r\n");
      return request.ttl_s == 0 ? out : put_number_word(put_word(out, "EX"), request.ttl_s);
    case RequestKind::remove:
      return write_key(key, write_command("DEL", 1, out));
    case RequestKind::touch:
      if (request.ttl_s == 0) return write_key(key, write_command("TOUCH", 1, out));
      return put_number_word(write_key(key, write_command("EXPIRE", 2, out)), request.ttl_s);
  }
  return out;
}

bool RespCodec::take_value(ReplyCursor& in, std::uint64_t key) const {
  if (!in.is_good()) return false;
  if (in.rest().size() < 2) {
    if (!in.rest().empty() && in.rest()[0] != '$') {
      in.fail(other_reply);
    } else {
      in.status = ReplyStatus::partial;
    }
    return false;
  }
  if (in.rest().starts_with("$-")) {
    in.expect("$-1\r\n", other_reply);
    return false;
  }
  if (in.rest()[0] != '$') {
    in.fail(other_reply);
    return false;
  }
  const std::uint32_t bytes = take_length(in);
  if (!in.is_good()) return false;
  if (contents_.has_known_lengths() ? bytes != contents_.value_bytes(key) : bytes > workload::value_bytes_limit) {
    in.fail(other_length);
    return false;
  }
  const std::string_view rest = in.rest();
  if (rest.size() < std::size_t{bytes} + 2) {
    in.status = ReplyStatus::partial;
    return false;
  }
  if (rest[bytes] != '\r' || rest[bytes + 1] != '\n') {
    in.fail("no line end behind the value");
    return false;
  }
  if (verify_ && !contents_.is_value(key, rest.substr(0, bytes))) {
    in.has_wrong_value = true;
    in.what = "the value is not what was set";
  }
  in.position += std::size_t{bytes} + 2;
  return true;
}

ReplyCheck RespCodec::check(const Request& request, const std::uint64_t* keys, std::string_view data) const {
  ReplyCursor in{data};
  std::uint32_t hits = 0;
  switch (request.kind) {
    case RequestKind::get:
      hits = take_value(in, request.key) ? 1 : 0;
      break;
    case RequestKind::multiget: {
      char head[24];
      const char* end = put_length(head, '*', request.key_count);
      in.expect({head, static_cast<std::size_t>(end - head)}, other_reply);
      for (std::uint32_t i = 0; i < request.key_count && in.is_good(); ++i) hits += take_value(in, keys[i]) ? 1U : 0U;
      break;
    }
    case RequestKind::set:
      in.expect("+OK\r\n", "not OK");
      break;
    case RequestKind::remove:
    case RequestKind::touch:
      in.expect(":", other_reply);
      hits = in.expect_either("1\r\n", "0\r\n", "neither 1 nor 0") ? 1 : 0;
      break;
  }
  return in.result(hits);
}

}  // namespace tandem::load
