// Redis' protocol (RESP 2), so that Redis and Valkey can be compared with memcached servers by the same generator.
#include "bench/load/codecs.hpp"
#include "bench/load/reply_cursor.hpp"

namespace tandem::load {
namespace {

constexpr std::string_view nil = "$-1\r\n";

char* put_word(char* out, std::string_view word) noexcept {
  *out++ = '$';
  out = put(put_number(out, word.size()), "\r\n");
  return put(put(out, word), "\r\n");
}

char* put_array(char* out, std::uint64_t words) noexcept {
  *out++ = '*';
  return put(put_number(out, words), "\r\n");
}

}  // namespace

char* RespCodec::write(const Request& request, const std::uint64_t* keys, char* out) const {
  const auto put_key = [&](std::uint64_t key) {
    *out++ = '$';
    out = put(put_number(out, contents_.key_bytes(key)), "\r\n");
    out = put(contents_.write_key(key, out), "\r\n");
  };
  const auto put_ttl = [&] {
    char digits[20];
    out = put_word(out, {digits, static_cast<std::size_t>(put_number(digits, request.ttl_s) - digits)});
  };
  switch (request.kind) {
    case RequestKind::get:
      out = put_word(put_array(out, 2), "GET");
      put_key(request.key);
      break;
    case RequestKind::multiget:
      out = put_word(put_array(out, std::uint64_t{request.key_count} + 1), "MGET");
      for (std::uint32_t i = 0; i < request.key_count; ++i) put_key(keys[i]);
      break;
    case RequestKind::set:
      out = put_word(put_array(out, request.ttl_s != 0 ? 5 : 3), "SET");
      put_key(request.key);
      *out++ = '$';
      out = put(put_number(out, request.value_bytes), "\r\n");
      out = put(contents_.write_value(request.key, request.value_bytes, out), "\r\n");
      if (request.ttl_s != 0) {
        out = put_word(out, "EX");
        put_ttl();
      }
      break;
    case RequestKind::remove:
      out = put_word(put_array(out, 2), "DEL");
      put_key(request.key);
      break;
    case RequestKind::touch:
      // EXPIRE with 0 would remove the key.
      out = put_word(put_array(out, request.ttl_s != 0 ? 3 : 2), request.ttl_s != 0 ? "EXPIRE" : "TOUCH");
      put_key(request.key);
      if (request.ttl_s != 0) put_ttl();
      break;
    case RequestKind::scan:
      break;
  }
  return out;
}

// "$n\r\n", n bytes, "\r\n"; or nil. Returns whether there was a value.
bool RespCodec::take_value(ReplyCursor& in, std::uint64_t key) const {
  const std::string_view rest = in.rest();
  if (rest.size() < 2 || rest[1] == '-') {
    in.expect(rest.size() < 2 ? "$" : nil, "neither a value nor nil");
    if (in.is_good() && rest.size() < 2) in.status = ReplyStatus::partial;
    return false;
  }
  static constexpr std::size_t number_bytes_max = 16;
  if (rest[0] != '$') return in.fail("neither a value nor nil"), false;
  const std::size_t line = rest.substr(0, number_bytes_max).find('\n');
  if (line == rest.npos && rest.size() < number_bytes_max) {
    in.status = ReplyStatus::partial;
    return false;
  }
  std::uint32_t bytes = 0;
  const char* const end = rest.data() + (line == rest.npos ? 1 : line - 1);
  const auto [stop, error] = std::from_chars(rest.data() + 1, end, bytes);
  if (error != std::errc{} || stop != end || *end != '\r') return in.fail("no length of a value"), false;
  if (contents_.has_known_lengths() ? bytes != contents_.value_bytes(key) : bytes > workload::value_bytes_limit)
    return in.fail("the length is not that of what was set"), false;
  const std::string_view value = rest.substr(line + 1);
  if (value.size() < std::size_t{bytes} + 2) {
    in.status = ReplyStatus::partial;
    return false;
  }
  if (value[bytes] != '\r' || value[bytes + 1] != '\n') return in.fail("no line end behind the value"), false;
  if (verify_ && !contents_.is_value(key, value.substr(0, bytes))) {
    in.has_wrong_value = true;
    in.what = "the value is not what was set";
  }
  in.position += line + 1 + bytes + 2;
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
      const char* const end = put_array(head, request.key_count);
      in.expect({head, static_cast<std::size_t>(end - head)}, "not as many values as keys");
      for (std::uint32_t i = 0; i < request.key_count && in.is_good(); ++i) hits += take_value(in, keys[i]) ? 1U : 0U;
      break;
    }
    case RequestKind::set:
      in.expect("+OK\r\n", "not OK");
      break;
    case RequestKind::remove:
    case RequestKind::touch: {
      const bool is_zero = data.size() > 1 && data[1] == '0';
      in.expect(is_zero ? ":0\r\n" : ":1\r\n", "neither 0 nor 1");
      hits = is_zero ? 0 : 1;
      break;
    }
    case RequestKind::scan:
      in.fail(no_scans);
      break;
  }
  return in.result(in.is_good() ? hits : 0);
}

}  // namespace tandem::load
