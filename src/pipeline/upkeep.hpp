// Whether a replica is worth its upkeep. All that is written must follow into the replica, which costs the host the
// more the more is written; what the device answers saves it work. Where too few answers come of too many changes, the
// replica rests: the host does everything, as without a device, until the load has changed.
//
// Measured for requests answered whole, with copies of the items (docs/decisions/0041-resting-replicas.md): a change
// costs as much as some 19 answers save, fewer when processors have time left. While the replica rests only the store's
// reads and writes are known, not how many of them the device would answer: it is tried again, each time after twice
// the pause.
//
// Source: DIDO IV-B (the plan follows a measured profile of the load: here its share of writes). Departure: a threshold
// in place of a cost model of every plan, as all plans that use the replica pay for its upkeep.
//
// Thread safety: one thread.
#pragma once
#include <chrono>
#include <cstdint>

namespace tandem {

struct UpkeepOptions {
  std::chrono::milliseconds window{1000};                      // in which is counted; two windows in a row decide
  double changes_per_second_min = 1e6;                         // fewer do not matter
  double answers_per_change_min = 10;                          // with fewer it rests
  double reads_per_write_min = 16;                             // of the store, with which it is tried again
  std::chrono::milliseconds pause{5'000}, pause_max{300'000};  // of a rest, at least; twice that for the next one
};

// Totals since the start, or since a reset of the store's counters.
struct UpkeepCounts {
  std::uint64_t answers = 0, changes = 0;  // keys answered by the device; records and images that its log had
  std::uint64_t reads = 0, writes = 0;     // of the store
  std::uint64_t overflows = 0;             // of the log
};

class Upkeep {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit Upkeep(const UpkeepOptions& options) noexcept : options_(options), pause_(options.pause) {}

  // Whether a window has ended, or none has begun: then judge() wants to know the counts.
  bool is_due(TimePoint now) const noexcept { return !began_ || now - window_begin_ >= options_.window; }
  // Returns whether the replica is to be kept up. REQUIRES: it is current, or rests because this said so.
  bool judge(const UpkeepCounts& counts, TimePoint now) noexcept;
  // The replica is not current for another reason: what is counted meanwhile tells nothing, unless that is an overflow
  // of the log, which counts as a window with too many changes.
  void forget() noexcept { began_ = false; }

  bool rests() const noexcept { return rests_; }

 private:
  bool is_against(const UpkeepCounts& of_window, double seconds) const noexcept;

  const UpkeepOptions options_;
  UpkeepCounts before_;
  TimePoint window_begin_{}, turned_at_{};
  std::chrono::milliseconds pause_;
  unsigned against_ = 0;  // windows in a row that were against the present state
  bool began_ = false, rests_ = false;
};

}  // namespace tandem
