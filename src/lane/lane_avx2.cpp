#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>

#include "codec/binary.hpp"
#include "codec/small_hits.hpp"
#include "index/cuckoo/target_region.hpp"
#include "lane/calls_state.hpp"
#include "lane/collect.hpp"
#include "lane/kernel_scalar.hpp"
#include "task/key_compare.hpp"
#include "task/memory.hpp"

TD_TARGET_BEGIN("avx2,aes,bmi,bmi2")
#include "index/cuckoo/lanes_avx2.hpp"
#include "index/set_associative/lanes_avx2.hpp"
#include "index/slab_list/lanes_avx2.hpp"
#include "lane/kernel_avx2.hpp"

#define TD_LANES_NAMESPACE avx2
#define TD_KERNEL Avx2Kernel
#include "lane/lane-inl.hpp"
TD_TARGET_END

namespace tandem::lane {
namespace {
bool has_avx2() noexcept {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("aes") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
}
}  // namespace

const Ops avx2_ops = {"avx2",
                      has_avx2,
                      avx2::run<false>,
                      avx2::run<true>,
                      avx2::collect,
                      avx2::run_calls<Request>,
                      avx2::run_calls<std::string_view>};

}  // namespace tandem::lane
#endif
