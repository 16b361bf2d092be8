// Replies of the meta protocol: a status, then the fields that the flags of the request line request, in their order.
#include "codec/base64.hpp"
#include "codec/digits.hpp"
#include "codec/reply.hpp"
#include "codec/reply_writer.hpp"
#include "codec/scan.hpp"
#include "codec/tokens.hpp"

namespace tandem::codec {
namespace {

// Everything but the value: status and length, at most one of each flag, Z X W, two line ends.
constexpr std::size_t flag_bytes_max = 2 + digits_max;
constexpr std::size_t key_flag_bytes_max = 2 + base64_bytes(key_bytes_max) + 2;
constexpr std::size_t line_bytes_max =
    3 + digits_max + 6 * flag_bytes_max + key_flag_bytes_max + 1 + opaque_bytes_max + 6 + 4 + digits_max;

TD_INLINE char* write_flag(char* p, char flag) noexcept {
  p[0] = ' ';
  p[1] = flag;
  return p + 2;
}
TD_INLINE char* write_opaque(char* p, std::string_view flag) noexcept {
  *p = ' ';
  return copy_short(p + 1, flag.data(), flag.size());
}

char* write_key(char* p, std::string_view key, bool binary) noexcept {
  p = write_flag(p, 'k');
  if (!binary) return copy_short(p, key.data(), key.size());
  p = base64_encode(p, key.data(), key.size());
  return write_flag(p, 'b');
}
char* write_request_key(char* p, const Query& q) noexcept {
  return write_key(p, q.key_view(), q.has(option::binary_key));
}

// Seconds to the expiry. For an item that just received an expiry in the past memcached prints the wrapped difference.
char* write_ttl(char* p, std::uint32_t expiry_s, std::uint32_t now_s) noexcept {
  p = write_flag(p, 't');
  if (expiry_s != Clock::never) return write_digits(p, expiry_s - now_s);
  p[0] = '-';
  p[1] = '1';
  return p + 2;
}

TD_INLINE Tokens flags_of(const Query& q) noexcept { return {q.wire + q.wire_flags_at, q.wire + q.wire_bytes}; }

// The expiry during the walk over the flags: T and N change it for the flags behind them.
class Expiry {
 public:
  // state: of the version in the reply.
  Expiry(const Query& q, const Result& r, std::uint64_t state, const Clock& clock) noexcept
      : query_(q), clock_(clock), created_((r.outcome & outcome::created) != 0) {
    at_s_ = created_ ? Clock::never : Item::expiry_of(state);
  }
  std::uint32_t at_s() const noexcept { return at_s_; }
  void touch() noexcept {
    if (query_.has(option::touch)) at_s_ = query_.expiry_s;
  }
  void vivify(std::string_view flag) noexcept {
    std::int32_t exptime = 0;
    if (created_ && number::read_i32(flag.substr(1), exptime)) at_s_ = clock_.expiry_s(exptime);
  }

