// The cuckoo algorithm (cuckoo-inl.hpp) compiled for each kind of lanes that this program was built with, as tables of
// functions. One is chosen when a CuckooIndex is made and called once a strip.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "base/fingerprint.hpp"
#include "index/cuckoo/cell.hpp"

namespace tandem {

// Which cells of a bucket hold a signature and which are empty: bit i is cell i.
struct BucketMasks {
  std::uint8_t same, empty;
};

struct CuckooOps {
  // location[i]: of the first cell with f[i]'s signature, or 0. Prefetches the items that the locations name, counted
  // in granules from `items`.
  using Search = void (*)(IndexView, const Fingerprint* f, std::uint32_t count, std::uint32_t* location,
                          const void* items) noexcept;

  std::string_view name;  // "scalar", "avx2", "avx512", "neon"
  bool (*supported)() noexcept;
  Search search_both;      // for tables in the inner caches: wants both buckets prefetched
  Search search_two_pass;  // for tables in memory: wants the first buckets prefetched
  // Its two passes; the first returns the queries that remain for the second, bit i for query i (count <= 32).
  std::uint32_t (*search_first)(IndexView, const Fingerprint* f, std::uint32_t count, std::uint32_t* location,
                                const void* items) noexcept;
  void (*search_second)(IndexView, const Fingerprint* f, std::uint32_t left, std::uint32_t* location,
                        const void* items) noexcept;
  Search search_in_turn;  // the order of a device, for tests
  BucketMasks (*probe)(const Bucket*,
                       std::uint32_t signature) noexcept;  // later loads of the caller come after its loads
  // For bulk builds and tests; see cuckoo-inl.hpp for what they require.
  bool (*insert)(IndexView, Fingerprint, std::uint32_t location) noexcept;
  bool (*erase)(IndexView, Fingerprint, std::uint32_t location) noexcept;
  bool (*replace_changed)(IndexView, CellChange) noexcept;
  bool (*insert_changed)(IndexView, CellChange) noexcept;
};

// All kinds in this program, narrowest first.
std::span<const CuckooOps* const> cuckoo_ops_built() noexcept;
// The widest that this processor supports; with ThreadSanitizer the scalar ones, since it instruments all of their
// accesses.
const CuckooOps& cuckoo_ops_best() noexcept;
// By name; "" means the environment variable TANDEM_LANES or, if unset, the best. Throws std::invalid_argument for a
// name that this processor or this program does not have.
const CuckooOps& cuckoo_ops_named(std::string_view name);

extern const CuckooOps cuckoo_scalar;
#if defined(__x86_64__)
extern const CuckooOps cuckoo_avx2, cuckoo_avx512;
#elif defined(__aarch64__)
extern const CuckooOps cuckoo_neon;
#endif

}  // namespace tandem
