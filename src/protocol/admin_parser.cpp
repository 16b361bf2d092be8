// The commands of administration. Most are looked at when they are executed (admin.cpp).
#include "protocol/line_parser.hpp"

namespace tandem::protocol {

LineParser::Step LineParser::administer() {
  set_no_key(start(Opcode::control, Reply::administer, 0));
  return commit();
}

LineParser::Step LineParser::lru_crawler(const Words& words) {
  if (words.count() == 2) {
    if (words[1] == "enable") return answer(line::no_crawler_start);
    return answer(words[1] == "disable" ? line::ok : line::error);
  }
  if (words.count() != 3) return answer(line::error);
  if (words[1] == "metadump" || words[1] == "mgdump") return administer();
  if (words[1] == "crawl") return answer(line::no_crawler);
  const bool sleep = words[1] == "sleep";
  if (!sleep && words[1] != "tocrawl") return answer(line::error);
  std::uint32_t value = 0;
  if (!number::read_u32(words[2], value)) return answer(line::bad_format);
  constexpr std::uint32_t sleep_us_max = 1000000;
  return answer(sleep && value > sleep_us_max ? line::crawler_sleep_too_long : line::ok);
}

}  // namespace tandem::protocol
