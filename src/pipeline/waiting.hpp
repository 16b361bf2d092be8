// Decides when a wait has lasted too long.
#pragma once
#include <chrono>

namespace tandem {

struct Waiting {
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr unsigned looks_min = 1000;

  TimePoint since{};
  unsigned looks = 0;

  // Counts one more vain look, at `now`. Time alone does not make the other side late: this thread may have been
  // preempted, so it must also have looked often.
  bool is_late(TimePoint now, std::chrono::milliseconds deadline) noexcept {
    return ++looks >= looks_min && now - since > deadline;
  }
};

}  // namespace tandem
