#include "index/cuckoo/cuckoo.hpp"

#include <stdexcept>
#include <string>

#include "base/platform.hpp"
#include "index/wanted_lanes.hpp"

namespace tandem {
namespace {

#if defined(__x86_64__)
constexpr const CuckooOps* built[] = {&cuckoo_scalar, &cuckoo_avx2, &cuckoo_avx512};
#elif defined(__aarch64__)
constexpr const CuckooOps* built[] = {&cuckoo_scalar, &cuckoo_neon};
#else
constexpr const CuckooOps* built[] = {&cuckoo_scalar};
#endif

constexpr bool only_scalar = TD_THREAD_SANITIZER != 0;

}  // namespace

std::span<const CuckooOps* const> cuckoo_ops_built() noexcept {
  return std::span(built).first(only_scalar ? 1 : std::size(built));
}

const CuckooOps& cuckoo_ops_best() noexcept {
  const CuckooOps* best = &cuckoo_scalar;
  for (const CuckooOps* ops : cuckoo_ops_built()) {
    if (ops->supported()) best = ops;
  }
  return *best;
}

const CuckooOps& cuckoo_ops_named(std::string_view name) {
  if (name.empty()) {
    name = wanted_index_lanes();
    if (name.empty()) return cuckoo_ops_best();
  }
  for (const CuckooOps* ops : cuckoo_ops_built()) {
    if (ops->name == name && ops->supported()) return *ops;
  }
  throw std::invalid_argument("no lanes named '" + std::string(name) + "' on this processor");
}

}  // namespace tandem
