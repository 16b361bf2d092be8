#include "codec/config_lines.hpp"

#include <string>
#include <utility>

#include "codec/line_parser.hpp"

namespace tandem::codec {

LineParser::Step LineParser::config(const Words& words) {
  if (options_.config == ConfigAccess::none) return answer(line::error);
  if (words[1] == "set") return config_set(words);
  const bool gets = words[1] == "get";
  const bool no_reply = !gets && words.count() == 4 && words.last_is("noreply");
  if ((!gets && words[1] != "delete") || words.count() != (no_reply ? 4 : 3)) return answer(line::error);
  if (words[2].size() > key_bytes_max) return answer(line::bad_format, no_reply);
  if (!gets && options_.config != ConfigAccess::write) return answer(line::config_read_only, no_reply);
  Query& q = start(Opcode::control, ReplyKind::config, no_reply ? option::no_reply : 0);
  set_key(q, words[2]);
  q.delta = static_cast<std::uint64_t>(gets ? ConfigAction::get : ConfigAction::remove);
  return commit();
}

LineParser::Step LineParser::config_set(const Words& words) {
  if (words.count() != 5 && words.count() != 6) return answer(line::error);
  const bool no_reply = words.last_is("noreply");
  std::uint32_t client_flags = 0;
  std::int32_t length = 0;
  if (words[2].size() > key_bytes_max || !number::read_u32(words[3], client_flags) ||
      !number::read_i32(words[4], length) || length < 0)
    return answer(line::bad_format, no_reply);
  const auto bytes = static_cast<std::uint64_t>(length);
  // Before the value: a client that may not store makes the server keep nothing.
  if (options_.config != ConfigAccess::write) return skip_value(line::config_read_only, no_reply, bytes);
  if (bytes > ConfigStore::value_bytes_max) return skip_value(line::config_too_large, no_reply, bytes);
  if (static_cast<std::uint64_t>(end_ - next_) < bytes + 2) {
    parser_.wanted_bytes_ = static_cast<std::uint64_t>(next_ - p_) + bytes + 2;
    return Step::need_more;
  }
  const char* const value = std::exchange(next_, next_ + bytes + 2);
  if (load<std::uint16_t>(value + bytes) != load<std::uint16_t>("\r\n")) return answer(line::bad_chunk, no_reply);
  Query& q = start(Opcode::control, ReplyKind::config, no_reply ? option::no_reply : 0);
  set_key(q, words[2]);
  q.client_flags = client_flags;
  q.value = value;
  q.value_bytes = static_cast<std::uint32_t>(bytes);
  q.delta = static_cast<std::uint64_t>(ConfigAction::set);
  return commit();
}

// Answers the line, and drops the value behind it.
LineParser::Step LineParser::skip_value(std::string_view text, bool no_reply, std::uint64_t bytes) {
  answer(text, no_reply);
  parser_.swallow_bytes_ = bytes + 2;
  drop_swallowed();
  return Step::next;
}

void execute_config_line(const Query& q, ConfigStore& store, Output& out) {
  const auto say = [&](std::string_view text) {
    if (!q.has(option::no_reply)) out.append(text);
  };
  switch (static_cast<ConfigAction>(q.delta)) {
    case ConfigAction::get:
      store.get(q.key_view(), [&](const ConfigStore::Value& value) {
        out.append("CONFIG ");
        out.append(q.key_view());
        out.append(" " + std::to_string(value.flags) + " " + std::to_string(value.bytes.size()) + "\r\n");
        out.append(value.bytes);
        out.append("\r\n");
      });
      return out.append(line::end);
    case ConfigAction::set: {
      const std::string error = store.set(q.key_view(), q.client_flags, {q.value, q.value_bytes});
      return say(error.empty() ? std::string(line::stored) : "CLIENT_ERROR config " + error + "\r\n");
    }
    case ConfigAction::remove:
      return say(store.remove(q.key_view()) ? line::deleted : line::not_found);
    case ConfigAction::list:
      return;
  }
}

}  // namespace tandem::codec
