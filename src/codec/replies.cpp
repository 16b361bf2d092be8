// Results to replies, one by one. The text protocol's are written here, the meta protocol's in replies_meta.cpp, the
// binary protocol's in replies_binary.cpp.
#include "codec/binary.hpp"
#include "codec/digits.hpp"
#include "codec/reply.hpp"
#include "codec/reply_writer.hpp"
#include "codec/scan.hpp"

namespace tandem {
namespace codec {
namespace {

std::string_view store_line(Status status) noexcept {
  switch (status) {
    case Status::stored:
      return line::stored;
    case Status::exists:
      return line::exists;
    case Status::not_found:
      return line::not_found;
    case Status::too_large:
      return line::too_large;
    case Status::out_of_memory:
      return line::no_memory_store;
    default:
      return line::not_stored;
  }
}

std::string_view arithmetic_line(Status status) noexcept {
  switch (status) {
    case Status::not_a_number:
      return line::not_a_number;
    case Status::out_of_memory:
    case Status::too_large:
      return line::no_memory;
    default:
      return line::not_found;
  }
}

constexpr std::size_t digits_and_line_end_max = digits_max + 2;
constexpr std::size_t value_line_bytes_max =
    sizeof("VALUE ") + key_bytes_max + 3 * (1 + digits_max) + 2 + 2 + line::end.size();

// "VALUE key flags bytes[ cas]\r\n" up to its line end.
TD_INLINE char* write_value_line(char* p, const Query& q, const Result& r, bool with_cas, std::uint64_t cas) noexcept {
  p = copy_short(write_text(p, "VALUE "), q.key, q.key_bytes);
  if (TD_LIKELY(!r.item->has_flags())) {
    p = write_text(p, " 0 ");
  } else {
    *p++ = ' ';
    p = write_digits(p, r.item->client_flags());
    *p++ = ' ';
  }
  p = write_digits(p, r.value_bytes);
  if (with_cas) {
    *p++ = ' ';
    p = write_digits(p, cas);
  }
  return write_line_end(p);
}

TD_INLINE void write_get(const Query& q, const Result& r, bool with_cas, const ReplyContext& context) {
  Output& out = context.out;
  const bool use_cas = context.options.cas;
  if (TD_LIKELY(r.status == Status::hit)) {
    const std::uint32_t bytes = r.value_bytes;
    if (TD_LIKELY(bytes <= copied_value_bytes_max)) {
      char* const begin = out.reserve(value_line_bytes_max + bytes);
      char* const end = write_validated(begin, r, [&](char* p, const ItemVersion& seen) noexcept {
        p = write_value_line(p, q, r, with_cas, use_cas ? seen.cas() : 0);
        p = write_line_end(copy_value(p, r.item->value(), bytes));
        return q.has(option::last_of_line) ? write_text(p, line::end) : p;
      });
      out.commit(static_cast<std::size_t>(end - begin));
      return;
    }
    char* const begin = out.reserve(value_line_bytes_max);
    // A value of this length is never rewritten in place, so its CAS id is constant.
    const std::uint64_t cas = use_cas ? r.item->cas(r.state) : 0;
    out.commit(static_cast<std::size_t>(write_value_line(begin, q, r, with_cas, cas) - begin));
    append_pinned_value(context, *r.item, r.value_bytes);
    out.append("\r\n");
  }
  if (q.has(option::last_of_line)) out.append(line::end);
}

void write_number(std::uint64_t number, Output& out) {
  char* const begin = out.reserve(digits_and_line_end_max);
  out.commit(static_cast<std::size_t>(write_line_end(write_digits(begin, number)) - begin));
}

// Replies to all queries except gets.
void write_other(const Query& q, const Result& r, const ReplyContext& context) {
  Output& out = context.out;
  switch (reply_of(q)) {
    case ReplyKind::meta_get:
      return write_meta_get(q, r, context);
    case ReplyKind::meta_set:
      return write_meta_set(q, r, context);
    case ReplyKind::meta_delete:
      return write_meta_delete(q, r, context);
    case ReplyKind::meta_displaced:
      return write_meta_displaced(q, r, context);
    case ReplyKind::meta_arithmetic:
      return write_meta_arithmetic(q, r, context);
    case ReplyKind::meta_debug:
      return write_meta_debug(q, r, context);
    case ReplyKind::authenticate:
      if (const auto attempt = static_cast<Attempt>(q.delta); attempt != Attempt::none)
        context.options.auth_file->count_attempt(attempt == Attempt::passed);
      return out.append(q.value, q.value_bytes);
    default:
      break;
  }
  if (q.has(option::no_reply)) return;
  switch (reply_of(q)) {
    case ReplyKind::store:
      return out.append(store_line(r.status));
    case ReplyKind::remove:
      return out.append(r.status == Status::removed ? line::deleted : line::not_found);
    case ReplyKind::touch:
      return out.append(r.status == Status::hit ? line::touched : line::not_found);
    case ReplyKind::arithmetic:
      if (r.status == Status::number) return write_number(r.number, out);
      return out.append(arithmetic_line(r.status));
    case ReplyKind::line:
      return out.append(q.value, q.value_bytes);
    case ReplyKind::version:
      out.append("VERSION ");
      out.append(context.options.version);
      return out.append("\r\n");
    default:
      return;
  }
}

}  // namespace

void append_pinned_value(const ReplyContext& context, const Item& item, std::uint64_t value_bytes) {
  const Location location = context.heap.location_of(&item);
  context.heap.pin(location);
  try {
    context.out.append_pinned(item.value(), value_bytes, location);
  } catch (...) {
    context.heap.unpin(location);
    throw;
  }
}

void write_reply(const Query& q, const Result& r, const ReplyContext& context) {
  const ReplyKind reply = reply_of(q);
  if (reply == ReplyKind::get) {
    write_get(q, r, false, context);
  } else if (reply == ReplyKind::gets) {
    write_get(q, r, true, context);
  } else if (reply == ReplyKind::store && r.status == Status::stored && !q.has(option::no_reply)) {
    context.out.append(line::stored);
  } else if (is_binary(q)) {
    write_binary(q, r, context);
  } else {
    write_other(q, r, context);
  }
}

}  // namespace codec

std::string request_text(const Query& query) {
  constexpr std::size_t bytes_max = 1024;
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  const auto add = [&text](std::string_view bytes) {
    for (const char c : bytes.substr(0, bytes_max)) {
      if (c >= ' ' && c <= '~') {
        text += c;
      } else {
        text += "\\x";
        text += digits[static_cast<unsigned char>(c) >> 4];
        text += digits[static_cast<unsigned char>(c) & 15];
      }
    }
    if (bytes.size() > bytes_max) text += "...";
  };
  if (codec::is_binary(query)) {
    const char opcode = query.wire[codec::binary::at::opcode];
    text = "binary request " + std::to_string(static_cast<unsigned>(static_cast<unsigned char>(opcode))) + " ";
    add(query.key_view());
  } else {
    add({query.wire, query.wire_bytes});
  }
  return text;
}

}  // namespace tandem