 private:
  const Query& query_;
  const Clock& clock_;
  bool created_;
  std::uint32_t at_s_;
};

std::uint32_t since_access_s(const Result& r, std::uint32_t now_s) noexcept {
  const auto then = static_cast<std::uint32_t>(word::AccessS::get(r.state));
  return (now_s - then) & static_cast<std::uint32_t>(word::AccessS::limit);
}

// The status of a reply without an item.
char* write_request_flags(char* p, const Query& q) noexcept {
  Tokens flags = flags_of(q);
  std::string_view flag;
  bool has_key = false;
  while (flags.next(flag)) {
    if (flag[0] == 'O') {
      p = write_opaque(p, flag);
    } else if ((flag[0] == 'k' || flag[0] == 'K') && !has_key) {
      p = write_request_key(p, q);
      has_key = true;
    }
  }
  return write_line_end(p);
}

// The flags of a hit, from the version in the reply. Access times are those at the look-up.
char* write_hit_flags(char* p, const Query& q, const Result& r, const ReplyContext& context,
                      const ItemVersion& seen) noexcept {
  const Item& item = *r.item;
  const bool created = (r.outcome & outcome::created) != 0;
  // A long value is never rewritten in place, so the item is as the look-up found it.
  Expiry expiry(q, r, r.value_bytes > rewritten_value_bytes_max ? r.state : seen.state, context.clock);
  Tokens flags = flags_of(q);
  std::string_view flag;
  bool has_key = false;
  while (flags.next(flag)) {
    switch (flag[0]) {
      case 'T':
        expiry.touch();
        break;
      case 'N':
        expiry.vivify(flag);
        break;
      case 's':
        p = write_digits(write_flag(p, 's'), r.value_bytes);
        break;
      case 't':
        p = write_ttl(p, expiry.at_s(), context.clock.now_s());
        break;
      case 'c':
        p = write_digits(write_flag(p, 'c'), context.options.cas ? seen.cas() : 0);
        break;
      case 'f':
        p = write_digits(write_flag(p, 'f'), item.client_flags());
        break;
      case 'l':
        p = write_digits(write_flag(p, 'l'), created ? 0 : since_access_s(r, context.clock.now_s()));
        break;
      case 'h':
        p = write_flag(p, 'h');
        *p++ = !created && word::Fetched::get(r.state) != 0 ? '1' : '0';
        break;
      case 'O':
        p = write_opaque(p, flag);
        break;
      case 'k':
      case 'K':
        // The item's key, which may differ from the requested one (option::caller_compares).
        if (!has_key) p = write_key(p, item.key(), item.binary_key());
        has_key = true;
        break;
      default:
        break;
    }
  }
  return p;
}

}  // namespace

void write_meta_get(const Query& q, const Result& r, const ReplyContext& context) {
  const bool with_value = !q.has(option::no_value);
  if (TD_UNLIKELY(r.status != Status::hit)) {
    if (q.has(option::no_reply)) return;
    char* const begin = context.out.reserve(line_bytes_max);
    context.out.commit(static_cast<std::size_t>(write_request_flags(write_text(begin, "EN"), q) - begin));
    return;
  }
  const bool copied = with_value && r.value_bytes <= copied_value_bytes_max;
  char* const begin = context.out.reserve(line_bytes_max + (copied ? r.value_bytes : 0));
  char* const end = write_validated(begin, r, [&](char* p, const ItemVersion& seen) noexcept {
    p = write_text(p, with_value ? "VA" : "HD");
    if (with_value) {
      *p++ = ' ';
      p = write_digits(p, r.value_bytes);
    }
    p = write_hit_flags(p, q, r, context, seen);
    if (TD_UNLIKELY(r.outcome != 0)) {
      if ((r.outcome & outcome::win_sent) != 0) p = write_flag(p, 'Z');
      if ((r.outcome & outcome::stale) != 0) p = write_flag(p, 'X');
      if ((r.outcome & outcome::won) != 0) p = write_flag(p, 'W');
    }
    p = write_line_end(p);
    return copied ? write_line_end(copy_value(p, r.item->value(), r.value_bytes)) : p;
  });
  context.out.commit(static_cast<std::size_t>(end - begin));
  if (TD_UNLIKELY(with_value && !copied)) {
    append_pinned_value(context, *r.item, r.value_bytes);
    context.out.append("\r\n");
  }
}

namespace {
// A flag of ms that its reply returns. cas: the new item's id.
char* write_set_flag(char* p, const Query& q, std::string_view flag, std::uint64_t cas) noexcept {
  switch (flag[0]) {
    case 'O':
      return write_opaque(p, flag);
    case 'k':
      return write_request_key(p, q);
    case 'c':
      return write_digits(write_flag(p, 'c'), cas);
    default:
      return p;
  }
}
}  // namespace

void write_meta_set(const Query& q, const Result& r, const ReplyContext& context) {
  char* const begin = context.out.reserve(line_bytes_max);
  char* p = begin;
  switch (r.status) {
    case Status::stored:
      if (q.has(option::no_reply)) return;
      p = write_text(p, "HD");
      break;
    case Status::exists:
      p = write_text(p, "EX");
      break;
    case Status::not_found:
      p = write_text(p, "NF");
      break;
    case Status::too_large:
      return context.out.append(line::too_large);
    case Status::out_of_memory:
      return context.out.append(line::no_memory_store);
    default:
      p = write_text(p, "NS");
      break;
  }
  const std::uint64_t cas = r.status == Status::stored && context.options.cas ? r.number : 0;
  Tokens flags = flags_of(q);
  std::string_view flag;
  while (flags.next(flag)) p = write_set_flag(p, q, flag, cas);
  p = write_line_end(p);
  context.out.commit(static_cast<std::size_t>(p - begin));
}

void write_meta_delete(const Query& q, const Result& r, const ReplyContext& context) {
  char* const begin = context.out.reserve(line_bytes_max);
  char* p = begin;
  switch (r.status) {
    case Status::removed:
      if (q.has(option::no_reply)) return;
      p = write_text(p, "HD");
      break;
    case Status::exists:
      p = write_text(p, "EX");
      break;
    case Status::out_of_memory:
      return context.out.append(line::no_memory);
    default:
      p = write_text(p, "NF");
      break;
  }
  context.out.commit(static_cast<std::size_t>(write_request_flags(p, q) - begin));
}

// G returns the old item's client flags. c is the new item's id, as without G.
void write_meta_displaced(const Query& q, const Result& r, const ReplyContext& context) {
  const bool stores = q.opcode == Opcode::store;
  if ((r.outcome & outcome::displaced) == 0)
    return stores ? write_meta_set(q, r, context) : write_meta_delete(q, r, context);
  const bool copied = r.value_bytes <= copied_value_bytes_max;
  char* const begin = context.out.reserve(line_bytes_max + (copied ? r.value_bytes : 0));
  char* p = write_digits(write_text(begin, "VA "), r.value_bytes);
  Tokens flags = flags_of(q);
  std::string_view flag;
  while (flags.next(flag)) {
    if (flag[0] == 'G') {
      p = write_digits(write_flag(p, 'G'), r.item->client_flags());
    } else if (stores || flag[0] != 'c') {
      p = write_set_flag(p, q, flag, context.options.cas ? r.number : 0);
    }
  }
  if ((r.outcome & outcome::win_sent) != 0) p = write_flag(p, 'Z');
  if ((r.outcome & outcome::stale) != 0) p = write_flag(p, 'X');
  p = write_line_end(p);
  if (copied) {
    std::memcpy(p, r.item->value(), r.value_bytes);
    p = write_line_end(p + r.value_bytes);
  }
  context.out.commit(static_cast<std::size_t>(p - begin));
  if (copied) return;
  append_pinned_value(context, *r.item, r.value_bytes);
  context.out.append("\r\n");
}

namespace {

// The flags that a reply to ma returns. with_value: set if the request asks for the number.
char* write_arithmetic_flags(char* l, const Query& q, const Result& r, const ReplyContext& context, bool& with_value) {
  Expiry expiry(q, r, r.state, context.clock);
  Tokens flags = flags_of(q);
  std::string_view flag;
  while (flags.next(flag)) {
    switch (flag[0]) {
      case 'v':
        with_value = true;
        break;
      case 'c':
        l = write_digits(write_flag(l, 'c'), context.options.cas ? r.cas : 0);
        break;
      case 't':
        l = write_ttl(l, expiry.at_s(), context.clock.now_s());
        break;
      case 'T':
        expiry.touch();
        break;
      case 'N':
        expiry.vivify(flag);
        break;
      case 'O':
        l = write_opaque(l, flag);
        break;
      case 'k':
        l = write_request_key(l, q);
        break;
      default:
        break;
    }
  }
  return l;
}

}  // namespace

void write_meta_arithmetic(const Query& q, const Result& r, const ReplyContext& context) {
  char* const begin = context.out.reserve(line_bytes_max);
  char* p = begin;
  switch (r.status) {
    case Status::number:
      // q does not hide that the item was created.
      if (q.has(option::no_reply) && (r.outcome & outcome::created) == 0) return;
      break;
    case Status::not_a_number:
      return context.out.append(line::not_a_number);
    case Status::out_of_memory:
    case Status::too_large:
      return context.out.append((r.outcome & outcome::created) != 0 ? line::no_memory_new : line::no_memory);
    default:
      p = write_request_flags(write_text(p, r.status == Status::exists ? "EX" : "NF"), q);
      context.out.commit(static_cast<std::size_t>(p - begin));
      return;
  }
  // The flags are written first, because they request the value, which precedes them in the reply.
  char flags_text[line_bytes_max];
  bool with_value = false;
  const char* const l = write_arithmetic_flags(flags_text, q, r, context, with_value);
  const auto flags_bytes = static_cast<std::size_t>(l - flags_text);
  if (!with_value) {
    p = write_text(p, "HD");
    p = write_line_end(copy_short(p, flags_text, flags_bytes));
  } else {
    char digits[digits_max];
    const auto digits_bytes = static_cast<std::size_t>(write_digits(digits, r.number) - digits);
    p = write_digits(write_text(p, "VA "), digits_bytes);
    p = write_line_end(copy_short(p, flags_text, flags_bytes));
    p = write_line_end(copy_short(p, digits, digits_bytes));
  }
  context.out.commit(static_cast<std::size_t>(p - begin));
}

void write_meta_debug(const Query& q, const Result& r, const ReplyContext& context) {
  if (r.status != Status::hit) return context.out.append("EN\r\n");
  const Item& item = *r.item;
  const std::uint32_t now_s = context.clock.now_s();
  const std::uint32_t expiry_s = Item::expiry_of(r.state);
  char* const begin = context.out.reserve(line_bytes_max + 128);
  char* p = begin;
  const auto put = [&p](std::string_view text) { p = write_text(p, text); };
  put("ME ");
  p = item.binary_key() ? base64_encode(p, q.key, q.key_bytes) : copy_short(p, q.key, q.key_bytes);
  put(" exp=-");  // minus the seconds left, as in memcached
  p = write_digits(p, expiry_s == Clock::never ? 1 : expiry_s - now_s);
  put(" la=");
  p = write_digits(p, since_access_s(r, now_s));
  put(" cas=");
  std::uint64_t cas = 0;
  if (context.options.cas)
    copy_validated(r.item, r.state, [&cas](const ItemVersion& seen) noexcept { cas = seen.cas(); });
  p = write_digits(p, cas);
  put(word::Fetched::get(r.state) != 0 ? " fetch=yes" : " fetch=no");
  put(" cls=");
  p = write_digits(p, context.heap.class_of(context.heap.location_of(&item)));
  put(" size=");
  p = write_digits(p, context.heap.total_bytes(&item));
  p = write_line_end(p);
  context.out.commit(static_cast<std::size_t>(p - begin));
}

}  // namespace tandem::codec
