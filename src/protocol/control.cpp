// Commands that are executed alone: flush_all, verbosity and stats.
#include <algorithm>

#include "protocol/protocol.hpp"
#include "protocol/reply.hpp"
#include "protocol/tokens.hpp"

namespace tandem {
namespace protocol {
namespace {

class StatLines final : public StatSink {
 public:
  explicit StatLines(Output& out) noexcept : out_(out) {}
  void stat(std::string_view name, std::string_view value) override {
    out_.append("STAT ");
    out_.append(name);
    out_.append(" ");
    out_.append(value);
    out_.append("\r\n");
  }

 private:
  Output& out_;
};

// Counters per key prefix are not kept: the dump is empty.
std::string_view stats_detail(const Words& words) noexcept {
  if (words[2] == "on" || words[2] == "off") return line::ok;
  return words[2] == "dump" ? line::end : line::bad_detail;
}

std::string_view stats_cachedump(const Words& words) noexcept {
  return words.count() < 4 ? line::bad_line : line::no_cachedump;
}

void stats(const Query& query, ServerControl& server, Output& out) {
  const char* const end = query.wire + query.wire_bytes;
  std::string_view command;
  Tokens(query.wire, end).next(command);
  const Words words(command, end);
  std::string_view group = words[1];
  if (group == "reset") {
    StatLines none(out);
    server.stats(group, none);
    return out.append(line::reset);
  }
  if (group == "detail") return out.append(stats_detail(words));
  if (group == "cachedump") return out.append(stats_cachedump(words));
  if ((group == "hotkeys" || group == "bigkeys") && words.count() > 2) {
    std::uint32_t count = 0;
    if (words.count() > 3 || !number::read_u32(words[2], count)) return out.append(line::bad_format);
    group = {group.data(), words[2].end()};
  }
  StatLines lines(out);
  // memcached's switches of a histogram that there is none of here, answered without an end as there.
  if (group == "sizes_enable") return lines.stat("sizes_status", "enabled");
  if (group == "sizes_disable") return lines.stat("sizes_status", "disabled");
  if (group == "extstore") return out.append(line::end);
  out.append(server.stats(group, lines) ? line::end : line::error);
}

}  // namespace
}  // namespace protocol

void execute_control(const Query& query, ServerControl& server, Output& out) {
  using protocol::Reply;
  switch (protocol::reply_of(query)) {
    case Reply::flush_all:
      server.flush_all(query.expiry_s);
      break;
    case Reply::verbosity:
      server.set_verbosity(static_cast<unsigned>(query.delta));
      break;
    case Reply::stats:
      return protocol::stats(query, server, out);
    default:
      return;
  }
  if (!query.has(option::no_reply)) out.append(protocol::line::ok);
}

}  // namespace tandem
