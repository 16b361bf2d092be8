#include "bench/load/codecs.hpp"

namespace tandem::load {

std::string_view TextCodec::head_of(std::uint64_t key, std::uint32_t value_bytes, bool /*with_key*/, Head& head) const {
  char* out = put(head, "VALUE ");
  out = contents_.write_key(key, out);
  out = put(out, " 0 ");
  out = put_number(out, value_bytes);
  out = put(out, "\r\n");
  return {head, static_cast<std::size_t>(out - head)};
}

char* TextCodec::write(const Request& request, const std::uint64_t* keys, char* out) const {
  const std::uint64_t key = request.key;
  switch (request.kind) {
    case RequestKind::get:
    case RequestKind::multiget:
      out = put(out, "get");
      for (std::uint32_t i = 0; i < request.key_count; ++i) {
        *out++ = ' ';
        out = contents_.write_key(keys[i], out);
      }
      return put(out, "\r\n");
    case RequestKind::set:
      out = contents_.write_key(key, put(out, "set "));
      out = put_number(put(out, " 0 "), request.ttl_s);
      *out++ = ' ';
      out = put(put_number(out, request.value_bytes), "\r\n");
      return put(contents_.write_value(key, request.value_bytes, out), "\r\n");
    case RequestKind::remove:
      return put(contents_.write_key(key, put(out, "delete ")), "\r\n");
    case RequestKind::touch:
      out = contents_.write_key(key, put(out, "touch "));
      *out++ = ' ';
      return put(put_number(out, request.ttl_s), "\r\n");
    case RequestKind::scan:
      break;
  }
  return out;
}

ReplyCheck TextCodec::check(const Request& request, const std::uint64_t* keys, std::string_view data) const {
  ReplyCursor in{data};
  std::uint32_t hits = 0;
  switch (request.kind) {
    case RequestKind::get:
      if (in.starts_with('V')) {
        take_value(in, request.key, true);
        hits = 1;
      }
      in.expect("END\r\n", hits == 0 ? "neither VALUE nor END" : "no END behind the value");
      break;
    case RequestKind::multiget:
      hits = take_values(in, keys, request.key_count);
      in.expect("END\r\n", hits == 0 ? "neither VALUE nor END" : "no END behind the values");
      break;
    case RequestKind::set:
      in.expect("STORED\r\n", "not STORED");
      break;
    case RequestKind::remove:
      hits = in.expect_either("DELETED\r\n", "NOT_FOUND\r\n", "neither DELETED nor NOT_FOUND") ? 1 : 0;
      break;
    case RequestKind::touch:
      hits = in.expect_either("TOUCHED\r\n", "NOT_FOUND\r\n", "neither TOUCHED nor NOT_FOUND") ? 1 : 0;
      break;
    case RequestKind::scan:
      in.fail(no_scans);
      break;
  }
  return in.result(hits);
}

}  // namespace tandem::load
