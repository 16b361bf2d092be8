#if defined(__aarch64__)
#include <algorithm>

#include "codec/binary.hpp"
#include "codec/small_hits.hpp"
#include "lane/calls_state.hpp"
#include "lane/collect.hpp"
#include "lane/kernel_neon.hpp"
#include "task/key_compare.hpp"
#include "task/memory.hpp"

#define TD_LANES_NAMESPACE neon
#define TD_KERNEL NeonKernel
#include "lane/lane-inl.hpp"

namespace tandem::lane {

const Ops neon_ops = {"neon",
                      []() noexcept { return true; },
                      neon::run<false>,
                      neon::run<true>,
                      neon::collect,
                      neon::run_calls<Request>,
                      neon::run_calls<std::string_view>};

}  // namespace tandem::lane
#endif
