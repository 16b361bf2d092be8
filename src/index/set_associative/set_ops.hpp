// The search of sets (set-inl.hpp) compiled for each kind of lanes that this program was built with, as tables of
// functions. One is chosen when an index is made and called once a strip.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "base/fingerprint.hpp"
#include "index/set_associative/set.hpp"

namespace tandem {

// Of sets of `Ways` ways.
template <unsigned Ways>
struct SetOps {
  std::string_view name;  // "scalar", "avx2", "avx512", "neon"
  bool (*supported)() noexcept;
  // As IndexKind's search_first() and search_second(). `items`: from where locations count, in granules.
  std::uint32_t (*search_tags)(SetView<Ways>, const Fingerprint* f, std::uint32_t count,
                               std::uint32_t* location) noexcept;
  void (*search_entries)(SetView<Ways>, const Fingerprint* f, std::uint32_t left, std::uint32_t* location,
                         const void* items) noexcept;
  void (*search_locked)(SetView<Ways>, const Fingerprint* f, std::uint32_t count, std::uint32_t* location,
                        const void* items) noexcept;
  std::uint32_t (*tagged)(const EntrySet<Ways>*, std::uint32_t signature) noexcept;  // later loads come after it
};

// The number of ways of the product. Other numbers are for measurements and tests, with scalar lanes
// (set_index-inl.hpp).
inline constexpr unsigned set_ways = 16;
using SetOps16 = SetOps<set_ways>;

// All kinds in this program, narrowest first; with ThreadSanitizer the scalar ones, of which it instruments all
// accesses.
std::span<const SetOps16* const> set_ops_built() noexcept;
// By name; "" means the environment variable TANDEM_LANES or, if unset, the widest of this processor. Throws
// std::invalid_argument for a name that this processor or this program does not have.
const SetOps16& set_ops_named(std::string_view name);

extern const SetOps16 sets_scalar;
#if defined(__x86_64__)
extern const SetOps16 sets_avx2, sets_avx512;
#elif defined(__aarch64__)
extern const SetOps16 sets_neon;
#endif

}  // namespace tandem
