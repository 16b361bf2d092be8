#include "bench/common/perf_counters.hpp"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>

namespace tandem::bench {
namespace {

constexpr PerfEvent first_group[] = {PerfEvent::cycles, PerfEvent::instructions, PerfEvent::llc_misses};
constexpr PerfEvent second_group[] = {PerfEvent::l1d_misses, PerfEvent::dtlb_misses};

constexpr std::uint64_t load_misses_of(std::uint64_t cache) {
  return cache | std::uint64_t{PERF_COUNT_HW_CACHE_OP_READ} << 8 | std::uint64_t{PERF_COUNT_HW_CACHE_RESULT_MISS} << 16;
}

perf_event_attr attributes_of(PerfEvent event) {
  perf_event_attr a{};
  a.size = sizeof a;
  a.type = PERF_TYPE_HARDWARE;
  switch (event) {
    case PerfEvent::cycles:
      a.config = PERF_COUNT_HW_CPU_CYCLES;
      break;
    case PerfEvent::instructions:
      a.config = PERF_COUNT_HW_INSTRUCTIONS;
      break;
    case PerfEvent::llc_misses:
      a.config = PERF_COUNT_HW_CACHE_MISSES;
      break;
    case PerfEvent::l1d_misses:
      a.type = PERF_TYPE_HW_CACHE;
      a.config = load_misses_of(PERF_COUNT_HW_CACHE_L1D);
      break;
    case PerfEvent::dtlb_misses:
      a.type = PERF_TYPE_HW_CACHE;
      a.config = load_misses_of(PERF_COUNT_HW_CACHE_DTLB);
      break;
  }
  a.exclude_kernel = 1;  // what kernel.perf_event_paranoid = 2, the usual value, permits to any user
  a.exclude_hv = 1;
  a.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return a;
}

int open_of_this_thread(const perf_event_attr& attributes, int group) {
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, group, PERF_FLAG_FD_CLOEXEC));
}

std::string paranoid_setting() {
  std::ifstream in("/proc/sys/kernel/perf_event_paranoid");
  std::string text;
  std::getline(in, text);
  return text;
}

}  // namespace

PerfCounters::PerfCounters() : PerfCounters(open_of_this_thread) {}

PerfCounters::PerfCounters(const Open& open) {
  open_group(open, first_group);
  open_group(open, second_group);
}

PerfCounters::~PerfCounters() {
  for (const Group& group : groups_) {
    for (const int file : group.files) close(file);
  }
}

// An event that the processor lacks is omitted; the rest of its group is counted without it.
void PerfCounters::open_group(const Open& open, std::span<const PerfEvent> events) {
  Group group;
  for (const PerfEvent event : events) {
    const int file = open(attributes_of(event), group.files.empty() ? -1 : group.files.front());
    if (file < 0) {
      if (why_.empty()) why_ = perf::explain(errno, paranoid_setting());
      continue;
    }
    group.files.push_back(file);
    group.events.push_back(event);
  }
  if (!group.files.empty()) groups_.push_back(std::move(group));
}

PerfReading PerfCounters::read() const {
  PerfReading reading;
  for (const Group& group : groups_) {
    std::array<std::uint64_t, 3 + perf_event_count> words{};
    const ssize_t got = ::read(group.files.front(), words.data(), sizeof words);
    if (got < 0) continue;
    const auto counts = perf::scale(std::span(words).first(static_cast<std::size_t>(got) / 8), group.events.size());
    for (std::size_t i = 0; i < counts.size(); ++i)
      reading.counts[static_cast<std::size_t>(group.events[i])] = counts[i];
  }
  return reading;
}

PerfReading operator-(const PerfReading& later, const PerfReading& earlier) {
  PerfReading passed;
  for (std::size_t i = 0; i < perf_event_count; ++i) {
    if (later.counts[i]) passed.counts[i] = *later.counts[i] - earlier.counts[i].value_or(0);
  }
  return passed;
}

void PerfSection::finish() {
  const PerfReading passed = counters_.read() - start_;
  for (std::size_t i = 0; i < perf_event_count; ++i) {
    if (passed.counts[i]) sum_.counts[i] = sum_.counts[i].value_or(0) + *passed.counts[i];
  }
}

namespace perf {

std::string explain(int error, std::string_view paranoid) {
  switch (error) {
    case EACCES:
    case EPERM:
      return "perf_event_open is not allowed (kernel.perf_event_paranoid is " +
             std::string(paranoid.empty() ? "unknown" : paranoid) +
             "; 2 or less, the capability CAP_PERFMON, or a container's leave is needed)";
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
      return "the processor's counters are not there (virtual machines often have none)";
    case ENOSYS:
      return "the kernel has no perf_event_open";
    default:
      return "perf_event_open: " + std::generic_category().message(error);
  }
}

std::vector<std::optional<double>> scale(std::span<const std::uint64_t> words, std::size_t events) {
  std::vector<std::optional<double>> counts(events);
  if (words.size() < 3 + events || words[0] != events) return counts;
  const auto enabled = static_cast<double>(words[1]), running = static_cast<double>(words[2]);
  if (words[2] == 0) return counts;
  for (std::size_t i = 0; i < events; ++i) counts[i] = static_cast<double>(words[3 + i]) * (enabled / running);
  return counts;
}

}  // namespace perf
}  // namespace tandem::bench
