#include "bench/load/codecs.hpp"

namespace tandem::load {

std::string_view MetaCodec::head_of(std::uint64_t key, std::uint32_t value_bytes, bool with_key, Head& head) const {
  char* out = put_number(put(head, "VA "), value_bytes);
  if (with_key) out = contents_.write_key(key, put(out, " k"));
  out = put(out, "\r\n");
  return {head, static_cast<std::size_t>(out - head)};
}

// The value of another key is unknown, so only its length is checked.
bool MetaCodec::take_compared(ReplyCursor& in, std::uint64_t key) const {
  const OtherHead other = read_other_head(in, key);
  if (!in.is_good()) return true;
  if (other.head_bytes == 0) {
    take_value(in, key, true);
    return true;
  }
  if (other.value_bytes > workload::value_bytes_limit) {
    in.fail("the length is that of no value");
    return true;
  }
  in.position += other.head_bytes;
  skip_bytes(in, other.value_bytes);
  return !in.is_good();
}

char* MetaCodec::write(const Request& request, const std::uint64_t* keys, char* out) const {
  const std::uint64_t key = request.key;
  switch (request.kind) {
    case RequestKind::get:
      return put(contents_.write_key(key, put(out, "mg ")), getk_ ? " v K\r\n" : " v\r\n");
    case RequestKind::multiget:
      for (std::uint32_t i = 0; i < request.key_count; ++i)
        out = put(contents_.write_key(keys[i], put(out, "mg ")), " k v q\r\n");
      return put(out, "mn\r\n");
    case RequestKind::set:
      out = contents_.write_key(key, put(out, "ms "));
      *out++ = ' ';
      out = put_number(out, request.value_bytes);
      if (request.ttl_s != 0) out = put_number(put(out, " T"), request.ttl_s);
      out = put(out, "\r\n");
      return put(contents_.write_value(key, request.value_bytes, out), "\r\n");
    case RequestKind::remove:
      return put(contents_.write_key(key, put(out, "md ")), "\r\n");
    case RequestKind::touch:
      out = contents_.write_key(key, put(out, "mg "));
      return put(put_number(put(out, " T"), request.ttl_s), "\r\n");
    case RequestKind::scan:
      out = put(contents_.write_key(key, put(out, "mr ")), " v L");
      return put(put_number(out, request.scan_items), "\r\n");
  }
  return out;
}

ReplyCheck MetaCodec::check(const Request& request, const std::uint64_t* keys, std::string_view data) const {
  ReplyCursor in{data};
  std::uint32_t hits = 0;
  switch (request.kind) {
    case RequestKind::get:
      if (in.starts_with('V')) {
        if (getk_ && verify_ && !take_compared(in, request.key)) {
          ReplyCheck other = in.result(0);
          other.other_keys = 1;
          return other;
        }
        if (!getk_ || !verify_) take_value(in, request.key, false);
        hits = 1;
      } else if (getk_) {
        Head miss;
        char* const end = put(contents_.write_key(request.key, put(miss, "EN k")), "\r\n");
        in.expect({miss, static_cast<std::size_t>(end - miss)}, "neither VA nor EN with the key");
      } else {
        in.expect("EN\r\n", "neither VA nor EN");
      }
      break;
    case RequestKind::multiget:
      hits = take_values(in, keys, request.key_count);
      in.expect("MN\r\n", "neither VA nor MN");
      break;
    case RequestKind::set:
      in.expect("HD\r\n", "not HD");
      break;
    case RequestKind::remove:
      hits = in.expect_either("HD\r\n", "NF\r\n", "neither HD nor NF") ? 1 : 0;
      break;
    case RequestKind::touch:
      hits = in.expect_either("HD\r\n", "EN\r\n", "neither HD nor EN") ? 1 : 0;
      break;
    case RequestKind::scan:
      return check_scan(request, data);
  }
  return in.result(hits);
}

}  // namespace tandem::load
