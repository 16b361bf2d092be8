// Operations as requests of an embedding program.
#pragma once
#include <stdexcept>

#include "history.hpp"
#include "tandem/store.hpp"

namespace tandem::record {

// Throws std::logic_error for what is no request.
inline Action action_of(Kind kind) {
  switch (kind) {
    case Kind::get:
      return Action::get;
    case Kind::set:
      return Action::set;
    case Kind::add:
      return Action::add;
    case Kind::replace:
      return Action::replace;
    case Kind::cas:
      return Action::compare_and_set;
    case Kind::exchange:
      return Action::exchange;
    case Kind::remove:
      return Action::remove;
    case Kind::take:
      return Action::take;
    case Kind::increment:
      return Action::increment;
    case Kind::decrement:
      return Action::decrement;
    case Kind::append:
      return Action::append;
    case Kind::prepend:
      return Action::prepend;
    case Kind::touch:
      return Action::touch;
    case Kind::flush:
    case Kind::scan:
      break;
  }
  throw std::logic_error("no action of a session");
}

inline Request request_of(const Operation& o, KeyCheck check = KeyCheck::store) {
  return {.action = action_of(o.kind),
          .key = o.key,
          .value = o.bytes,
          .ttl_s = o.ttl_s,
          .flags = o.flags,
          .key_check = check,
          .cas = o.expected,
          .delta = o.delta};
}

}  // namespace tandem::record
