// Commands that tune memcached's own machinery. Tandem has none of it, checks what they say and answers as a memcached
// that runs without it.
#include <algorithm>
#include <charconv>
#include <iterator>

#include "protocol/line_parser.hpp"

namespace tandem::protocol {

LineParser::Step LineParser::slabs(const Words& words) {
  if (words.count() == 4 && words[1] == "reassign") return answer(line::no_reassign);
  if (words.count() < 3 || words[1] != "automove") return answer(line::error);
  const bool no_reply = words.last_is("noreply");
  if (words[2] == "ratio") {
    double ratio = 0;
    const std::string_view text = words[3];
    const bool valid = std::from_chars(text.data(), text.data() + text.size(), ratio).ec == std::errc{};
    return answer(valid ? line::ok : line::error, no_reply);
  }
  std::uint32_t level = 0;
  if (!number::read_u32(words[2], level)) return answer(line::bad_format, no_reply);
  return answer(level <= 2 ? line::ok : line::error, no_reply);
}

LineParser::Step LineParser::lru_crawler(const Words& words) {
  if (words.count() == 2) {
    if (words[1] == "enable") return answer(line::no_crawler_start);
    return answer(words[1] == "disable" ? line::ok : line::error);
  }
  if (words.count() != 3) return answer(line::error);
  if (words[1] == "crawl" || words[1] == "metadump") return answer(line::no_crawler);
  const bool sleep = words[1] == "sleep";
  if (!sleep && words[1] != "tocrawl") return answer(line::error);
  std::uint32_t value = 0;
  if (!number::read_u32(words[2], value)) return answer(line::bad_format);
  constexpr std::uint32_t sleep_us_max = 1000000;
  return answer(sleep && value > sleep_us_max ? line::crawler_sleep_too_long : line::ok);
}

LineParser::Step LineParser::watch(const Words& words) {
  constexpr std::string_view streams[] = {"rawcmds",    "evictions", "fetchers",    "mutations", "sysevents",
                                          "connevents", "proxyreqs", "proxyevents", "proxyuser"};
  const bool no_reply = words.last_is("noreply");
  for (std::size_t i = 1; i < words.count(); ++i) {
    if (std::ranges::find(streams, words[i]) == std::end(streams)) return answer(line::error, no_reply);
  }
  return answer(line::no_watch, no_reply);
}

LineParser::Step LineParser::memory_limit(const Words& words) {
  if (words.count() != 2 && words.count() != 3) return answer(line::error);
  const bool no_reply = words.last_is("noreply");
  std::uint32_t megabytes = 0;
  if (!number::read_u32(words[1], megabytes)) return answer(line::error, no_reply);
  if (megabytes < 8) return answer(line::memory_limit_too_small, no_reply);
  return answer(megabytes > 1000000000 ? line::memory_limit_in_bytes : line::memory_limit_fixed, no_reply);
}

}  // namespace tandem::protocol
