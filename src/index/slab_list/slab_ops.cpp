#include "index/slab_list/slab_ops.hpp"

#include <stdexcept>
#include <string>

#include "base/platform.hpp"
#include "index/wanted_lanes.hpp"

namespace tandem {
namespace {

#if defined(__x86_64__)
constexpr const SlabOps* all_slab_ops[] = {&slabs_scalar, &slabs_avx2, &slabs_avx512};
#elif defined(__aarch64__)
constexpr const SlabOps* all_slab_ops[] = {&slabs_scalar, &slabs_neon};
#else
constexpr const SlabOps* all_slab_ops[] = {&slabs_scalar};
#endif

}  // namespace

std::span<const SlabOps* const> slab_ops_built() noexcept {
  return std::span(all_slab_ops).first(TD_THREAD_SANITIZER != 0 ? 1 : std::size(all_slab_ops));
}

const SlabOps& slab_ops_named(std::string_view name) {
  if (name.empty()) name = wanted_index_lanes();
  const SlabOps* widest = nullptr;
  for (const SlabOps* ops : slab_ops_built()) {
    if (ops->supported() && (name.empty() || ops->name == name)) widest = ops;
  }
  if (widest == nullptr) throw std::invalid_argument("no lanes named '" + std::string(name) + "' on this processor");
  return *widest;
}

}  // namespace tandem
