// One STAT line of a number or a text.
#pragma once
#include <fmt/format.h>

#include <string_view>
#include <type_traits>

#include "codec/protocol.hpp"

namespace tandem::net {

template <class T>
void put(StatSink& sink, std::string_view name, const T& value) {
  if constexpr (std::is_convertible_v<T, std::string_view>) {
    sink.stat(name, value);
  } else {
    sink.stat(name, fmt::format_int(value).c_str());
  }
}

inline std::string_view yes_no(bool yes) { return yes ? "yes" : "no"; }

}  // namespace tandem::net
