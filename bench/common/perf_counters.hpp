// The processor's event counters of one thread, through perf_event_open(2).
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct perf_event_attr;  // NOLINT(readability-identifier-naming): the kernel's name

namespace tandem::bench {

enum class PerfEvent : std::uint8_t { cycles, instructions, llc_misses, l1d_misses, dtlb_misses };
inline constexpr std::size_t perf_event_count = 5;
inline constexpr std::array<std::string_view, perf_event_count> perf_event_names{"cycles", "instructions", "llc_misses",
                                                                                 "l1d_misses", "dtlb_misses"};

// Counts since the counters were opened; none for an event that the processor lacks or that has not been scheduled yet.
struct PerfReading {
  std::array<std::optional<double>, perf_event_count> counts;
  std::optional<double> operator[](PerfEvent event) const { return counts[static_cast<std::size_t>(event)]; }
};

// User-space events of the thread that opened it. Two groups, (cycles, instructions, LLC misses) and (L1d and dTLB load
// misses), each counted together. If a processor has too few counters for both, the groups alternate, and counts are
// scaled by their share of the time. Thread safety: none; any reader gets the opening thread's events.
class PerfCounters {
 public:
  // perf_event_open of the calling thread: a file descriptor, or -1 and errno. `group` -1: a new group.
  using Open = std::function<int(const perf_event_attr&, int group)>;

  PerfCounters();
  explicit PerfCounters(const Open& open);  // for tests
  ~PerfCounters();
  PerfCounters(const PerfCounters&) = delete;
  PerfCounters& operator=(const PerfCounters&) = delete;

  // Whether any event is counted; why() gives the reason if not.
  bool is_available() const noexcept { return !groups_.empty(); }
  const std::string& why() const noexcept { return why_; }

  // Costs two system calls: only for much longer sections.
  PerfReading read() const;

 private:
  struct Group {
    std::vector<int> files;  // the first is the group leader
    std::vector<PerfEvent> events;
  };
  void open_group(const Open& open, std::span<const PerfEvent> events);

  std::vector<Group> groups_;
  std::string why_;
};

// The difference of two readings.
PerfReading operator-(const PerfReading& later, const PerfReading& earlier);

// Adds the events of its scope to `sum`. Costs only a branch if counters are unavailable.
class PerfSection {
 public:
  PerfSection(const PerfCounters& counters, PerfReading& sum) : counters_(counters), sum_(sum) {
    if (counters_.is_available()) start_ = counters_.read();
  }
  ~PerfSection() {
    if (counters_.is_available()) finish();
  }
  PerfSection(const PerfSection&) = delete;
  PerfSection& operator=(const PerfSection&) = delete;

 private:
  void finish();

  const PerfCounters& counters_;
  PerfReading& sum_;
  PerfReading start_;
};

namespace perf {

// Why perf_event_open failed, in words. `paranoid`: kernel.perf_event_paranoid.
std::string explain(int error, std::string_view paranoid);
// One group's read(2): {events, time enabled, time running, count...}, scaled. None: the group was not scheduled.
std::vector<std::optional<double>> scale(std::span<const std::uint64_t> words, std::size_t events);

}  // namespace perf
}  // namespace tandem::bench
