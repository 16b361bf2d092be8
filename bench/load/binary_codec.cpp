#include "bench/load/codecs.hpp"
#include "codec/binary.hpp"

namespace tandem::load {
namespace {

namespace b = codec::binary;

// The fields of a response's header that a client uses.
struct Response {
  std::uint32_t body_bytes, opaque;
  std::uint16_t key_bytes;
  b::Status status;
  std::uint8_t magic, opcode, extras_bytes;

  // REQUIRES: `bytes` has a header at least.
  explicit Response(std::string_view bytes) noexcept : Response(bytes.begin()) {}
  std::size_t bytes() const noexcept { return b::header_bytes + body_bytes; }

 private:
  explicit Response(const char* p) noexcept
      : body_bytes(b::read<std::uint32_t>(p + b::at::body_bytes)),
        opaque(b::read<std::uint32_t>(p + b::at::opaque)),
        key_bytes(b::read<std::uint16_t>(p + b::at::key_bytes)),
        status(static_cast<b::Status>(b::read<std::uint16_t>(p + b::at::status))),
        magic(b::read<std::uint8_t>(p + b::at::magic)),
        opcode(b::read<std::uint8_t>(p + b::at::opcode)),
        extras_bytes(b::read<std::uint8_t>(p + b::at::extras_bytes)) {}
};

// For an error's text, or a touch's flags. A longer body is not a reply to such a request.
constexpr std::uint32_t short_body_bytes_max = 1024;

char* put_header(char* out, std::uint8_t opcode, std::uint32_t extras, std::uint32_t key, std::uint32_t value,
                 std::uint32_t opaque) noexcept {
  std::memset(out, 0, b::header_bytes);
  b::write(out + b::at::magic, b::request_magic);
  b::write(out + b::at::opcode, opcode);
  b::write(out + b::at::key_bytes, static_cast<std::uint16_t>(key));
  b::write(out + b::at::extras_bytes, static_cast<std::uint8_t>(extras));
  b::write(out + b::at::body_bytes, extras + key + value);
  b::write(out + b::at::opaque, opaque);
  return out + b::header_bytes;
}

ReplyCheck wrong(std::string_view what) noexcept { return {ReplyStatus::wrong, 0, 0, what}; }
constexpr ReplyCheck partial{ReplyStatus::partial};

std::uint8_t opcode_of(RequestKind kind) noexcept {
  switch (kind) {
    case RequestKind::get:
      return b::opcode::get;
    case RequestKind::multiget:
      return b::opcode::getkq;
    case RequestKind::set:
      return b::opcode::set;
    case RequestKind::remove:
      return b::opcode::remove;
    case RequestKind::touch:
      return b::opcode::touch;
    case RequestKind::scan:  // can_ask()
      break;
  }
  return b::opcode::noop;
}

// The complaint about a header, or about the received part of it.
std::string_view header_complaint(std::string_view data) noexcept {
  if (!data.empty() && static_cast<std::uint8_t>(data[0]) != b::response_magic) return "not a binary response";
  return {};
}

}  // namespace

char* BinaryCodec::write(const Request& request, const std::uint64_t* keys, char* out) const {
  const std::uint64_t key = request.key;
  const std::uint8_t opcode = opcode_of(request.kind);
  switch (request.kind) {
    case RequestKind::get:
    case RequestKind::remove:
      return contents_.write_key(key, put_header(out, opcode, 0, contents_.key_bytes(key), 0, request.opaque));
    case RequestKind::multiget:
      for (std::uint32_t i = 0; i < request.key_count; ++i) {
        out = put_header(out, opcode, 0, contents_.key_bytes(keys[i]), 0, request.opaque + i);
        out = contents_.write_key(keys[i], out);
      }
      return put_header(out, b::opcode::noop, 0, 0, 0, request.opaque + request.key_count);
    case RequestKind::set:
      out =
          put_header(out, opcode, b::store_extras_bytes, contents_.key_bytes(key), request.value_bytes, request.opaque);
      b::write(out, std::uint32_t{0});
      b::write(out + 4, request.ttl_s);
      return contents_.write_value(key, request.value_bytes, contents_.write_key(key, out + b::store_extras_bytes));
    case RequestKind::touch:
      out = put_header(out, opcode, b::expiry_bytes, contents_.key_bytes(key), 0, request.opaque);
      b::write(out, request.ttl_s);
      return contents_.write_key(key, out + b::expiry_bytes);
    case RequestKind::scan:
      break;
  }
  return out;
}

ReplyCheck BinaryCodec::check_value(std::uint64_t key, bool with_key, std::string_view data) const {
  const Response response(data);
  const std::uint32_t key_bytes = with_key ? contents_.key_bytes(key) : 0;
  const std::uint32_t ahead_bytes = b::flags_bytes + key_bytes;
  if (response.extras_bytes != b::flags_bytes || response.key_bytes != key_bytes || response.body_bytes < ahead_bytes)
    return wrong("the lengths are not those of what was set");
  const std::uint32_t value_bytes = response.body_bytes - ahead_bytes;
  if (contents_.has_known_lengths() ? value_bytes != contents_.value_bytes(key)
                                    : value_bytes > workload::value_bytes_limit)
    return wrong("the lengths are not those of what was set");
  if (data.size() < response.bytes()) return partial;
  const char* const body = data.data() + b::header_bytes;
  if (!verify_) return {ReplyStatus::complete, 1, response.bytes()};
  if (b::read<std::uint32_t>(body) != 0) return wrong("other client flags than what was set");
  if (with_key && !contents_.is_key(key, {body + b::flags_bytes, key_bytes})) return wrong("another key's value");
  if (!contents_.is_value(key, {body + b::flags_bytes + key_bytes, value_bytes}))
    return {ReplyStatus::wrong_value, 1, response.bytes(), "the value is not what was set"};
  return {ReplyStatus::complete, 1, response.bytes()};
}

ReplyCheck BinaryCodec::check(const Request& request, const std::uint64_t* keys, std::string_view data) const {
  if (request.kind == RequestKind::scan) return wrong(no_scans);
  std::size_t position = 0;
  std::uint32_t hits = 0, next = 0;
  ReplyCheck total{ReplyStatus::complete};
  const std::uint8_t opcode = opcode_of(request.kind);
  for (;;) {
    const std::string_view rest = data.substr(position);
    if (const std::string_view complaint = header_complaint(rest); !complaint.empty()) return wrong(complaint);
    if (rest.size() < b::header_bytes) return partial;
    const Response response(rest);
    const bool is_end = request.kind == RequestKind::multiget && response.opcode == b::opcode::noop;
    if (response.opcode != (is_end ? b::opcode::noop : opcode)) return wrong("the response to another opcode");
    const std::uint32_t index = response.opaque - request.opaque;
    if (is_end ? index != request.key_count : index < next || index >= request.key_count)
      return wrong("another request's opaque, or not in the order asked for");
    const bool is_value = request.kind == RequestKind::get || (request.kind == RequestKind::multiget && !is_end);
    if (is_value && response.status == b::Status::ok) {
      const ReplyCheck one = check_value(keys[index], request.kind == RequestKind::multiget, rest);
      if (one.status == ReplyStatus::partial || one.status == ReplyStatus::wrong) return one;
      if (one.status == ReplyStatus::wrong_value) total = one;
      ++hits;
      position += one.bytes;
      next = index + 1;
      if (request.kind == RequestKind::multiget) continue;
      return {total.status, hits, position, total.what};
    }
    const bool may_miss = request.kind != RequestKind::set && request.kind != RequestKind::multiget;
    const bool is_miss = may_miss && response.status == b::Status::not_found;
    if (response.status != b::Status::ok && !is_miss) {
      if (rest.size() < std::min<std::size_t>(response.bytes(), short_body_bytes_max)) return partial;
      return wrong("an error status");
    }
    if (response.body_bytes > short_body_bytes_max) return wrong("a body where none belongs");
    if ((request.kind == RequestKind::set || is_end) && response.body_bytes != 0)
      return wrong("a body where none belongs");
    if (rest.size() < response.bytes()) return partial;
    if (!is_miss && !is_end) hits += request.kind == RequestKind::set ? 0 : 1;
    return {total.status, hits, position + response.bytes(), total.what};
  }
}

}  // namespace tandem::load
