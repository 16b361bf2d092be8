// Text, before the client has authenticated (memcached -Y): a set of any key to the value "user password".
#include <cstring>
#include <utility>

#include "codec/protocol.hpp"
#include "codec/reply.hpp"
#include "codec/tokens.hpp"

namespace tandem {
namespace {

using codec::Attempt;
namespace line = codec::line;

// The limit of memcached's read buffer.
constexpr std::uint32_t credential_bytes_max = 2048;

// Up to a NUL: memcached's lines are C strings.
std::string_view before_nul(const char* begin, const char* end) noexcept {
  const std::string_view text(begin, static_cast<std::size_t>(end - begin));
  return text.substr(0, text.find('\0'));
}

// Reads the value's length from a set's line. False: it is no such line.
bool read_set(std::string_view text, std::uint32_t& value_bytes) noexcept {
  std::string_view command;
  if (!codec::Tokens(text.data(), text.data() + text.size()).next(command) || command != "set") return false;
  const codec::Words words(command, text.data() + text.size());
  return words.count() >= 5 && codec::number::read_u32(words[4], value_bytes);
}

struct Answer {
  std::string_view text;
  Attempt attempt = Attempt::none;
};

Answer check(const Credentials& credentials, const char* value, std::uint32_t value_bytes) {
  if (std::memcmp(value + value_bytes, "\r\n", 2) != 0) return {line::auth_bad_end};
  const std::string_view text = before_nul(value, value + value_bytes);
  codec::Tokens tokens(text.data(), text.data() + text.size());
  std::string_view user, password;
  if (!tokens.next(user) || !tokens.next(password)) return {line::auth_bad_token};
  if (credentials.check(user, password)) return {line::stored, Attempt::passed};
  return {line::auth_failure, Attempt::failed};
}

}  // namespace

ParseStop Parser::authenticate(const char* begin, const char* end, Batch& batch, std::size_t& consumed) {
  const char* p = begin;
  ParseStop stop = ParseStop::need_more;
  while (p != end && mode_ == Mode::authenticate) {
    if (batch.full()) {
      stop = ParseStop::batch_full;
      break;
    }
    const auto left = static_cast<std::uint64_t>(end - p);
    if (left < 2) break;  // as in memcached: no line is that short
    const std::uint64_t scanned = std::exchange(scanned_bytes_, 0);
    const void* const found = left == scanned ? nullptr : std::memchr(p + scanned, '\n', left - scanned);
    if (found == nullptr) {
      if (left > options_->line_bytes_max) {
        stop = ParseStop::close;
      } else {
        scanned_bytes_ = left;
      }
      break;
    }
    const char* const newline = static_cast<const char*>(found);
    const char* next = newline + 1;
    const std::string_view text = before_nul(p, newline);
    Answer answer{line::unauthenticated};
    std::uint32_t value_bytes = 0;
    if (read_set(text, value_bytes)) {
      if (value_bytes > credential_bytes_max) {
        stop = ParseStop::close;
      } else if (static_cast<std::uint64_t>(end - next) < value_bytes + std::uint64_t{2}) {
        break;
      } else {
        answer = check(*options_->auth_file, next, value_bytes);
        next += value_bytes + 2;
      }
    }
    Query& q = batch.next();
    q.opcode = Opcode::nothing;
    q.options = 0;
    q.key = q.wire = p;
    q.key_bytes = 0;
    q.wire_bytes = static_cast<std::uint32_t>(text.size());
    q.reply = static_cast<std::uint8_t>(codec::ReplyKind::authenticate);
    q.continues_line = 0;
    q.value = answer.text.data();
    q.value_bytes = static_cast<std::uint32_t>(answer.text.size());
    q.delta = static_cast<std::uint64_t>(answer.attempt);
    batch.commit();
    p = next;
    if (answer.attempt == Attempt::passed) mode_ = Mode::text;
    if (stop == ParseStop::close) break;
  }
  consumed = static_cast<std::size_t>(p - begin);
  return stop;
}

}  // namespace tandem
