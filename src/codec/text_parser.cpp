// The text protocol's commands. Order of the checks and choice of the error line are memcached's.
#include <climits>

#include "codec/flush_second.hpp"
#include "codec/line_parser.hpp"

namespace tandem::codec {
namespace {
constexpr std::int32_t text_value_bytes_max = INT_MAX - 2;
}  // namespace

LineParser::Step LineParser::text(std::string_view name) {
  const CommandRow& command = find_command(name);
  if (command.form == Form::retrieve || command.form == Form::retrieve_touch) {
    return retrieve(command, Tokens(name.data() + name.size(), line_end_));
  }
  const Words words(name, line_end_);
  switch (command.form) {
    case Form::update:
      return update(command, words);
    case Form::remove:
      return remove(words);
    case Form::arithmetic:
      return arithmetic(command, words);
    case Form::touch:
      return touch(words);
    case Form::flush:
      return flush_all(words);
    case Form::verbosity:
      return verbosity(words);
    case Form::version:
      set_no_key(start(Opcode::nothing, ReplyKind::version, 0));
      return commit();
    case Form::quit:
      p_ = next_;
      return Step::quit;
    case Form::stats:
      return control(ReplyKind::stats, false);
    case Form::certificates:
      return control(ReplyKind::refresh_certs, words.last_is("noreply"));
    case Form::administer:
      return control(ReplyKind::administer, false);
    case Form::config:
      return config(words);
    default:
      break;
  }
  // A web client. memcached checks for it only if no command begins with the same letter.
  const bool other = std::string_view("gsacidt").find(name[0]) == std::string_view::npos;
  if (other && words.last().starts_with("HTTP/")) {
    p_ = next_;
    return Step::close;
  }
  return answer(line::error);
}

LineParser::Step LineParser::retrieve(const CommandRow& command, Tokens arguments) {
  ReplyKind reply = command.with_cas ? ReplyKind::gets : ReplyKind::get;
  std::string_view word;
  if (!arguments.more()) return answer(line::error);
  std::uint32_t expiry_s = Clock::never;
  if (command.form == Form::retrieve_touch) {
    arguments.next(word);
    std::int32_t exptime = 0;
    if (!number::read_i32(word, exptime)) return answer(line::bad_exptime);
    expiry_s = clock_.expiry_s(exptime);
    if (!arguments.more()) return answer(line::end);
  }
  // A key that is too long replaces the line's replies by an error. The keys before it are still looked up and touched.
  const char* const first = arguments.position();
  const char* last = line_end_;
  while (arguments.next_key(word)) {
    if (word.size() <= key_bytes_max) continue;
    last = word.data() + word.size();
    reply = ReplyKind::line;
    break;
  }
  line_begin_ = p_;
  p_ = first;
  parser_.multiget_bytes_ = static_cast<std::uint64_t>(last - first);
  parser_.multiget_tail_bytes_ = static_cast<std::uint32_t>(next_ - last);
  parser_.multiget_expiry_s_ = expiry_s;
  parser_.multiget_options_ = command.options;
  parser_.multiget_reply_ = static_cast<std::uint8_t>(reply);
  return multiget(false);
}

LineParser::Step LineParser::update(const CommandRow& command, const Words& words) {
  const bool compare = command.options == option::compare_cas;
  const std::size_t least = compare ? 6 : 5;
  if (words.count() != least && words.count() != least + 1) return answer(line::error);
  const bool no_reply = words.last_is("noreply");
  std::uint32_t client_flags = 0;
  std::int32_t exptime = 0, bytes = 0;
  std::uint64_t cas = 0;
  if (words[1].size() > key_bytes_max || !number::read_u32(words[2], client_flags) ||
      !number::read_i32(words[3], exptime) || !number::read_i32(words[4], bytes) ||
      (compare && !number::read_u64(words[5], cas)) || bytes < 0 || bytes > text_value_bytes_max) {
    return answer(line::bad_format, no_reply);
  }
  Query& q = start(Opcode::store, ReplyKind::store,
                   static_cast<std::uint16_t>((no_reply ? option::no_reply : 0) | command.options));
  set_key(q, words[1]);
  q.client_flags = client_flags;
  q.expiry_s = clock_.expiry_s(exptime);
  q.cas = cas;
  q.mode = command.mode;
  return take_value(q, static_cast<std::uint64_t>(bytes));
}

LineParser::Step LineParser::remove(const Words& words) {
  if (words.count() < 2 || words.count() > 4) return answer(line::error);
  bool no_reply = false;
  if (words.count() > 2) {
    // Early versions of delete took a time; 0 is still accepted.
    const bool zero = words[2] == "0";
    no_reply = words.last_is("noreply");
    const bool valid = words.count() == 3 ? zero || no_reply : zero && no_reply;
    if (!valid) return answer(line::bad_delete, no_reply);
  }
  if (words[1].size() > key_bytes_max) return answer(line::bad_format, no_reply);
  set_key(start(Opcode::remove, ReplyKind::remove, no_reply ? option::no_reply : 0), words[1]);
  return commit();
}

LineParser::Step LineParser::arithmetic(const CommandRow& command, const Words& words) {
  if (words.count() != 3 && words.count() != 4) return answer(line::error);
  const bool no_reply = words.last_is("noreply");
  if (words[1].size() > key_bytes_max) return answer(line::bad_format, no_reply);
  std::uint64_t delta = 0;
  if (!number::read_u64(words[2], delta)) return answer(line::bad_delta, no_reply);
  Query& q = start(Opcode::arithmetic, ReplyKind::arithmetic,
                   static_cast<std::uint16_t>((no_reply ? option::no_reply : 0) | command.options));
  set_key(q, words[1]);
  q.delta = delta;
  return commit();
}

LineParser::Step LineParser::touch(const Words& words) {
  if (words.count() != 3 && words.count() != 4) return answer(line::error);
  const bool no_reply = words.last_is("noreply");
  if (words[1].size() > key_bytes_max) return answer(line::bad_format, no_reply);
  std::int32_t exptime = 0;
  if (!number::read_i32(words[2], exptime)) return answer(line::bad_exptime, no_reply);
  Query& q = start(Opcode::touch, ReplyKind::touch, no_reply ? option::no_reply : 0);
  set_key(q, words[1]);
  q.expiry_s = clock_.expiry_s(exptime);
  return commit();
}

LineParser::Step LineParser::flush_all(const Words& words) {
  if (words.count() > 3) return answer(line::error);
  const bool no_reply = words.last_is("noreply");
  if (!options_.flush_enabled) return answer(line::no_flush, no_reply);
  std::int32_t exptime = 0;
  if (words.count() != (no_reply ? 2 : 1) && !number::read_i32(words[1], exptime)) {
    return answer(line::bad_exptime, no_reply);
  }
  const std::uint32_t at_s = exptime > 0 ? clock_.expiry_s(exptime) : 0;
  // A time before the server started flushes nothing.
  if (at_s == Clock::already_expired) return answer(line::ok, no_reply);
  Query& q = start(Opcode::control, ReplyKind::flush_all, no_reply ? option::no_reply : 0);
  set_no_key(q);
  q.expiry_s = flush_second(at_s);
  return commit();
}

LineParser::Step LineParser::verbosity(const Words& words) {
  if (words.count() != 2 && words.count() != 3) return answer(line::error);
  const bool no_reply = words.last_is("noreply");
  std::uint32_t level = 0;
  if (!number::read_u32(words[1], level)) return answer(line::bad_format, no_reply);
  Query& q = start(Opcode::control, ReplyKind::verbosity, no_reply ? option::no_reply : 0);
  set_no_key(q);
  q.delta = level;
  return commit();
}

// The rest of the line is parsed when the command is executed.
LineParser::Step LineParser::control(ReplyKind reply, bool no_reply) {
  set_no_key(start(Opcode::control, reply, no_reply ? option::no_reply : 0));
  return commit();
}

}  // namespace tandem::codec
