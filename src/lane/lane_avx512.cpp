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

TD_TARGET_BEGIN("avx512f,avx512dq,avx512vl,avx512bw,avx2,aes,bmi,bmi2")
#include "index/cuckoo/lanes_avx2.hpp"
#include "index/cuckoo/lanes_avx512.hpp"
#include "index/set_associative/lanes_avx2.hpp"
#include "index/set_associative/lanes_avx512.hpp"
#include "index/slab_list/lanes_avx2.hpp"
#include "index/slab_list/lanes_avx512.hpp"
#include "lane/kernel_avx2.hpp"
#include "lane/kernel_avx512.hpp"

#define TD_LANES_NAMESPACE avx512
#define TD_KERNEL Avx512Kernel
#include "lane/lane-inl.hpp"
TD_TARGET_END

namespace tandem::lane {
namespace {
bool has_avx512() noexcept {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("aes") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
}  // namespace

const Ops avx512_ops = {"avx512",
                        has_avx512,
                        avx512::run<false>,
                        avx512::run<true>,
                        avx512::collect,
                        avx512::run_calls<Request>,
                        avx512::run_calls<std::string_view>};

}  // namespace tandem::lane
#endif
