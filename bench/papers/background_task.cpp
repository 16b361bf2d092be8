#include "bench/papers/background_task.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <string>

namespace tandem::bench {
namespace {

constexpr std::uint64_t piece_max = std::uint64_t{1} << 20;

// Small integers, so products are exact.
constexpr float left_of(std::uint64_t i) noexcept { return static_cast<float>(i % 1021 + 1); }
constexpr float right_of(std::uint64_t i) noexcept { return static_cast<float>(i % 509 + 1); }

bool host_multiply(const MultiplyArguments& a, const HostMemory& memory) noexcept {
  const float* const left = memory.at(a.left);
  const float* const right = memory.at(a.right);
  float* const product = memory.at(a.product);
  for (std::uint32_t block = a.first_block; block < a.end_block; ++block) {
    for (std::uint32_t pass = 0; pass < a.passes; ++pass) {
      for (std::uint64_t i = a.begin_of(block); i < a.begin_of(block + 1); ++i) product[i] = left[i] * right[i];
    }
  }
  return true;
}

}  // namespace

void MultiplyArguments::memory(MemoryUse& use) const {
  if (first_block > end_block || end_block > blocks) return use.refuse();
  use.add(left, elements);
  use.add(right, elements);
  use.add(product, elements);
}

const Kernel<MultiplyArguments> multiply_vectors{"multiply vectors", host_multiply,
                                                 cuda_entry<MultiplyArguments, cuda_multiply>()};

BackgroundTask::Size BackgroundTask::size_for(Device& device) {
  if (device.info().backend == "sim") return {1 << 14, 64, 1};
  constexpr std::uint32_t blocks_per_multiprocessor = 20;  // 256 / 13
  constexpr std::uint64_t elements_max = std::uint64_t{1} << 28;
  constexpr std::uint32_t passes = 14;
  // Three vectors, in a half of what is free.
  const std::uint64_t room = device.memory_free_bytes() / (2 * 3 * sizeof(float));
  return {std::min(elements_max, std::bit_floor(std::max(room, piece_max))),
          device.info().multiprocessors * blocks_per_multiprocessor, passes};
}

BackgroundTask::BackgroundTask(Device& device, Size size)
    : device_(device),
      size_(size),
      piece_(std::min(size.elements, piece_max)),
      stream_(device.make_background_stream()),
      left_(device, size.elements),
      right_(device, size.elements),
      product_(device, size.elements) {
  const PinnedArray<float> left(device, piece_), right(device, piece_);
  for (std::uint64_t i = 0; i < piece_; ++i) {
    left[i] = left_of(i);
    right[i] = right_of(i);
  }
  for (std::uint64_t at = 0; at < size.elements; at += piece_) {
    finish(*stream_, stream_->copy_to_device(left_.bytes_at(at), left.data(), left.bytes()));
    finish(*stream_, stream_->copy_to_device(right_.bytes_at(at), right.data(), right.bytes()));
  }
  clear();
}

// Waits for what was queued.
void BackgroundTask::finish(Stream& stream, DeviceStatus queued) {
  using namespace std::chrono_literals;
  const DeviceStatus status = queued == DeviceStatus::ok ? stream.wait(stream.mark(), 60s) : queued;
  if (status != DeviceStatus::ok)
    throw DeviceError(status, "the background task: " + std::string(name_of(status)) + " " + device_.last_error());
}

double BackgroundTask::run(Stream& stream, std::uint32_t kernels, std::uint32_t split_blocks) {
  const std::uint32_t blocks = size_.blocks * split_blocks;
  const auto begin = std::chrono::steady_clock::now();
  DeviceStatus status = DeviceStatus::ok;
  for (std::uint32_t k = 0; k < kernels && status == DeviceStatus::ok; ++k) {
    const auto first = [&](std::uint32_t kernel) {
      return static_cast<std::uint32_t>(std::uint64_t{blocks} * kernel / kernels);
    };
    status = stream.launch(multiply_vectors, {.left = left_.at(),
                                              .right = right_.at(),
                                              .product = product_.at(),
                                              .elements = size_.elements,
                                              .blocks = blocks,
                                              .first_block = first(k),
                                              .end_block = first(k + 1),
                                              .passes = size_.passes});
  }
  finish(stream, status);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void BackgroundTask::clear() { finish(*stream_, stream_->zero(product_.bytes_at(0), product_.bytes())); }

bool BackgroundTask::is_right() {
  const PinnedArray<float> piece(device_, piece_);
  for (std::uint64_t at = 0; at < size_.elements; at += piece_) {
    finish(*stream_, stream_->copy_to_host(piece.data(), DevicePtr<const std::byte>(product_.bytes_at(at).address()),
                                           piece.bytes()));
    for (std::uint64_t i = 0; i < piece_; ++i) {
      if (piece[i] != left_of(i) * right_of(i)) return false;
    }
  }
  return true;
}

}  // namespace tandem::bench
