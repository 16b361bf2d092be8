// Commands that are executed alone: flush_all, verbosity, stats, refresh_certs, and those of admin.cpp.
#include <algorithm>

#include "codec/admin_command.hpp"
#include "codec/config_lines.hpp"
#include "codec/protocol.hpp"
#include "codec/reply.hpp"
#include "codec/reply_writer.hpp"
#include "codec/tokens.hpp"

namespace tandem {
namespace codec {
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

StreamRequest stats(const Query& query, const ProtocolOptions& options, ServerControl& server, Output& out) {
  const char* const end = query.wire + query.wire_bytes;
  std::string_view command;
  Tokens(query.wire, end).next(command);
  const Words words(command, end);
  std::string_view group = words[1];
  if (group == "reset") {
    StatLines none(out);
    server.stats(group, none);
    out.append(line::reset);
    return {};
  }
  Administration& administration = server.administration();
  if (group == "cachedump") return stats_cachedump(words, options, out);
  if (group == "detail") {
    stats_detail(words, administration, out);
    return {};
  }
  if ((group == "hotkeys" || group == "bigkeys") && words.count() > 2) {
    std::uint32_t count = 0;
    if (words.count() > 3 || !number::read_u32(words[2], count)) {
      out.append(line::bad_format);
      return {};
    }
    group = {group.begin(), words[2].end()};
  }
  StatLines lines(out);
  if (group == "sizes_enable" || group == "sizes_disable") {
    enable_sizes(group == "sizes_enable", options, administration, lines);  // without END, as in memcached
    return {};
  }
  if (group == "sizes" && administration.tracks_sizes()) return {.kind = StreamRequest::Kind::sizes};
  if (group == "sizes") lines.stat("sizes_status", "disabled");
  if (group == "sizes" || group == "extstore") {
    out.append(line::end);
    return {};
  }
  out.append(server.stats(group, lines) ? line::end : line::error);
  return {};
}

StreamRequest administer_line(const Query& query, const ProtocolOptions& options, ServerControl& server, Output& out) {
  const char* const end = query.wire + query.wire_bytes;
  std::string_view command;
  Tokens(query.wire, end).next(command);
  return administer(Words(command, end), options, server.administration(), out);
}

}  // namespace
}  // namespace codec

StreamRequest execute_control(const Query& query, const ProtocolOptions& options, ServerControl& server, Output& out) {
  using codec::ReplyKind;
  switch (codec::reply_of(query)) {
    case ReplyKind::flush_all:
      server.flush_all(query.expiry_s);
      break;
    case ReplyKind::verbosity:
      server.set_verbosity(static_cast<unsigned>(query.delta));
      break;
    case ReplyKind::stats:
      return codec::stats(query, options, server, out);
    case ReplyKind::binary_stats:
    case ReplyKind::binary_flush:
    case ReplyKind::binary_config:
      codec::execute_binary_control(query, options, server, out);
      return {};
    case ReplyKind::config:
      codec::execute_config_line(query, server.config(), out);
      return {};
    case ReplyKind::administer:
      return codec::administer_line(query, options, server, out);
    case ReplyKind::refresh_certs:
      if (const std::string error = server.refresh_certificates(); !error.empty()) {
        out.append(error);  // also with noreply
        out.append("\r\n");
        return {};
      }
      break;
    default:
      return {};
  }
  if (!query.has(option::no_reply)) out.append(codec::line::ok);
  return {};
}

}  // namespace tandem
