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

// Counts since the counters were opened; none for an event that the processor does not count or that had no turn yet.
struct PerfReading {
  std::array<std::optional<double>, perf_event_count> counts;
  std::optional<double> operator[](PerfEvent event) const { return counts[static_cast<std::size_t>(event)]; }
};

// Events in user space of the thread that opened it. Two groups, (cycles, instructions, LLC misses) and (L1d and dTLB
// load misses), each counted together; where a processor has too few counters for both they take turns, and counts are
// scaled by the share of time that theirs ran. Thread safety: none; only the opening thread's events are counted,
// whoever reads.
class PerfCounters {
 public:
  // perf_event_open of the calling thread: a file descriptor, or -1 and errno. `group` -1: a new group.
  using Open = std::function<int(const perf_event_attr&, int group)>;

  PerfCounters();
  explicit PerfCounters(const Open& open);  // for tests
  ~PerfCounters();
  PerfCounters(const PerfCounters&) = delete;
  PerfCounters& operator=(const PerfCounters&) = delete;

  // Whether anything is counted; why() says why not.
  bool is_available() const noexcept { return !groups_.empty(); }
  const std::string& why() const noexcept { return why_; }

  // Two system calls: for sections that are much longer.
  PerfReading read() const;

 private:
  struct Group {
    std::vector<int> files;  // the first leads
    std::vector<PerfEvent> events;
  };
  void open_group(const Open& open, std::span<const PerfEvent> events);

  std::vector<Group> groups_;
  std::string why_;
};

// What passed between two readings.
PerfReading operator-(const PerfReading& later, const PerfReading& earlier);

// Adds what happens in its scope to `sum`. Costs nothing but a branch where counters are not available.
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

// Why perf_event_open failed, for people. `paranoid`: kernel.perf_event_paranoid.
std::string explain(int error, std::string_view paranoid);
// One group's read(2): {events, time enabled, time running, count...}, scaled. None: the group had no turn.
std::vector<std::optional<double>> scale(std::span<const std::uint64_t> words, std::size_t events);

}  // namespace perf
}  // namespace tandem::bench
