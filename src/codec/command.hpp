// The command of a query, and where a command ends: a get of several keys is several queries.
#pragma once
#include <array>

#include "codec/reply.hpp"
#include "query/opcode.hpp"

namespace tandem {

// The query is the last of its command.
inline bool ends_command(const Query& q) noexcept {
  return q.opcode != Opcode::get || q.has(option::meta | option::last_of_line);
}

namespace codec::detail {

// Distinguishes commands of the same opcode.
struct CommandShape {
  Opcode opcode;
  StoreMode mode;
  std::uint16_t options;
  bool with_cas;
  friend constexpr bool operator==(const CommandShape&, const CommandShape&) = default;
};

constexpr CommandShape shape_of(Opcode opcode, StoreMode mode, std::uint16_t options, bool with_cas) noexcept {
  if ((options & option::meta) != 0) return {opcode, {}, option::meta, false};
  switch (opcode) {
    case Opcode::get:
      return {opcode, {}, static_cast<std::uint16_t>(options & option::touch), with_cas};
    case Opcode::store: {
      const bool compares = (options & option::compare_cas) != 0;
      return {opcode, compares ? StoreMode::set : mode, compares ? option::compare_cas : std::uint16_t{0}, false};
    }
    case Opcode::arithmetic:
      return {opcode, {}, static_cast<std::uint16_t>(options & option::decrement), false};
    default:
      return {opcode, {}, 0, false};
  }
}

inline constexpr std::array<CommandShape, command_count> shapes = [] {
  std::array<CommandShape, command_count> all;
  for (std::size_t i = 0; i < command_count; ++i) {
    const CommandRow& row = commands[i];
    all[i] = shape_of(row.opcode, row.mode, row.options, row.with_cas);
  }
  return all;
}();

}  // namespace codec::detail

// For the latency histograms. The command of a refused line is not recorded, so it is `other`.
// with_cas: it is a retrieval whose reply has the CAS id.
inline Command command_of(Opcode opcode, StoreMode mode, std::uint16_t options, bool with_cas) noexcept {
  using namespace codec::detail;  // NOLINT(google-build-using-namespace): the lines above
  const CommandShape shape = shape_of(opcode, mode, options, with_cas);
  for (std::size_t i = 0; i < command_count; ++i) {
    if (shapes[i] == shape) return static_cast<Command>(i);
  }
  return Command::other;
}
inline Command command_of(const Query& q) noexcept {
  return command_of(q.opcode, q.mode, q.options, codec::reply_of(q) == codec::ReplyKind::gets);
}

}  // namespace tandem
