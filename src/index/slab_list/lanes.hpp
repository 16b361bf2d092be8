// The contract of the lanes that search a slab. The algorithm (slab-inl.hpp) is written once over them.
#pragma once
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "index/slab_list/slab.hpp"

namespace tandem {

// match() compares a line of eight keys at once. Later loads of the caller that come after order_loads() see at least
// what the keys tell of.
template <class L>
concept SlabLanes = requires(const L l, const std::uint64_t* line, std::uint64_t key) {
  { l.match(line, key) } -> std::same_as<std::uint32_t>;  // bit i: line[i] is `key`
  l.order_loads();
} && std::is_trivially_copyable_v<L>;

}  // namespace tandem
