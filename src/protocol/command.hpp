// Which command a query stands for, and where a command ends: a get of several keys is several queries.
#pragma once
#include "observe/latency.hpp"
#include "protocol/reply.hpp"

namespace tandem {

// The query is the last of its command.
inline bool ends_command(const Query& q) noexcept {
  return q.opcode != Opcode::get || q.has(option::meta | option::last_of_line);
}

// For the latency histograms. What a line that was refused meant to be is not known any more: it is `other`.
inline Command command_of(const Query& q) noexcept {
  const bool meta = q.has(option::meta);
  switch (q.opcode) {
    case Opcode::get: {
      if (meta) return Command::mg;
      const bool with_cas = protocol::reply_of(q) == protocol::Reply::gets;
      if (q.has(option::touch)) return with_cas ? Command::gats : Command::gat;
      return with_cas ? Command::gets : Command::get;
    }
    case Opcode::store:
      if (meta) return Command::ms;
      if (q.has(option::compare_cas)) return Command::cas;
      switch (q.mode) {
        case StoreMode::set:
          return Command::set;
        case StoreMode::add:
          return Command::add;
        case StoreMode::replace:
          return Command::replace;
        case StoreMode::append:
          return Command::append;
        case StoreMode::prepend:
          return Command::prepend;
      }
      break;
    case Opcode::remove:
      return meta ? Command::md : Command::remove;
    case Opcode::arithmetic:
      if (meta) return Command::ma;
      return q.has(option::decrement) ? Command::decr : Command::incr;
    case Opcode::touch:
      return Command::touch;
    case Opcode::nothing:
    case Opcode::debug:
    case Opcode::control:
      break;
  }
  return Command::other;
}

}  // namespace tandem
