// The search of slabs (slab-inl.hpp) compiled for each kind of lanes that this program was built with, as tables of
// functions. One is chosen when an index is made and called once a strip.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "base/fingerprint.hpp"
#include "index/slab_list/slab.hpp"

namespace tandem {

struct SlabOps {
  std::string_view name;  // "scalar", "avx2", "avx512", "neon"
  bool (*supported)() noexcept;
  // As IndexKind's search_first() and search_second(). `items`: from where locations count, in granules.
  std::uint32_t (*search_lines)(SlabView, const Fingerprint* f, std::uint32_t count, std::uint32_t* location,
                                const void* items) noexcept;
  void (*search_chains)(SlabView, const Fingerprint* f, std::uint32_t left, std::uint32_t* location,
                        const void* items) noexcept;
  // Bit i: key[i] is `key`; later loads come after it.
  std::uint32_t (*entries_with)(const Slab*, std::uint64_t key) noexcept;
};

// All kinds in this program, narrowest first; with ThreadSanitizer the scalar ones, of which it instruments all
// accesses.
std::span<const SlabOps* const> slab_ops_built() noexcept;
// By name; "" means the environment variable TANDEM_LANES or, if unset, the widest of this processor. Throws
// std::invalid_argument for a name that this processor or this program does not have.
const SlabOps& slab_ops_named(std::string_view name);

extern const SlabOps slabs_scalar;
#if defined(__x86_64__)
extern const SlabOps slabs_avx2, slabs_avx512;
#elif defined(__aarch64__)
extern const SlabOps slabs_neon;
#endif

}  // namespace tandem
