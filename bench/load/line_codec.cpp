#include "bench/load/line_codec.hpp"

#include <algorithm>

namespace tandem::load {
namespace {

constexpr std::string_view other_line = "not the reply to this request";
constexpr std::string_view other_head = "another key, flags or length than what was set";
constexpr std::string_view other_value = "the value is not what was set";
constexpr std::string_view no_line_end = "no line end behind the value";
constexpr std::string_view other_length = "the length is not that of what was set";
constexpr std::string_view other_key = "a value of a key that was not asked for, or not in the order asked for";
constexpr std::size_t head_bytes_max = workload::key_bytes_max + 64;

}  // namespace

// "VALUE k f n\r\n" or "VA n...\r\n".
LineCodec::Announced LineCodec::read_head(ReplyCursor& in) const {
  const std::string_view rest = in.rest();
  const bool is_text = rest.size() > 2 && rest[2] == 'L';
  const std::string_view word = is_text ? "VALUE " : "VA ";
  const std::size_t got = std::min(rest.size(), word.size());
  if (rest.substr(0, got) != word.substr(0, got)) {
    in.fail(other_line);
    return {};
  }
  const std::size_t line = rest.substr(0, head_bytes_max).find('\n');
  if (line == rest.npos) {
    if (rest.size() >= head_bytes_max) {
      in.fail(other_line);
    } else {
      in.status = ReplyStatus::partial;
    }
    return {};
  }
  // The length is the last word of a text line and the second of a meta line.
  const char* const first = rest.data() + word.size();
  const char* const end = rest.data() + line - 1;
  if (end <= first || *end != '\r') {
    in.fail(other_line);
    return {};
  }
  const char* at = is_text ? end : first;
  while (is_text && at > first && at[-1] != ' ') --at;
  std::uint32_t bytes = 0;
  const auto [stop, error] = std::from_chars(at, end, bytes);
  if (error != std::errc{} || (stop != end && (is_text || *stop != ' '))) {
    in.fail(other_line);
    return {};
  }
  return {line + 1, bytes};
}

std::uint32_t LineCodec::length_of(ReplyCursor& in, std::uint64_t key) const {
  if (contents_.has_known_lengths()) return contents_.value_bytes(key);
  const std::uint32_t bytes = read_head(in).value_bytes;
  if (bytes > workload::value_bytes_limit) in.fail(other_length);
  return bytes;
}

void LineCodec::take_value(ReplyCursor& in, std::uint64_t key, bool with_key) const {
  if (!verify_) {
    take_unchecked(in, &key, 1);
    return;
  }
  const std::uint32_t bytes = length_of(in, key);
  if (!in.is_good()) return;
  Head head;
  in.expect(head_of(key, bytes, with_key, head), in.rest().starts_with("VA") ? other_head : other_line);
  take_bytes(in, key, bytes);
}

LineCodec::OtherHead LineCodec::read_other_head(ReplyCursor& in, std::uint64_t key) const {
  const Announced said = read_head(in);
  if (!in.is_good()) return {};
  const std::string_view line = in.rest().substr(0, said.head_bytes - 2);
  const std::size_t mark = line.find(" k");
  if (mark == line.npos) return {};
  const std::string_view named = line.substr(mark + 2);
  char own[workload::key_bytes_max];
  const std::string_view asked(own, static_cast<std::size_t>(contents_.write_key(key, own) - own));
  if (named.empty() || named.size() > workload::key_bytes_max || named.find(' ') != named.npos || named == asked)
    return {};
  return {said.head_bytes, said.value_bytes};
}

void LineCodec::skip_bytes(ReplyCursor& in, std::uint32_t value_bytes) const {
  if (!in.is_good()) return;
  const std::string_view rest = in.rest();
  if (rest.size() < std::size_t{value_bytes} + 2) {
    in.status = ReplyStatus::partial;
    return;
  }
  if (rest[value_bytes] != '\r' || rest[value_bytes + 1] != '\n') return in.fail(no_line_end);
  in.position += std::size_t{value_bytes} + 2;
}

void LineCodec::take_bytes(ReplyCursor& in, std::uint64_t key, std::uint32_t value_bytes) const {
  const std::string_view rest = in.rest();
  skip_bytes(in, value_bytes);
  if (!in.is_good()) return;
  if (!contents_.is_value(key, rest.substr(0, value_bytes))) {
    in.has_wrong_value = true;
    in.what = other_value;
  }
}

// Consecutive values, whichever keys they are for: any of the keys' lengths is accepted.
std::uint32_t LineCodec::take_unchecked(ReplyCursor& in, const std::uint64_t* keys, std::uint32_t key_count) const {
  if (!in.is_good() || !in.starts_with('V')) return 0;
  std::uint32_t least = 0, most = workload::value_bytes_limit;
  if (contents_.has_known_lengths()) {
    std::swap(least, most);
    for (std::uint32_t i = 0; i < key_count; ++i) {
      const std::uint32_t bytes = contents_.value_bytes(keys[i]);
      least = std::min(least, bytes);
      most = std::max(most, bytes);
    }
  }
  std::uint32_t hits = 0;
  for (; hits < key_count && in.starts_with('V'); ++hits) {
    const Announced said = read_head(in);
    if (!in.is_good()) break;
    if (said.value_bytes < least || said.value_bytes > most) {
      in.fail(other_length);
      break;
    }
    const std::string_view value = in.rest().substr(said.head_bytes);
    if (value.size() < std::size_t{said.value_bytes} + 2) {
      in.status = ReplyStatus::partial;
      break;
    }
    if (value[said.value_bytes] != '\r' || value[said.value_bytes + 1] != '\n') {
      in.fail(no_line_end);
      break;
    }
    in.position += said.head_bytes + said.value_bytes + 2;
  }
  return hits;
}

std::uint32_t LineCodec::take_values(ReplyCursor& in, const std::uint64_t* keys, std::uint32_t key_count) const {
  std::uint32_t hits = 0;
  if (!verify_) {
    hits = take_unchecked(in, keys, key_count);
    if (in.is_good() && in.starts_with('V')) in.fail(other_key);
    return hits;
  }
  for (std::uint32_t next = 0; in.starts_with('V'); ++next, ++hits) {
    // In a trace the line is parsed for the length, whichever key it names.
    std::uint32_t bytes = 0;
    if (!contents_.has_known_lengths() && next < key_count) bytes = length_of(in, keys[next]);
    if (!in.is_good()) break;
    const std::string_view rest = in.rest();
    std::size_t head_bytes = 0;
    for (; next < key_count; ++next) {
      if (contents_.has_known_lengths()) bytes = contents_.value_bytes(keys[next]);
      Head head;
      const std::string_view expected = head_of(keys[next], bytes, true, head);
      const std::size_t got = std::min(rest.size(), expected.size());
      if (std::memcmp(rest.data(), expected.data(), got) != 0) continue;
      if (got < expected.size()) in.status = ReplyStatus::partial;
      head_bytes = expected.size();
      break;
    }
    if (next == key_count) in.fail(other_key);
    if (!in.is_good()) break;
    in.position += head_bytes;
    take_bytes(in, keys[next], bytes);
    if (!in.is_good()) break;
  }
  return hits;
}

}  // namespace tandem::load
