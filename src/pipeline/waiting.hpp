// How long something has been waited for.
#pragma once
#include <chrono>

namespace tandem {

struct Waiting {
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr unsigned looks_min = 1000;

  TimePoint since{};
  unsigned looks = 0;

  // One more look, at `now`, in vain. Time alone does not make the other side late: this thread may have been stopped
  // itself, so it must have looked often, too.
  bool is_late(TimePoint now, std::chrono::milliseconds deadline) noexcept {
    return ++looks >= looks_min && now - since > deadline;
  }
};

}  // namespace tandem
