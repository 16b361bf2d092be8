#include "index/set_associative/set_ops.hpp"

#include <stdexcept>
#include <string>

#include "base/platform.hpp"
#include "index/wanted_lanes.hpp"

namespace tandem {
namespace {

#if defined(__x86_64__)
constexpr const SetOps16* all_set_ops[] = {&sets_scalar, &sets_avx2, &sets_avx512};
#elif defined(__aarch64__)
constexpr const SetOps16* all_set_ops[] = {&sets_scalar, &sets_neon};
#else
constexpr const SetOps16* all_set_ops[] = {&sets_scalar};
#endif

}  // namespace

std::span<const SetOps16* const> set_ops_built() noexcept {
  return std::span(all_set_ops).first(TD_THREAD_SANITIZER != 0 ? 1 : std::size(all_set_ops));
}

const SetOps16& set_ops_named(std::string_view name) {
  if (name.empty()) name = wanted_index_lanes();
  const SetOps16* widest = nullptr;
  for (const SetOps16* ops : set_ops_built()) {
    if (ops->supported() && (name.empty() || ops->name == name)) widest = ops;
  }
  if (widest == nullptr) throw std::invalid_argument("no lanes named '" + std::string(name) + "' on this processor");
  return *widest;
}

}  // namespace tandem
