#include "pipeline/upkeep.hpp"

#include <algorithm>

namespace tandem {
namespace {

// Counters that were reset meanwhile tell nothing.
bool is_later(const UpkeepCounts& a, const UpkeepCounts& b) noexcept {
  return a.answers >= b.answers && a.changes >= b.changes && a.reads >= b.reads && a.writes >= b.writes;
}

}  // namespace

bool Upkeep::is_against(const UpkeepCounts& of_window, double seconds) const noexcept {
  const auto changes = static_cast<double>(rests_ ? of_window.writes : of_window.changes);
  const bool is_little = changes < options_.changes_per_second_min * seconds;
  if (!rests_) return !is_little && static_cast<double>(of_window.answers) < options_.answers_per_change_min * changes;
  return is_little || static_cast<double>(of_window.reads) >= options_.reads_per_write_min * changes;
}

bool Upkeep::judge(const UpkeepCounts& counts, TimePoint now) noexcept {
  const UpkeepCounts before = before_;
  const double seconds = std::chrono::duration<double>(now - window_begin_).count();
  const bool has_window = began_ && is_later(counts, before);
  before_ = counts;
  window_begin_ = now;
  began_ = true;
  const UpkeepCounts of_window{counts.answers - before.answers, counts.changes - before.changes,
                               counts.reads - before.reads, counts.writes - before.writes};
  const bool has_overflowed = !rests_ && counts.overflows > before.overflows;
  against_ = has_overflowed || (has_window && is_against(of_window, seconds)) ? against_ + 1 : 0;
  constexpr unsigned windows_that_decide = 2;
  if (against_ < windows_that_decide || (rests_ && now - turned_at_ < pause_)) return !rests_;
  if (rests_) {
    pause_ = std::min(2 * pause_, options_.pause_max);  // the next one, unless this trial lasts
  } else if (now - turned_at_ > options_.pause_max) {
    pause_ = options_.pause;
  }
  rests_ = !rests_;
  turned_at_ = now;
  against_ = 0;
  began_ = rests_;
  return !rests_;
}

}  // namespace tandem
