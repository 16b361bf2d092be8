// The contract of the lanes that search a set and change it. The algorithm (set-inl.hpp) is written once over them.
//
// 1. match() compares all 16 tags at once. Later loads of the caller that come after order_loads() see at least what
//    the tags tell of.
// 2. load64() and load32() are acquire loads, store64() and store32() release stores; cas() acquires and releases. All
//    processors that use a table reach its words through such lanes.
// 3. Whether several threads work together on a set, as on a device, is the lanes' affair: every function has one
//    result, the same for each of them.
#pragma once
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "index/set_associative/set.hpp"

namespace tandem {

// clang-format off
template <class L>
concept TagLanes = requires(const L l, const std::uint64_t* tags, std::uint64_t* p, std::uint32_t* q, std::uint32_t t,
                            std::uint64_t v) {
  { l.match(tags, t) } -> std::same_as<std::uint32_t>;  // bit i: byte i of the 16 is t
  { l.load64(p) }      -> std::same_as<std::uint64_t>;
  { l.load32(q) }      -> std::same_as<std::uint32_t>;
  { l.cas(p, v, v) }   -> std::same_as<bool>;
  { l.lowest(t) }      -> std::same_as<std::uint32_t>;  // index of the lowest set bit; t != 0
  l.store64(p, v);
  l.store32(q, t);
  l.order_loads();
} && std::is_trivially_copyable_v<L>;
// clang-format on

}  // namespace tandem
