#include "frames/left_keys.hpp"

#include "codec/scan.hpp"

namespace tandem {

bool LeftKeys::may_have_any(const char* begin, const char* end) const noexcept {
  using codec::find_delimiter;
  using codec::starts_with;
  constexpr std::ptrdiff_t line_end_bytes = 2;
  for (const char* p = begin; p != end;) {
    const bool is_meta = *p == 'm';
    p += is_meta ? 3 : p[3] == ' ' ? 4 : 5;  // "mg ", "get " or "gets "
    for (;;) {
      const char* const key_end = find_delimiter(p, end, begin);
      if (TD_UNLIKELY(may_have({p, static_cast<std::size_t>(key_end - p)}))) return true;
      p = key_end;
      if (*p != ' ') break;
      if (is_meta) {
        p = codec::find_control(p, end, begin);
        break;
      }
      ++p;
    }
    p += line_end_bytes;
  }
  return false;
}

}  // namespace tandem
