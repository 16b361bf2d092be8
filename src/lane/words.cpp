// Words of requests that the lane does not take in groups.
#include "codec/digits.hpp"
#include "codec/scan.hpp"
#include "codec/tokens.hpp"
#include "lane/run.hpp"

namespace tandem::lane {

const char* read_set_words(const State& state, const char* p, const char* end, SetPart& set,
                           std::uint8_t& kind) noexcept {
  using codec::number::read_plain;
  std::uint32_t exptime = 0;
  if (*p != ' ') return nullptr;
  for (std::uint32_t* to : {&set.client_flags, &exptime}) {
    p = read_plain(p + 1, end, *to);
    if (p == nullptr || *p != ' ') return nullptr;
  }
  p = read_plain(p + 1, end, set.value_bytes);
  if (p == nullptr) return nullptr;
  if (*p == ' ') {
    if (end - p < 10 || !codec::starts_with(p, " noreply\r\n")) return nullptr;
    kind |= kind::no_reply;
    p += 8;
  }
  if (end - p < 2 || codec::load<std::uint16_t>(p) != codec::load<std::uint16_t>("\r\n")) return nullptr;
  set.expiry_s = exptime == 0 ? Clock::never : state.context.shared.clock.expiry_s(exptime);
  return p;
}

const char* read_meta_store_words(const State& state, const char* p, const char* end, SetPart& set) noexcept {
  using codec::number::read_plain;
  p = read_plain(p + 1, end, set.value_bytes);
  if (p == nullptr) return nullptr;
  if (*p == ' ') {
    std::uint32_t exptime = 0;
    if (end - p < 5 || p[1] != 'T') return nullptr;
    p = read_plain(p + 2, end, exptime);
    if (p == nullptr) return nullptr;
    set.expiry_s = state.context.shared.clock.expiry_s(exptime);
  }
  if (end - p < 2 || codec::load<std::uint16_t>(p) != codec::load<std::uint16_t>("\r\n")) return nullptr;
  return p;
}

bool are_plain_keys(const char* key, const char* end, const char* begin) noexcept {
  for (;;) {
    if (end - key < 3) return false;
    const char* const key_end = codec::find_delimiter(key, end, begin);
    if (static_cast<std::size_t>(key_end - key) - 1 >= key_bytes_max || end - key_end < 2) return false;
    if (*key_end == '\r') return key_end[1] == '\n';
    if (*key_end != ' ') return false;
    key = key_end + 1;
  }
}

}  // namespace tandem::lane
