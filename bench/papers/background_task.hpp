// MemcachedGPU's background task (section 5.4): a multiplication of two vectors in device memory, cut into kernels.
#pragma once
#include <cstdint>

#include "device/device.hpp"
#include "device/kernel.hpp"

namespace tandem::bench {

inline constexpr std::uint32_t multiply_block_threads = 1024;  // the paper's

// One kernel of the task: its thread blocks [first_block, end_block).
struct MultiplyArguments {
  DevicePtr<const float> left, right;
  DevicePtr<float> product;
  std::uint64_t elements = 0;
  std::uint32_t blocks = 0;  // of the whole task, which share the elements evenly
  std::uint32_t first_block = 0, end_block = 0;
  std::uint32_t passes = 0;  // of each block over its elements

  constexpr std::uint64_t begin_of(std::uint32_t block) const noexcept { return elements * block / blocks; }
  std::uint64_t queries() const noexcept { return std::uint64_t{end_block - first_block} * multiply_block_threads; }
  void memory(MemoryUse& use) const;
};
int cuda_multiply(const MultiplyArguments& arguments, CUstream_st* stream) noexcept;
extern const Kernel<MultiplyArguments> multiply_vectors;

// Thread safety: one thread at a time.
class BackgroundTask {
 public:
  struct Size {
    std::uint64_t elements;  // of each vector
    std::uint32_t blocks, passes;
  };
  // On a GPU as many blocks for each multiprocessor as the paper's 256 are for its 13, and some 30 ms of work alone on
  // an H100. In software a few.
  static Size size_for(Device& device);

  // The vectors, filled. Throws DeviceError. REQUIRES: size.elements: a power of two. The device outlives it.
  BackgroundTask(Device& device, Size size);

  // Runs the task on `stream` as `kernels` launches, of as many blocks each, with split_blocks blocks in place of each.
  // Returns the seconds until the last has ended. Throws DeviceError. REQUIRES: 0 < kernels <= blocks;
  // split_blocks != 0.
  double run(Stream& stream, std::uint32_t kernels, std::uint32_t split_blocks = 1);
  // Clears the product, so that is_right() is about later runs.
  void clear();
  bool is_right();

 private:
  void finish(Stream& stream, DeviceStatus queued);

  Device& device_;
  const Size size_;
  const std::uint64_t piece_;  // elements, after which their values repeat
  std::unique_ptr<Stream> stream_;
  DeviceArray<float> left_, right_, product_;
};

}  // namespace tandem::bench
