// The meta protocol's commands. Order of the checks and choice of the error line are memcached's; only the length of an
// opaque is checked before anything is executed.
#include <charconv>
#include <climits>

#include "codec/base64.hpp"
#include "codec/line_parser.hpp"
#include "codec/meta_flags.hpp"

namespace tandem::codec {
namespace {
constexpr std::int32_t meta_value_bytes_max = INT_MAX - 2;

std::uint16_t common_options(const MetaFlags& flags) noexcept {
  return static_cast<std::uint16_t>(option::meta | (flags.has('q') ? option::no_reply : 0) |
                                    (flags.has('b') ? option::binary_key : 0));
}

// G of ms and md is Tandem's own: the reply has the value that was there before. They must say so where it cannot be.
constexpr std::uint64_t flag_g = MetaFlags::bits("G");

void return_old(Query& q) noexcept {
  q.options |= option::returns_old;
  q.reply = static_cast<std::uint8_t>(ReplyKind::meta_displaced);
}

// Of M, S without it. A mode that is none fails the flags, and so does G where there is no old value.
StoreMode store_mode(MetaFlags& flags) noexcept {
  StoreMode mode = StoreMode::set;
  if (TD_UNLIKELY(flags.mode != 0 && !flags.failed)) {
    switch (flags.mode) {
      case 'E':
        mode = StoreMode::add;
        break;
      case 'A':
        mode = StoreMode::append;
        break;
      case 'P':
        mode = StoreMode::prepend;
        break;
      case 'R':
        mode = StoreMode::replace;
        break;
      case 'S':
        break;
      default:
        flags.fail(line::bad_set_mode);
    }
  }
  const bool sets = mode == StoreMode::set || mode == StoreMode::replace;
  if (TD_UNLIKELY(flags.has_any(flag_g) && !flags.failed && (!sets || flags.has('I')))) flags.fail(line::invalid_flag);
  return mode;
}
}  // namespace

LineParser::Step LineParser::meta(std::string_view name) {
  const Form form = find_command(name).form;
  if (form == Form::meta_noop) return answer(line::mn);
  Tokens tokens(name.data() + name.size(), line_end_);
  std::string_view key;
  if (TD_UNLIKELY(!tokens.next_key(key))) return answer(form == Form::meta_debug ? line::bad_format : line::error);
  if (TD_UNLIKELY(key.size() > key_bytes_max && form != Form::meta_range))
    return answer(form == Form::none ? line::error : line::bad_format);
  return meta_of(form, key, tokens.position());
}

LineParser::Step LineParser::meta_of(Form form, std::string_view key, const char* flags) {
  switch (form) {
    case Form::meta_get:
      return meta_get(key, flags);
    case Form::meta_set:
      return meta_set(key, flags);
    case Form::meta_delete:
      return meta_delete(key, flags);
    case Form::meta_arithmetic:
      return meta_arithmetic(key, flags);
    case Form::meta_debug:
      return meta_debug(key, flags);
    case Form::meta_range:  // read when it is executed
      set_no_key(start(Opcode::control, ReplyKind::meta_range, option::meta));
      return commit();
    default:
      return answer(line::error);
  }
}

// K is Tandem's own: the reply has the item's key, and the client compares it.
LineParser::Step LineParser::meta_get(std::string_view key, const char* flags_begin) {
  MetaFlags flags(key);
  flags.read(flags_begin, line_end_, clock_, batch_.input(), MetaFlags::bits("K"));
  if (TD_UNLIKELY(flags.count > MetaFlags::count_max)) return answer(line::flags_are_too_long);
  if (TD_UNLIKELY(flags.failed)) return answer(flags.error);
  if (TD_UNLIKELY(flags.opaque_too_long)) {
    if (flags.has_any(MetaFlags::bits("TNRlhu"))) return answer(line::opaque_too_long);
    // memcached bumps the item before it checks the opaque.
    Query& q = start_line(line::opaque_too_long);
    q.opcode = Opcode::get;
    q.options = option::no_value | option::last_of_line;
    set_key(q, flags.key);
    return commit();
  }
  std::uint16_t options = common_options(flags);
  if (!flags.has('v')) options |= option::no_value;
  if (flags.has('u')) options |= option::no_bump;
  Query& q = start(Opcode::get, ReplyKind::meta_get, 0);
  if (TD_UNLIKELY(flags.has_any(MetaFlags::bits("TNR")))) {
    if (flags.has('T')) options |= option::touch;
    if (flags.has('N')) options |= option::vivify;
    if (flags.has('R')) options |= option::recache;
    if (flags.recache_before_touch) options |= option::recache_first;
    q.expiry_s = flags.expiry_s;
    q.vivify_expiry_s = flags.created_expiry_s;
    q.recache_ttl_s = flags.recache_ttl_s;
  } else if (flags.has('K')) {
    options |= option::caller_compares;
  }
  q.options = options;
  set_key(q, flags.key);
  // Flags that return nothing need not be walked again.
  constexpr std::uint64_t returning = MetaFlags::bits("stcflhOkK");
  q.wire_flags_at = static_cast<std::uint32_t>((flags.has_any(returning) ? flags_begin : line_end_) - p_);
  return commit();
}

LineParser::Step LineParser::meta_set(std::string_view key, const char* rest) {
  Tokens tokens(rest, line_end_);
  std::string_view length;
  if (!tokens.next(length)) return answer(line::bad_format);
  const char* const flags_begin = tokens.position();
  MetaFlags flags(key);
  flags.read(flags_begin, line_end_, clock_, batch_.input(), flag_g);
  if (TD_UNLIKELY(flags.count > MetaFlags::count_max - 1)) return answer(line::flags_too_long);
  std::int32_t bytes = 0;
  if (!number::read_i32(length, bytes) || bytes < 0 || bytes > meta_value_bytes_max) return answer(line::bad_format);

  const StoreMode mode = store_mode(flags);
  if (TD_UNLIKELY(flags.opaque_too_long && !flags.failed)) flags.fail(line::opaque_too_long);
  if (TD_UNLIKELY(flags.failed)) {
    // The value is dropped with its line. The reply to a short one follows its arrival.
    const auto left = static_cast<std::uint64_t>(end_ - next_), value_bytes = static_cast<std::uint64_t>(bytes) + 2;
    if (left < value_bytes && value_bytes <= options_.large_value_bytes) {
      parser_.wanted_bytes_ = static_cast<std::uint64_t>(next_ - p_) + value_bytes;
      return Step::need_more;
    }
    start_line(flags.error);
    batch_.commit();
    parser_.swallow_bytes_ = value_bytes;
    p_ = next_;
    drop_swallowed();
    return Step::next;
  }
  std::uint16_t options = common_options(flags);
  if (flags.has('C')) options |= option::compare_cas;
  if (flags.has('I')) options |= option::invalidate;
  Query& q = start(Opcode::store, ReplyKind::meta_set, options);
  if (TD_UNLIKELY(flags.has_any(flag_g))) return_old(q);
  set_key(q, flags.key);
  q.client_flags = flags.client_flags;
  q.expiry_s = flags.expiry_s;
  q.cas = flags.cas;
  q.mode = mode;
  q.wire_flags_at = static_cast<std::uint32_t>(flags_begin - p_);
  return take_value(q, static_cast<std::uint64_t>(bytes));
}

LineParser::Step LineParser::meta_delete(std::string_view key, const char* flags_begin) {
  MetaFlags flags(key);
  flags.read(flags_begin, line_end_, clock_, batch_.input(), flag_g);
  if (TD_UNLIKELY(flags.count > MetaFlags::count_max)) return answer(line::flags_too_long);
  if (TD_UNLIKELY(flags.failed)) return answer(line::invalid_or_duplicate_flag);
  if (TD_UNLIKELY(flags.has_any(flag_g) && flags.has('I'))) return answer(line::invalid_flag);
  if (TD_UNLIKELY(flags.opaque_too_long)) return answer(line::opaque_too_long);
  std::uint16_t options = common_options(flags);
  if (flags.has('C')) options |= option::compare_cas;
  if (flags.has('I')) {
    options |= option::invalidate;
    if (flags.has('T')) options |= option::touch;
  }
  Query& q = start(Opcode::remove, ReplyKind::meta_delete, options);
  if (TD_UNLIKELY(flags.has_any(flag_g))) return_old(q);
  set_key(q, flags.key);
  q.expiry_s = flags.expiry_s;
  q.cas = flags.cas;
  q.wire_flags_at = static_cast<std::uint32_t>(flags_begin - p_);
  return commit();
}

LineParser::Step LineParser::meta_arithmetic(std::string_view key, const char* flags_begin) {
  MetaFlags flags(key);
  flags.read(flags_begin, line_end_, clock_, batch_.input());
  if (TD_UNLIKELY(flags.count > MetaFlags::count_max)) return answer(line::flags_too_long);
  if (TD_UNLIKELY(flags.failed)) return answer(line::invalid_or_duplicate_flag);
  std::uint16_t options = common_options(flags);
  switch (flags.mode) {
    case 0:
    case 'I':
    case '+':
      break;
    case 'D':
    case '-':
      options |= option::decrement;
      break;
    default:
      return answer(line::bad_arithmetic_mode);
  }
  if (flags.has('C')) options |= option::compare_cas;
  if (flags.has('T')) options |= option::touch;
  // memcached changes the number before it checks the opaque.
  Query& q = TD_UNLIKELY(flags.opaque_too_long) ? start_line(line::opaque_too_long)
                                                : start(Opcode::arithmetic, ReplyKind::meta_arithmetic, 0);
  q.opcode = Opcode::arithmetic;
  if (TD_UNLIKELY(flags.opaque_too_long)) options &= static_cast<std::uint16_t>(~option::no_reply);
  if (flags.has('N')) {
    options |= option::vivify;
    constexpr std::size_t digits_max = 20;
    char* const digits = batch_.input().place(digits_max);
    q.value = digits;
    q.value_bytes = static_cast<std::uint32_t>(std::to_chars(digits, digits + digits_max, flags.initial).ptr - digits);
    q.vivify_expiry_s = flags.created_expiry_s;
  }
  q.options = options;
  set_key(q, flags.key);
  q.expiry_s = flags.expiry_s;
  q.cas = flags.cas;
  q.delta = flags.delta;
  if (TD_LIKELY(!flags.opaque_too_long)) q.wire_flags_at = static_cast<std::uint32_t>(flags_begin - p_);
  return commit();
}

// me reads only its first flag, and of it only b.
LineParser::Step LineParser::meta_debug(std::string_view key, const char* flags_begin) {
  Tokens tokens(flags_begin, line_end_);
  std::string_view flag;
  std::uint16_t options = option::meta;
  if (tokens.next(flag) && flag == "b") {
    char* const binary = batch_.input().place(base64_binary_bytes_max(key.size()) + 1);
    const std::size_t bytes = base64_decode(binary, key.data(), key.size());
    if (bytes == 0) return answer(line::bad_format);
    key = {binary, bytes};
    options |= option::binary_key;
  }
  set_key(start(Opcode::debug, ReplyKind::meta_debug, options), key);
  return commit();
}

}  // namespace tandem::codec
