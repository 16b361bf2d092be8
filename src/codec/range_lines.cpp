#include "codec/range_lines.hpp"

#include <algorithm>
#include <cstring>

#include "codec/digits.hpp"
#include "codec/reply.hpp"
#include "codec/reply_writer.hpp"
#include "codec/tokens.hpp"

namespace tandem::codec {
namespace {

constexpr std::string_view bad_limit = "CLIENT_ERROR the limit of a range is a number from 1\r\n";
constexpr std::uint64_t range_flags = MetaFlags::bits("EPLArabO"),
                        read_flags = range_flags | MetaFlags::bits("vftscnp"),
                        flags_with_text = MetaFlags::bits("ELAO");
// Of the lines around packed items, and of the last one.
constexpr std::size_t end_bytes_max = 4 + 2 * digits_max + 8 + base64_bytes(key_bytes_max) + 2 + opaque_bytes_max + 8;
static_assert(line::no_memory.size() <= RangeReply::failure_bytes_max);

// A key that a line may have as it is.
bool is_printable(std::string_view key) noexcept {
  return std::ranges::all_of(key, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > ' ' && byte != 0x7f;
  });
}

template <class T>
char* put(char* to, T value) noexcept {
  std::memcpy(to, &value, sizeof value);
  return to + sizeof value;
}

}  // namespace

RangeLines::RangeLines(const Query& query, const ReplyContext& context) : RangeReply(context) {
  limit_ = 100;
  read(query);
}

void RangeLines::read(const Query& query) {
  Tokens tokens(query.wire, query.wire + query.wire_bytes);
  std::string_view command, key, flag;
  tokens.next(command);
  removes_ = command == "mx";
  if (removes_) limit_ = UINT32_MAX;
  tokens.next_key(key);
  std::string_view flags[MetaFlags::count_max];
  std::size_t count = 0;
  for (; tokens.next_key(flag); ++count) {
    if (count == std::size(flags)) return fail(line::flags_are_too_long);
    flags[count] = flag;
    if (flag[0] == 'b') seen_ |= MetaFlags::bit('b');  // it concerns the keys before it, too
  }
  if (!read_key(key, low_)) return;
  bool has_binary = false;
  for (std::size_t i = 0; i < count && error_.empty(); ++i) {
    if (flags[i][0] == 'b' && !has_binary) {
      has_binary = true;
      if (flags[i].size() != 1) fail(line::invalid_flag);
      continue;
    }
    read_flag(flags[i]);
  }
  if (error_.empty()) check_shown();
  if (error_.empty()) set_range(low_.view());
}

// The number alone shows nothing of an item, and a packed item has its own fields.
void RangeLines::check_shown() {
  if (has('n') && (seen_ & read_flags & ~range_flags & ~MetaFlags::bit('n')) != 0) fail(line::invalid_flag);
  if (has('p') && shown_count_ != 0) fail(line::invalid_flag);
}

void RangeLines::read_flag(std::string_view flag) {
  const char letter = flag[0];
  const bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
  if (!is_letter || ((removes_ ? range_flags : read_flags) & MetaFlags::bit(letter)) == 0)
    return fail(line::invalid_flag);
  if (has(letter)) return fail(line::duplicate_flag);
  seen_ |= MetaFlags::bit(letter);
  const std::string_view text = flag.substr(1);
  if ((flags_with_text & MetaFlags::bit(letter)) == 0 && !text.empty()) return fail(line::invalid_flag);
  switch (letter) {
    case 'E':
      static_cast<void>(read_key(text, high_));
      break;
    case 'A':
      static_cast<void>(read_key(text, after_));
      break;
    case 'L': {
      std::uint64_t number = 0;
      const bool is_number = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
      if (!is_number || !number::read_u64(text, number) || number == 0) return fail(bad_limit);
      limit_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(number, UINT32_MAX));
      break;
    }
    case 'O':
      if (flag.size() > opaque_bytes_max) return fail(line::opaque_too_long);
      opaque_ = flag;
      break;
    case 'f':
    case 't':
    case 's':
    case 'c':
      shown_[shown_count_++] = letter;
      break;
    default:
      break;
  }
}

bool RangeLines::read_key(std::string_view text, Key& to) {
  // A reply may have any key in base64.
  if (text.empty() || text.size() > (has('b') ? base64_bytes(key_bytes_max) : key_bytes_max)) {
    fail(line::bad_format);
    return false;
  }
  if (!has('b')) {
    std::memcpy(to.bytes, text.data(), text.size());
    to.count = text.size();
    return true;
  }
  to.count = base64_decode(to.bytes, text.data(), text.size());
  if (to.count == 0) fail(line::bad_key);
  if (to.count > key_bytes_max) fail(line::bad_format);
  return error_.empty();
}

