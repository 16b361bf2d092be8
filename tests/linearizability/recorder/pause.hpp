// A reader that takes its time: what it reads must stay as it is while it looks.
#pragma once
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>

namespace tandem::record {

class Pause {
 public:
  Pause(std::uint32_t microseconds, std::uint64_t seed) : length_(microseconds), random_(seed) {}
  void sometimes() {
    if (length_.count() != 0 && random_() % 8 == 0) std::this_thread::sleep_for(length_);
  }

 private:
  std::chrono::microseconds length_;
  std::minstd_rand random_;
};

}  // namespace tandem::record
