#include "codec/meta_flags.hpp"

#include "codec/base64.hpp"
#include "codec/reply.hpp"
#include "codec/tokens.hpp"

namespace tandem::codec {
namespace {

constexpr std::uint64_t known = MetaFlags::bits("bNTRlOPLkstcfvhuqFCMJDI");
constexpr std::uint64_t without_argument = MetaFlags::bits("lPLkstcfvhuqI");

}  // namespace

void MetaFlags::read(const char* p, const char* end, const Clock& clock, InputArena& input, std::uint64_t ours) {
  error = line::bad_format;  // for failures without an error line of their own
  const std::uint64_t allowed = known | ours, alone = without_argument | ours;
  while (p != end) {
    if (*p == ' ') {
      ++p;
      continue;
    }
    const char* const flag = p++;
    while (TD_UNLIKELY(p != end && *p != ' ')) ++p;
    ++count;
    const char c = *flag;
    const auto code = static_cast<unsigned char>(c);
    if (TD_UNLIKELY(code - 64u >= 63 || (allowed & ~seen & bit(c)) == 0)) {
      // Codes from 127 on are outside memcached's table of seen flags.
      const bool is_seen = code >= 127 || (code >= 64 && (seen & bit(c)) != 0);
      fail(is_seen ? line::duplicate_flag : line::invalid_flag);
      Tokens tokens(p, end);
      for (std::string_view more; tokens.next(more);) ++count;
      return;
    }
    seen |= bit(c);
    if (TD_LIKELY((alone & bit(c)) != 0)) continue;
    const std::string_view word(flag, static_cast<std::size_t>(p - flag));
    if (c == 'O') {
      opaque_too_long = word.size() > opaque_bytes_max;
    } else {
      read_one(word, clock, input);
    }
  }
}

void MetaFlags::read_one(std::string_view flag, const Clock& clock, InputArena& input) {
  const std::string_view argument = flag.substr(1);
  const auto read_exptime = [&](std::uint32_t& at_s) {
    std::int32_t exptime = 0;
    if (!number::read_i32(argument, exptime)) return fail(line::bad_token);
    at_s = clock.expiry_s(exptime);
  };
  switch (flag[0]) {
    case 'b': {
      char* const binary = input.place(base64_binary_bytes_max(key.size()) + 1);
      const std::size_t bytes = base64_decode(binary, key.data(), key.size());
      if (bytes == 0) return fail(line::bad_key);
      key = {binary, bytes};
      return;
    }
    case 'N':
      return read_exptime(created_expiry_s);
    case 'T':
      read_exptime(expiry_s);
      created_expiry_s = expiry_s;
      recache_before_touch = has('R');
      return;
    case 'R': {
      std::uint32_t at_s = Clock::never;
      read_exptime(at_s);
      const std::uint32_t now_s = clock.now_s();
      recache_ttl_s = at_s > now_s ? at_s - now_s : 0;
      return;
    }
    case 'F':
      if (!number::read_u32(argument, client_flags)) failed = true;
      return;
    case 'C':
      if (!number::read_u64(argument, cas)) fail(line::bad_token);
      return;
    case 'M':
      if (flag.size() != 2) return fail(line::bad_mode_length);
      mode = flag[1];
      return;
    case 'J':
      if (!number::read_u64(argument, initial)) fail(line::bad_initial);
      return;
    case 'D':
      if (!number::read_u64(argument, delta)) fail(line::bad_meta_delta);
      return;
    default:
      return;
  }
}

}  // namespace tandem::codec
