// Framing: a connection's bytes, in any cuts, to lines and values.
#include <climits>
#include <cstring>
#include <utility>

#include "codec/line_parser.hpp"
#include "codec/packet_parser.hpp"
#include "codec/scan.hpp"

namespace tandem {

using codec::LineParser;
using codec::ReplyKind;

ParseStop Parser::parse(const char* begin, const char* end, Batch& batch, std::size_t& consumed) {
  if (TD_UNLIKELY(mode_ != Mode::text)) return parse_other(begin, end, batch, consumed);
  LineParser line_parser(*this, begin, end, batch);
  const ParseStop stop = line_parser.run();
  consumed = static_cast<std::size_t>(line_parser.position() - begin);
  return stop;
}

bool Parser::begins_again(const char* begin, const char* end) noexcept {
  if ((swallow_bytes_ | multiget_bytes_) != 0) return false;
  const auto bytes = static_cast<std::uint64_t>(end - begin);
  if (bytes < wanted_bytes_ || bytes < scanned_bytes_) return false;
  if (scanned_bytes_ != 0 && std::memchr(begin + scanned_bytes_, '\n', bytes - scanned_bytes_) == nullptr) {
    scanned_bytes_ = bytes;
    return false;
  }
  rewind_to_command();
  return true;
}

// A connection that has sent nothing yet, or does not (yet) speak text.
ParseStop Parser::parse_other(const char* begin, const char* end, Batch& batch, std::size_t& consumed) {
  consumed = 0;
  if (TD_UNLIKELY(mode_ == Mode::undecided)) {
    if (begin == end) return ParseStop::need_more;
    choose_mode(*begin);
  }
  switch (mode_) {
    case Mode::undecided:
    case Mode::refused:
      return ParseStop::close;
    case Mode::text:
      return parse(begin, end, batch, consumed);
    case Mode::authenticate: {
      const ParseStop stop = authenticate(begin, end, batch, consumed);
      if (mode_ != Mode::text) return stop;
      std::size_t more = 0;
      const ParseStop then = parse(begin + consumed, end, batch, more);
      consumed += more;
      return then;
    }
    case Mode::binary:
      break;
  }
  codec::PacketParser packets(*this, begin, end, batch);
  const ParseStop stop = packets.run();
  consumed = static_cast<std::size_t>(packets.position() - begin);
  return stop;
}

void Parser::choose_mode(char first) noexcept {
  const bool text = options_->takes_text(), binary = options_->takes_binary();
  const bool looks_binary = static_cast<std::uint8_t>(first) == codec::binary::request_magic;
  if (binary && (looks_binary || !text)) {
    mode_ = Mode::binary;
  } else if (text) {
    mode_ = options_->auth_file != nullptr ? Mode::authenticate : Mode::text;
  } else {
    mode_ = Mode::refused;
  }
}

const LargeValue& Parser::large() const noexcept {
  TD_ASSERT(large_ != nullptr);
  return large_->of[large_->now].value;
}

void Parser::begin_large(const Query& query, std::uint64_t value_bytes, std::uint8_t line_end_bytes) {
  if (large_ == nullptr) large_ = std::make_unique<Larges>();
  large_->now ^= 1;
  Large& large = large_->of[large_->now];
  large.copies = std::make_unique_for_overwrite<char[]>(std::size_t{query.key_bytes} + query.wire_bytes);
  char* const key = large.copies.get();
  char* const wire = key + query.key_bytes;
  std::memcpy(key, query.key, query.key_bytes);
  std::memcpy(wire, query.wire, query.wire_bytes);
  large.query = query;
  large.query.key = key;
  large.query.wire = wire;
  large.query.value = nullptr;
  large.query.value_bytes = static_cast<std::uint32_t>(value_bytes);
  large.value = {{key, query.key_bytes},        value_bytes,   query.client_flags, query.expiry_s,
                 query.has(option::binary_key), line_end_bytes};
}

void Parser::finish_large(Batch& batch, Location l, bool ok) {
  TD_ASSERT(large_ != nullptr && !batch.full());
  const Large& large = large_->of[large_->now];
  Query& q = batch.next();
  q = large.query;
  if (ok) {
    q.options |= option::prefilled;
    batch.filled()[batch.size()] = l;
    batch.commit();
    return;
  }
  const bool mute = !q.has(option::meta) && q.has(option::no_reply);
  q.opcode = Opcode::nothing;
  q.reply = static_cast<std::uint8_t>(ReplyKind::line);
  q.options = mute ? option::store_bad_block | option::no_reply : option::store_bad_block;
  q.key_bytes = 0;
  q.value = codec::line::bad_chunk.data();
  q.value_bytes = static_cast<std::uint32_t>(codec::line::bad_chunk.size());
  batch.commit();
}

void Parser::refuse_large(Batch& batch) {
  TD_ASSERT(large_ != nullptr && !batch.full());
  const Large& large = large_->of[large_->now];
  swallow_bytes_ = large.value.value_bytes + large.value.line_end_bytes;
  const bool mute = !large.query.has(option::meta) && large.query.has(option::no_reply);
  const bool removes = large.query.removes_if_refused();
  Query& q = batch.next();
  q = large.query;
  if (codec::is_binary(large.query)) {
    codec::PacketParser::refuse(q, option::store_no_memory);
    return batch.commit();
  }
  q.opcode = removes ? Opcode::remove : Opcode::nothing;
  if (!removes) q.key_bytes = 0;
  q.reply = static_cast<std::uint8_t>(ReplyKind::line);
  q.options = mute ? option::store_no_memory | option::no_reply : option::store_no_memory;
  q.value = codec::line::no_memory_store.data();
  q.value_bytes = static_cast<std::uint32_t>(codec::line::no_memory_store.size());
  batch.commit();
}

const char* Parser::rewind(const Query& query) noexcept {
  rewind_to_command();
  if (TD_UNLIKELY(codec::reply_of(query) == codec::ReplyKind::authenticate)) mode_ = Mode::authenticate;
  if (TD_UNLIKELY(mode_ == Mode::binary)) session_ = query.session;
  if (query.continues_line == 0) return query.wire;
  const char* const line_end = query.wire + query.wire_bytes;
  multiget_bytes_ = static_cast<std::uint64_t>(line_end - query.key);
  // A NUL may have cut the line short.
  const char* newline = line_end;
  while (*newline != '\n') ++newline;
  multiget_tail_bytes_ = static_cast<std::uint32_t>(newline + 1 - line_end);
  multiget_expiry_s_ = query.expiry_s;
  multiget_options_ = query.options & option::touch;
  multiget_reply_ = query.reply;
  return query.key;
}

namespace codec {

// Continues where the last call ended. False: the first line is known to be too long, or to have no end yet.
bool LineParser::resume(Step& step) {
  if (TD_UNLIKELY(parser_.wanted_bytes_ != 0)) {
    if (static_cast<std::uint64_t>(end_ - p_) < parser_.wanted_bytes_) {
      step = Step::need_more;
      return false;
    }
    parser_.wanted_bytes_ = 0;
  }
  if (TD_UNLIKELY(parser_.swallow_bytes_ != 0)) drop_swallowed();
  if (TD_UNLIKELY(parser_.multiget_bytes_ != 0)) step = batch_.full() ? Step::batch_full : multiget(true);
  scanned_bytes_ = std::exchange(parser_.scanned_bytes_, 0);
  return scanned_bytes_ == 0;
}

void LineParser::drop_swallowed() noexcept { p_ += parser_.drop(static_cast<std::uint64_t>(end_ - p_)); }

// Any line.
LineParser::Step LineParser::line() {
  const std::uint64_t left = static_cast<std::uint64_t>(end_ - p_);
  const void* const found =
      left == scanned_bytes_ ? nullptr : std::memchr(p_ + scanned_bytes_, '\n', left - scanned_bytes_);
  if (found == nullptr) return unfinished_line();
  const char* const newline = static_cast<const char*>(found);
  next_ = newline + 1;
  line_end_ = newline;
  // A line of CR LF only is the command "\r", which is unknown like the empty one.
  if (newline - p_ > 1 && newline[-1] == '\r') --line_end_;
  const auto line_bytes = static_cast<std::size_t>(line_end_ - p_);
  if (TD_UNLIKELY(line_bytes > options_.multiget_line_bytes_max)) return Step::close;
  // memcached's lines are C strings.
  if (const void* const nul = std::memchr(p_, '\0', line_bytes); nul != nullptr)
    line_end_ = static_cast<const char*>(nul);
  return dispatch();
}

LineParser::Step LineParser::unfinished_line() {
  const auto bytes = static_cast<std::uint64_t>(end_ - p_);
  if (bytes > options_.line_bytes_max) {
    constexpr std::ptrdiff_t leading_spaces_max = 100;
    const char* word = p_;
    while (word != end_ && *word == ' ') ++word;
    const bool is_get = end_ - word >= 5 && (starts_with(word, "get ") || starts_with(word, "gets "));
    if (word - p_ > leading_spaces_max || !is_get || bytes > options_.multiget_line_bytes_max) return Step::close;
  }
  parser_.scanned_bytes_ = bytes;
  return Step::need_more;
}

LineParser::Step LineParser::dispatch() {
  Tokens tokens(p_, line_end_);
  std::string_view command;
  if (!tokens.next(command) || command.size() < 2) return answer(line::error);
  if (command.size() == 2 && command[0] == 'm') return meta(command);
  return text(command);
}

// Makes queries for the keys from p_ on, in a line that was checked. `continues`: an earlier call has taken its first
// keys.
LineParser::Step LineParser::multiget(bool continues) {
  const char* const wire = continues ? p_ : line_begin_;
  const char* const line_end = p_ + parser_.multiget_bytes_;
  Tokens keys(p_, line_end);
  std::string_view key;
  while (!batch_.full()) {
    keys.next_key(key);
    Query& q = batch_.next();
    q.wire = wire;
    q.wire_bytes = static_cast<std::uint32_t>(line_end - wire);
    q.continues_line = continues;
    continues = true;
    const bool more = keys.more();
    if (TD_UNLIKELY(key.size() > key_bytes_max)) {
      q.opcode = Opcode::nothing;
      q.options = 0;
      q.key = key.data();  // where rewind() begins
      q.key_bytes = 0;
      q.reply = static_cast<std::uint8_t>(ReplyKind::line);
      q.value = line::bad_format.data();
      q.value_bytes = static_cast<std::uint32_t>(line::bad_format.size());
    } else {
      q.opcode = Opcode::get;
      set_key(q, key);
      q.expiry_s = parser_.multiget_expiry_s_;
      q.reply = parser_.multiget_reply_;
      q.value = q.key;  // nothing for ReplyKind::line: an error ends the line
      q.value_bytes = 0;
      q.options = static_cast<std::uint16_t>(parser_.multiget_options_ | (more ? 0 : option::last_of_line));
    }
    batch_.commit();
    if (!more) {
      p_ = line_end + parser_.multiget_tail_bytes_;
      parser_.multiget_bytes_ = 0;
      return Step::next;
    }
  }
  p_ = keys.position();
  parser_.multiget_bytes_ = static_cast<std::uint64_t>(line_end - p_);
  return Step::batch_full;
}

LineParser::Step LineParser::take_value(Query& query, std::uint64_t bytes) {
  if (Item::total_bytes(query.client_flags, query.key_bytes, bytes) > options_.item_bytes_max) {
    return refuse_too_large(query, bytes);
  }
  const auto left = static_cast<std::uint64_t>(end_ - next_);
  if (left < bytes + 2) {
    if (bytes > options_.large_value_bytes) return begin_large(query, bytes);
    parser_.wanted_bytes_ = static_cast<std::uint64_t>(next_ - p_) + bytes + 2;
    return Step::need_more;
  }
  const char* const value = std::exchange(next_, next_ + bytes + 2);
  if (load<std::uint16_t>(value + bytes) != load<std::uint16_t>("\r\n")) {
    // start_line() writes to `query`.
    const bool mute = !query.has(option::meta) && query.has(option::no_reply);
    Query& q = start_line(line::bad_chunk);
    q.options = mute ? option::store_bad_block | option::no_reply : option::store_bad_block;
    return commit();
  }
  query.value = value;
  query.value_bytes = static_cast<std::uint32_t>(bytes);
  return commit();
}

LineParser::Step LineParser::refuse_too_large(const Query& query, std::uint64_t bytes) {
  const bool mute = !query.has(option::meta) && query.has(option::no_reply);
  const bool removes = query.removes_if_refused();
  const std::string_view key = query.key_view();
  Query& q = start_line(line::too_large);
  if (removes) {
    q.opcode = Opcode::remove;
    set_key(q, key);
  }
  q.options = option::store_too_large;
  if (mute) q.options |= option::no_reply;
  batch_.commit();
  parser_.swallow_bytes_ = bytes + 2;
  p_ = next_;
  drop_swallowed();
  return Step::next;
}

LineParser::Step LineParser::begin_large(const Query& query, std::uint64_t bytes) {
  parser_.begin_large(query, bytes, 2);
  p_ = next_;
  return Step::large_value;
}

}  // namespace codec
}  // namespace tandem
