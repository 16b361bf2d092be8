// The background task on a GPU: each thread block multiplies a stretch of the vectors.
#include <cuda_runtime_api.h>

#include "bench/papers/background_task.hpp"

namespace tandem::bench {
namespace {

// Volatile: each pass reads and writes memory again.
__global__ void __launch_bounds__(multiply_block_threads)
    multiply_kernel(const volatile float* left, const volatile float* right, volatile float* product,
                    const __grid_constant__ MultiplyArguments a) {
  const std::uint32_t block = a.first_block + blockIdx.x;
  const std::uint64_t begin = a.begin_of(block), end = a.begin_of(block + 1);
  for (std::uint32_t pass = 0; pass < a.passes; ++pass) {
    for (std::uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x) product[i] = left[i] * right[i];
  }
}

}  // namespace

int cuda_multiply(const MultiplyArguments& a, cudaStream_t stream) noexcept {
  multiply_kernel<<<a.end_block - a.first_block, multiply_block_threads, 0, stream>>>(
      reinterpret_cast<const float*>(a.left.address()), reinterpret_cast<const float*>(a.right.address()),
      reinterpret_cast<float*>(a.product.address()), a);
  return cudaGetLastError();
}

}  // namespace tandem::bench
