// The binary protocol's commands. Order of the checks and choice of the error are memcached's; docs/protocol.md lists
// where Tandem departs from it.
#include "codec/packet_parser.hpp"

#include <algorithm>

#include "codec/digits.hpp"
#include "codec/flush_second.hpp"

namespace tandem::codec {

using namespace binary;  // NOLINT(google-build-using-namespace): this file is about nothing else

namespace {
// memcached takes mechanisms up to this length, and a PLAIN message holds two names and a password.
constexpr std::size_t mechanism_bytes_max = 32;
constexpr std::size_t sasl_message_bytes_max = 3 * Credentials::line_bytes_max;

ConfigAction config_action(std::uint8_t opcode) noexcept {
  if (opcode < opcode::config_set) return ConfigAction::get;
  if (opcode < opcode::config_delete) return ConfigAction::set;
  return opcode < opcode::config_list ? ConfigAction::remove : ConfigAction::list;
}

bool is_plain(std::string_view mechanism) noexcept {
  constexpr std::string_view plain = text::mechanisms;
  return std::ranges::equal(mechanism, plain, {}, [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : int{c}; });
}
}  // namespace

ParseStop PacketParser::run() {
  if (TD_UNLIKELY(parser_.wanted_bytes_ != 0)) {
    if (static_cast<std::uint64_t>(end_ - p_) < parser_.wanted_bytes_) return ParseStop::need_more;
    parser_.wanted_bytes_ = 0;
  }
  Step step = parser_.swallow_bytes_ == 0 ? Step::next : drop_swallowed();
  while (step == Step::next) {
    if (TD_UNLIKELY(batch_.full()) && p_ != end_) return ParseStop::batch_full;
    step = packet();
  }
  switch (step) {
    case Step::large_value:
      return ParseStop::large_value;
    case Step::close:
      return ParseStop::close;
    case Step::quit:
      return ParseStop::quit;
    default:
      return ParseStop::need_more;
  }
}

TD_INLINE PacketParser::Step PacketParser::packet() {
  const auto left = static_cast<std::size_t>(end_ - p_);
  if (TD_UNLIKELY(left < header_bytes)) {
    // A connection cannot change its protocol.
    return left != 0 && read<std::uint8_t>(p_) != request_magic ? Step::close : Step::need_more;
  }
  if (TD_UNLIKELY(read<std::uint8_t>(p_) != request_magic)) return Step::close;
  const Request r = Request::read(p_);
  const Rule& rule = rule_of(r.opcode);
  if (TD_UNLIKELY(r.before_value_bytes() > r.body_bytes))
    return answer_and_close(text::unknown_command, binary::Status::unknown_command);
  if (TD_UNLIKELY(options_.sasl != nullptr) && (parser_.session_ & session::authenticated) == 0 && !rule.open)
    return answer_and_close(text::auth_error, binary::Status::auth_error);
  if (TD_UNLIKELY(r.key_bytes > key_bytes_max)) return answer_and_close(text::invalid, binary::Status::invalid);
  if (TD_UNLIKELY(rule.form <= Form::config && !has(rule.form))) {
    answer(text::unknown_command, binary::Status::unknown_command);
    return skip(r);
  }
  if (TD_UNLIKELY(!r.fits(rule))) return answer_and_close(text::invalid, binary::Status::invalid);
  if (TD_UNLIKELY(left < header_bytes + r.before_value_bytes())) return Step::need_more;
  switch (rule.form) {
    case Form::get:
      return get(r, rule);
    case Form::touch:
      return touch(r, rule);
    case Form::store:
    case Form::exchange:
      return store(r, rule);
    case Form::remove:
      return remove(r, rule);
    case Form::arithmetic:
      return arithmetic(r, rule);
    case Form::flush:
      return flush(r, rule);
    case Form::quit:
      if (!rule.quiet) answer({}, binary::Status::ok);
      p_ += header_bytes;
      return Step::quit;
    case Form::noop:
      answer({}, binary::Status::ok);
      return skip(r);
    case Form::version:
      answer(options_.version, binary::Status::ok);
      return skip(r);
    case Form::stat:
      set_key(start(Opcode::control, ReplyKind::binary_stats, 0), r);
      return commit(r);
    case Form::range:
      return range(r, rule);
    case Form::config:
      return config(r, rule);
    case Form::sasl_list:
    case Form::sasl_auth:
    case Form::sasl_step:
      return sasl(r, rule.form);
    case Form::unknown:
      break;
  }
  return Step::close;
}

TD_INLINE Query& PacketParser::start(Opcode opcode, ReplyKind reply, std::uint16_t options) noexcept {
  Query& q = batch_.next();
  q.opcode = opcode;
  q.options = options;
  q.wire = p_;
  q.wire_bytes = header_bytes;
  q.reply = static_cast<std::uint8_t>(reply);
  q.continues_line = 0;
  q.session = parser_.session_;
  return q;
}

void PacketParser::answer(std::string_view body, binary::Status status, ReplyKind reply) noexcept {
  Query& q = start(Opcode::nothing, reply, 0);
  q.key = p_;
  q.key_bytes = 0;
  q.value = body.data();
  q.value_bytes = static_cast<std::uint32_t>(body.size());
  q.client_flags = static_cast<std::uint32_t>(status);
  batch_.commit();
}

PacketParser::Step PacketParser::answer_and_close(std::string_view body, binary::Status status) noexcept {
  answer(body, status);
  p_ += header_bytes;
  return Step::close;
}

PacketParser::Step PacketParser::skip(const Request& r) noexcept {
  p_ += header_bytes;
  parser_.swallow_bytes_ = r.body_bytes;
  return drop_swallowed();
}

PacketParser::Step PacketParser::drop_swallowed() noexcept {
  p_ += parser_.drop(static_cast<std::uint64_t>(end_ - p_));
  return parser_.swallow_bytes_ == 0 ? Step::next : Step::need_more;
}

TD_INLINE PacketParser::Step PacketParser::get(const Request& r, const Rule& rule) {
  Query& q = start(Opcode::get, rule.with_key ? ReplyKind::binary_get_key : ReplyKind::binary_get,
                   static_cast<std::uint16_t>(quiet(rule) | option::last_of_line | rule.options));
  set_key(q, r);
  if (TD_UNLIKELY(rule.options == option::touch)) q.expiry_s = expiry_s(read<std::uint32_t>(extras()));
  commit(r);
  run_of_gets();
  return Step::next;
}

// Takes consecutive complete, correct gets behind an accepted one, and makes the same queries as packet().
TD_NOINLINE void PacketParser::run_of_gets() noexcept {
  const char* p = p_;
  const char* const end = end_;
  const std::uint8_t session = parser_.session_;
  Query* q = batch_.queries() + batch_.size();
  Query* const last = batch_.queries() + batch_.capacity();
  for (; end - p >= static_cast<std::ptrdiff_t>(header_bytes) && q != last; ++q) {
    const Request r = Request::read(p);
    if (read<std::uint8_t>(p) != request_magic || r.opcode >= rule_count) break;
    const Rule& rule = rules[r.opcode];
    if (rule.form != Form::get || rule.options != 0 || r.extras_bytes != 0 || r.body_bytes != r.key_bytes) break;
    if (std::uint32_t{r.key_bytes} - 1 >= key_bytes_max) break;
    const char* const key = p + header_bytes;
    if (end - key < r.key_bytes) break;
    q->key = key;
    q->key_bytes = static_cast<std::uint8_t>(r.key_bytes);
    q->opcode = Opcode::get;
    q->options = static_cast<std::uint16_t>(quiet(rule) | option::last_of_line);
    q->wire = p;
    q->wire_bytes = header_bytes;
    q->reply = static_cast<std::uint8_t>(rule.with_key ? ReplyKind::binary_get_key : ReplyKind::binary_get);
    q->continues_line = 0;
    q->session = session;
    p = key + r.key_bytes;
  }
  batch_.resize(static_cast<std::uint32_t>(q - batch_.queries()));
  p_ = p;
}

PacketParser::Step PacketParser::touch(const Request& r, const Rule& rule) {
  Query& q = start(Opcode::touch, ReplyKind::binary_touch, rule.options);
  set_key(q, r);
  q.expiry_s = expiry_s(read<std::uint32_t>(extras()));
  return commit(r);
}

PacketParser::Step PacketParser::store(const Request& r, const Rule& rule) {
  Query& q =
      start(Opcode::store, returns_old(rule) ? ReplyKind::binary_displaced : ReplyKind::binary_store, rule.options);
  set_key(q, r);
  // A CAS id of 0 compares nothing, nor does any id on a server without CAS.
  q.cas = options_.cas ? read<std::uint64_t>(p_ + at::cas) : 0;
  if (q.cas != 0) q.options |= option::compare_cas;
  if (rule.extras_bytes != 0) {
    q.client_flags = read<std::uint32_t>(extras());
    q.expiry_s = expiry_s(read<std::uint32_t>(extras() + flags_bytes));
  } else {
    q.client_flags = 0;
    q.expiry_s = Clock::never;
  }
  // An add with a CAS id is the same compare and swap as a replace with one.
  q.mode = rule.mode == StoreMode::add && q.cas != 0 ? StoreMode::replace : rule.mode;
  if (q.mode == StoreMode::set) q.options |= option::refusal_removes;
  return take_value(q, r);
}

// The store query at batch_.next(), complete except for its value.
PacketParser::Step PacketParser::take_value(Query& q, const Request& r) {
  const std::uint32_t bytes = r.value_bytes();
  if (TD_UNLIKELY(Item::total_bytes(q.client_flags, q.key_bytes, bytes) > options_.item_bytes_max)) {
    refuse(q, option::store_too_large);
    batch_.commit();
    return skip(r);
  }
  if (TD_UNLIKELY(static_cast<std::uint64_t>(end_ - p_) < header_bytes + std::uint64_t{r.body_bytes})) {
    if (bytes <= options_.large_value_bytes) {
      parser_.wanted_bytes_ = header_bytes + std::uint64_t{r.body_bytes};
      return Step::need_more;
    }
    parser_.begin_large(q, bytes, 0);
    p_ += header_bytes + r.before_value_bytes();
    return Step::large_value;
  }
  q.value = q.key + q.key_bytes;
  q.value_bytes = bytes;
  return commit(r);
}

void PacketParser::refuse(Query& q, std::uint16_t why) noexcept {
  const bool removes = q.removes_if_refused(), too_large = why == option::store_too_large;
  const std::string_view body = too_large ? text::too_large : text::no_memory_store;
  q.opcode = removes ? Opcode::remove : Opcode::nothing;
  if (!removes) q.key_bytes = 0;
  q.options = why;
  q.reply = static_cast<std::uint8_t>(ReplyKind::binary_status);
  q.client_flags = static_cast<std::uint32_t>(too_large ? binary::Status::too_large : binary::Status::no_memory);
  q.value = body.data();
  q.value_bytes = static_cast<std::uint32_t>(body.size());
}

PacketParser::Step PacketParser::remove(const Request& r, const Rule& rule) {
  Query& q =
      start(Opcode::remove, returns_old(rule) ? ReplyKind::binary_displaced : ReplyKind::binary_remove, rule.options);
  set_key(q, r);
  q.cas = read<std::uint64_t>(p_ + at::cas);
  if (q.cas != 0) q.options |= option::compare_cas;
  return commit(r);
}

PacketParser::Step PacketParser::arithmetic(const Request& r, const Rule& rule) {
  constexpr std::uint32_t do_not_create = 0xffffffff;
  Query& q = start(Opcode::arithmetic, ReplyKind::binary_arithmetic, rule.options);
  set_key(q, r);
  q.cas = read<std::uint64_t>(p_ + at::cas);
  if (q.cas != 0) q.options |= option::compare_cas;
  q.delta = read<std::uint64_t>(extras());
  const auto exptime = read<std::uint32_t>(extras() + 2 * number_bytes);
  if (exptime != do_not_create) {
    q.options |= option::vivify;
    q.vivify_expiry_s = expiry_s(exptime);
    char* const digits = batch_.input().place(digits_max);
    q.value = digits;
    q.value_bytes =
        static_cast<std::uint32_t>(write_digits(digits, read<std::uint64_t>(extras() + number_bytes)) - digits);
  }
  return commit(r);
}

PacketParser::Step PacketParser::flush(const Request& r, const Rule& rule) {
  if (!options_.flush_enabled) {
    answer(text::auth_error, binary::Status::auth_error);
    return skip(r);
  }
  const std::uint32_t exptime = r.extras_bytes == 0 ? 0 : read<std::uint32_t>(extras());
  const std::uint32_t at_s = exptime == 0 ? 0 : clock_.expiry_s(exptime);
  // A time before the server started flushes nothing.
  if (at_s == Clock::already_expired) {
    if (!rule.quiet) answer({}, binary::Status::ok);
    return skip(r);
  }
  Query& q = start(Opcode::control, ReplyKind::binary_flush, rule.options);
  q.key = p_;
  q.key_bytes = 0;
  q.expiry_s = flush_second(at_s);
  return commit(r);
}

// Read when it is executed (codec/range_packets.hpp).
PacketParser::Step PacketParser::range(const Request& r, const Rule& rule) {
  if (range_extras_bytes + read<std::uint16_t>(extras()) != r.extras_bytes)
    return answer_and_close(text::invalid, binary::Status::invalid);
  constexpr std::uint16_t known = range_flag::begin_inclusive | range_flag::end_inclusive;
  if ((read<std::uint16_t>(extras() + 2) & ~known) != 0) {
    answer(text::invalid, binary::Status::invalid);
    return skip(r);
  }
  Query& q = start(Opcode::control, ReplyKind::binary_range, rule.options);
  q.wire_bytes += r.extras_bytes;
  set_key(q, r);
  return commit(r);
}

PacketParser::Step PacketParser::config(const Request& r, const Rule& rule) {
  const ConfigAction action = config_action(r.opcode);
  const bool writes = action == ConfigAction::set || action == ConfigAction::remove;
  if (writes && options_.config != ConfigAccess::write) {
    answer(text::config_read_only, binary::Status::auth_error);
    return skip(r);
  }
  const std::uint32_t bytes = r.value_bytes();
  if (bytes > ConfigStore::value_bytes_max) {
    answer(text::too_large, binary::Status::too_large);
    return skip(r);
  }
  if (static_cast<std::uint64_t>(end_ - p_) < header_bytes + std::uint64_t{r.body_bytes}) {
    parser_.wanted_bytes_ = header_bytes + std::uint64_t{r.body_bytes};
    return Step::need_more;
  }
  Query& q = start(Opcode::control, ReplyKind::binary_config, rule.options);
  set_key(q, r);
  q.client_flags = r.extras_bytes == 0 ? 0 : read<std::uint32_t>(extras());
  q.value = q.key + q.key_bytes;
  q.value_bytes = bytes;
  q.delta = static_cast<std::uint64_t>(action);
  return commit(r);
}

// SASL with the mechanism PLAIN only. As in memcached, every request except a malformed one ends the connection's
// earlier authentication.
PacketParser::Step PacketParser::sasl(const Request& r, Form form) {
  if (options_.sasl == nullptr) {
    answer(text::unknown_command, binary::Status::unknown_command);
    return skip(r);
  }
  std::uint8_t& now = parser_.session_;
  if (form == Form::sasl_list) {
    answer(text::mechanisms, binary::Status::ok);
    now &= static_cast<std::uint8_t>(~session::authenticated);
    return skip(r);
  }
  if (r.key_bytes > mechanism_bytes_max) {
    answer(text::invalid, binary::Status::invalid);
    return skip(r);
  }
  const std::uint32_t bytes = r.value_bytes();
  const bool readable = bytes <= sasl_message_bytes_max;  // a longer message cannot be right and is not kept
  if (readable && static_cast<std::size_t>(end_ - p_) < header_bytes + r.body_bytes) return Step::need_more;
  const std::string_view mechanism(extras(), r.key_bytes), message(extras() + r.key_bytes, readable ? bytes : 0);
  const bool starts = form == Form::sasl_auth;
  const bool goes_on = starts ? is_plain(mechanism) : (now & session::started) != 0;
  if (goes_on && starts && bytes == 0) {
    answer({}, binary::Status::auth_continue, ReplyKind::binary_auth);
    now = session::started;
  } else if (goes_on && readable && options_.sasl->check_plain(message)) {
    answer(text::authenticated, binary::Status::ok, ReplyKind::binary_auth);
    now = session::authenticated;
  } else {
    answer(text::auth_error, binary::Status::auth_error, ReplyKind::binary_auth);
    now = starts ? std::uint8_t{0} : static_cast<std::uint8_t>(now & session::started);
  }
  return skip(r);
}

}  // namespace tandem::codec
