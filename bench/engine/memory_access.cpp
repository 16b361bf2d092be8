#include "bench/engine/memory_access.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/platform.hpp"
#include "bench/engine/ceiling.hpp"
#include "bench/workload/random.hpp"

namespace tandem::bench {
namespace {

constexpr std::uint64_t block_bytes = PointerChase::lines_max * cache_line_bytes;

TD_INLINE std::uint64_t load_word(const char* p) noexcept {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

}  // namespace

struct PointerChase::Memory {
  explicit Memory(std::uint64_t bytes) : huge(bytes) {}
  HugeMemory huge;
};

PointerChase::PointerChase(std::uint64_t bytes, std::uint64_t seed)
    : memory_(std::make_unique<Memory>(std::max<std::uint64_t>(2, bytes / block_bytes) * block_bytes)),
      blocks_(memory_->huge.size() / block_bytes) {
  // A random circle through all blocks (Sattolo's shuffle); the other words stay 0.
  std::vector<std::uint32_t> order(blocks_);
  std::iota(order.begin(), order.end(), 0u);
  workload::Random random(seed);
  for (std::uint64_t i = blocks_ - 1; i > 0; --i) std::swap(order[i], order[random.below(i)]);
  char* const data = memory_->huge.data();
  std::memset(data, 0, memory_->huge.size());
  for (std::uint64_t i = 0; i < blocks_; ++i) {
    const std::uint64_t next = order[i];
    std::memcpy(data + i * block_bytes, &next, sizeof next);
  }
}

PointerChase::~PointerChase() = default;

double PointerChase::ns_per_block(unsigned lines, std::uint64_t blocks) {
  const char* const data = memory_->huge.data();
  std::uint64_t at = at_;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const char* const block = data + at * block_bytes;
    std::uint64_t next = load_word(block);
    for (unsigned line = 1; line < lines; ++line) next += load_word(block + line * cache_line_bytes);
    at = next;
  }
  const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  at_ = at;  // stored so that the loop is not removed
  return ns / static_cast<double>(blocks);
}

}  // namespace tandem::bench
