// Numbers in a random order, for tests and benchmarks: the same at each call.
#pragma once
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace tandem {

// 0 to count - 1.
template <class N>
std::vector<N> shuffled(N count) {
  std::vector<N> numbers(count);
  std::iota(numbers.begin(), numbers.end(), N{0});
  std::shuffle(numbers.begin(), numbers.end(), std::mt19937_64(1));
  return numbers;
}

}  // namespace tandem