void RangeLines::set_range(std::string_view key) {
  if (has('a') && has('P')) return fail(line::invalid_flag);
  range_.reverse = has('r');
  if (!has('a')) range_.begin = key;
  if (has('E')) range_.end = high_.view();
  if (has('P')) {
    Key above;
    std::memcpy(above.bytes, key.data(), key.size());
    above.count = end_of_prefix(above.bytes, key.size());
    if (above.count != 0 && (!has('E') || above.view() < high_.view())) high_ = above;
    range_.end = high_.view();
  }
  if (!has('A')) return;
  const std::string_view after = after_.view();
  if (range_.reverse) {
    if (range_.end.empty() || after < range_.end) range_.end = after;
  } else if (after >= range_.begin) {
    range_.begin = after;
    range_.after_begin = true;
  }
}

bool RangeLines::item(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes) {
  const bool pins = has('v') && !has('p') && value_bytes > copied_value_bytes_max;
  const std::size_t bytes = item.key().size() + (has('v') && !pins ? value_bytes : 0);
  if (count_ != 0 && !has('n') && !has_room(bytes, pins ? value_bytes : 0)) return false;
  ++count_;
  if (has('n')) return true;
  if (removes_) {
    keep_key(item.key());
    return true;
  }
  if (has('p')) {
    write_packed(item, seen, value_bytes);
    return true;
  }
  constexpr std::size_t line_bytes_max =
      3 + digits_max + 2 + base64_bytes(key_bytes_max) + 2 + 4 * (2 + digits_max) + 4;
  char* const begin = out_.reserve(line_bytes_max + bytes);
  char* p = write_line(begin, item, seen, value_bytes);
  if (has('v') && !pins) p = write_line_end(copy_value(p, item.value(), value_bytes));
  out_.commit(static_cast<std::size_t>(p - begin));
  if (TD_UNLIKELY(pins)) {
    append_pinned_value(context_, item, value_bytes);
    out_.append("\r\n");
  }
  return true;
}

char* RangeLines::write_key(char* p, std::string_view key, bool binary) const noexcept {
  p = write_text(p, " k");
  if (!binary && !has('b') && is_printable(key)) {
    std::memcpy(p, key.data(), key.size());
    return p + key.size();
  }
  return write_text(base64_encode(p, key.data(), key.size()), " b");
}

char* RangeLines::write_line(char* p, const Item& item, const ItemVersion& seen,
                             std::uint64_t value_bytes) const noexcept {
  if (has('v')) {
    p = write_digits(write_text(p, "VA "), value_bytes);
  } else {
    p = write_text(p, "HD");
  }
  p = write_key(p, item.key(), item.binary_key());
  for (std::uint32_t i = 0; i < shown_count_; ++i) {
    *p++ = ' ';
    const char flag = *p++ = shown_[i];
    if (flag == 's') p = write_digits(p, value_bytes);
    if (flag == 'c') p = write_digits(p, context_.options.cas ? seen.cas() : 0);
    if (flag == 'f') p = write_digits(p, item.client_flags());
    if (flag != 't') continue;
    const std::uint32_t expiry_s = Item::expiry_of(seen.state);
    p = expiry_s == Clock::never ? write_text(p, "-1") : write_digits(p, expiry_s - context_.clock.now_s());
  }
  return write_line_end(p);
}

// |key bytes, 2|value bytes, 4|client flags, 4|CAS id, 8|key|value|, numbers with the least byte first.
void RangeLines::write_packed(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes) {
  const std::string_view key = item.key();
  if (!has('v')) value_bytes = 0;
  constexpr std::size_t header_bytes = 2 + 4 + 4 + 8;
  char* const begin = kept_.reserve(header_bytes + key.size() + value_bytes);
  char* p = put(begin, static_cast<std::uint16_t>(key.size()));
  p = put(p, static_cast<std::uint32_t>(value_bytes));
  p = put(p, item.client_flags());
  p = put(p, context_.options.cas ? seen.cas() : std::uint64_t{0});
  std::memcpy(p, key.data(), key.size());
  p = copy_value(p + key.size(), item.value(), value_bytes);
  kept_.commit(static_cast<std::size_t>(p - begin));
}

void RangeLines::begin_removal() { out_.reserve(end_bytes_max); }

void RangeLines::finish(const ScanEnd& end, std::uint64_t count) {
  if (end.failed) return fail_for_memory();
  if (!kept_.empty() && !removes_) {
    char* const begin = out_.reserve(end_bytes_max + kept_.size());
    char* p = write_text(write_digits(write_text(begin, "VA "), kept_.size()), " p\r\n");
    std::memcpy(p, kept_.data(), kept_.size());
    p = write_line_end(p + kept_.size());
    out_.commit(static_cast<std::size_t>(p - begin));
  }
  char* const begin = out_.reserve(end_bytes_max);
  char* p = write_digits(write_text(begin, "EN n"), count);
  if (!end.done) p = write_key(write_text(p, " m"), end.last_key(), false);
  if (!opaque_.empty()) {
    *p++ = ' ';
    std::memcpy(p, opaque_.data(), opaque_.size());
    p += opaque_.size();
  }
  out_.commit(static_cast<std::size_t>(write_line_end(p) - begin));
}

void RangeLines::fail_for_memory() { out_.append(line::no_memory); }

}  // namespace tandem::codec
