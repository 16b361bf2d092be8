#include <algorithm>

#include "codec/binary.hpp"
#include "codec/small_hits.hpp"
#include "lane/calls_state.hpp"
#include "lane/collect.hpp"
#include "lane/kernel_scalar.hpp"
#include "task/key_compare.hpp"
#include "task/memory.hpp"

#define TD_LANES_NAMESPACE scalar
#define TD_KERNEL ScalarKernel
#include "lane/lane-inl.hpp"

namespace tandem::lane {

const Ops scalar_ops = {"scalar",
                        []() noexcept { return true; },
                        scalar::run<false>,
                        scalar::run<true>,
                        scalar::collect,
                        scalar::run_calls<Request>,
                        scalar::run_calls<std::string_view>};

}  // namespace tandem::lane
