#include "planner/calibration.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/hash.hpp"
#include "pipeline/waiting.hpp"
#include "placement/offload_index.hpp"

namespace tandem {
namespace {

using Steady = std::chrono::steady_clock;

std::uint64_t mixed(std::uint64_t x) noexcept {  // SplitMix64
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

CalibrationOptions checked(CalibrationOptions o) {
  if (o.cells < calibration_cells_min || o.cells > calibration_cells_max)
    refuse("a table has " + std::to_string(calibration_cells_min) + " to " + std::to_string(calibration_cells_max) +
           " cells");
  o.cells = std::bit_floor(o.cells);
  if (!(o.load > 0 && o.load <= calibration_load_max)) refuse("the load is above 0 and at most 0.95");
  if (o.steps < 2 || o.rounds == 0) refuse("a line takes two sizes of launches, and one launch of each, at least");
  if (o.searches_max < o.steps || o.sets_max < o.steps)
    refuse("the largest launch has as many queries as there are sizes, at least");
  if (o.searches_max > calibration_queries_max || o.sets_max > calibration_queries_max)
    refuse("a launch has at most " + std::to_string(calibration_queries_max) + " queries");
  if (static_cast<double>(o.sets_max) > static_cast<double>(o.cells) * o.load)
    refuse("the table has fewer keys than the largest launch has SETs");
  return o;
}

// A table with consecutive numbers as keys: SETs add at the end, and evict at the beginning.
class Rig {
 public:
  Rig(Device& device, const CalibrationOptions& options)
      : device_(device),
        options_(options),
        keys_(static_cast<std::uint64_t>(static_cast<double>(options.cells) * options.load)),
        changes_max_(std::max(2 * options.sets_max, std::uint32_t{1} << 16)),
        buckets_(device, options.cells / bucket_cells),
        fingerprints_(device, options.searches_max),
        locations_(device, options.searches_max),
        changes_(device, changes_max_),
        done_(device, changes_max_),
        wanted_(options.searches_max),
        stream_(device.make_stream()) {
    demand(stream_->zero(buckets_.bytes_at(), buckets_.bytes()), "the table's memory cannot be cleared");
    while (end_ < keys_) {
      const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(keys_ - end_, changes_max_));
      for (std::uint32_t i = 0; i < count; ++i, ++end_) changes_[i] = {fingerprint(end_), no_location, location(end_)};
      static_cast<void>(launch_changes(count));
    }
  }
  ~Rig() {
    if (stream_->wait(stream_->mark(), options_.deadline) == DeviceStatus::pending) device_.abandon();
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  std::uint64_t keys() const noexcept { return keys_; }

  double search_ns(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      wanted_[i] = begin_ + mixed(options_.seed + ++drawn_) % keys_;
      fingerprints_[i] = fingerprint(wanted_[i]);
    }
    const Steady::time_point begun = Steady::now();
    const double ns = timed(begun,
                            stream_->launch(OffloadIndex::device_search,
                                            SearchArguments::of(view(), fingerprints_.at(), locations_.at(), count)),
                            "a search failed");
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!is_answer(wanted_[i], locations_[i]))
        throw std::runtime_error("the device did not find a key that is there");
    }
    return ns;
  }

  double sets_ns(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      changes_[2 * i] = {fingerprint(end_), no_location, location(end_)};
      changes_[2 * i + 1] = {fingerprint(begin_), location(begin_), no_location};
      ++end_;
      ++begin_;
    }
    return launch_changes(2 * count);
  }

 private:
  DeviceIndex view() const noexcept {
    return {buckets_.at(), {.mask = static_cast<std::uint32_t>(buckets_.count() - 1)}};
  }
  static Fingerprint fingerprint(std::uint64_t key) noexcept { return split_hash(mixed(key)); }
  // No two keys share one at the same time.
  std::uint64_t locations() const noexcept { return keys_ + options_.sets_max; }
  Location location(std::uint64_t key) const noexcept { return static_cast<Location>(1 + key % locations()); }
  // As in any search, the location found may also be that of another key with the same signature.
  bool is_answer(std::uint64_t key, Location found) const noexcept {
    if (found == location(key)) return true;
    if (found == no_location || found > locations()) return false;
    const std::uint64_t number = found - 1, first = begin_ % locations();
    const std::uint64_t other = begin_ + (number + locations() - first) % locations();
    return other < end_ && fingerprint(other).signature == fingerprint(key).signature;
  }

  double launch_changes(std::uint32_t count) {
    const Steady::time_point begun = Steady::now();
    const double ns =
        timed(begun, stream_->launch(OffloadIndex::device_change, {view(), changes_.at(), done_.at(), count}),
              "a change failed");
    if (std::find(done_.data(), done_.data() + count, 0) != done_.data() + count)
      throw std::runtime_error("the table has no room for its keys at this load: measure with less");
    return ns;
  }

  void demand(DeviceStatus status, const char* what) {
    if (status == DeviceStatus::lost) throw DeviceError(status, what + (": " + device_.lost_reason()));
    if (status != DeviceStatus::ok) throw DeviceError(status, what);
  }

  double timed(Steady::time_point begun, DeviceStatus queued, const char* what) {
    demand(queued, what);
    const DeviceMark mark = stream_->mark();
    Waiting waiting{begun};
    DeviceStatus status = stream_->poll(mark);
    while (status == DeviceStatus::pending && !waiting.is_late(Steady::now(), options_.deadline)) {
      std::this_thread::yield();  // as the scheduler does
      status = stream_->poll(mark);
    }
    const double ns = std::chrono::duration<double, std::nano>(Steady::now() - begun).count();
    if (status == DeviceStatus::pending) {
      device_.abandon();
      status = DeviceStatus::lost;
    }
    demand(status, what);
    return ns;
  }

  Device& device_;
  const CalibrationOptions& options_;
  const std::uint64_t keys_;
  const std::uint32_t changes_max_;
  DeviceArray<Bucket> buckets_;
  PinnedArray<Fingerprint> fingerprints_;
  PinnedArray<Location> locations_;
  PinnedArray<CellChange> changes_;
  PinnedArray<std::uint8_t> done_;
  std::vector<std::uint64_t> wanted_;
  std::unique_ptr<Stream> stream_;
  std::uint64_t begin_ = 0, end_ = 0, drawn_ = 0;  // keys [begin_, end_) are in the table
};

template <class Launch>
CalibrationLine measure(const CalibrationOptions& options, std::uint32_t queries_max, std::string_view what,
                        Launch launch) {
  std::vector<std::vector<double>> ns(options.steps);
  const auto queries_of = [&](unsigned step) {
    return static_cast<std::uint32_t>(std::uint64_t{queries_max} * (step + 1) / options.steps);
  };
  static_cast<void>(launch(queries_max));  // the first one has cold caches
  // Alternates the sizes in each round, so that a temporary disturbance affects all of them.
  for (unsigned round = 0; round < options.rounds; ++round) {
    if (options.progress)
      options.progress(std::string(what) + ": round " + std::to_string(round + 1) + " of " +
                       std::to_string(options.rounds));
    for (unsigned step = 0; step < options.steps; ++step) ns[step].push_back(launch(queries_of(step)));
  }
  CalibrationLine line;
  std::vector<LaunchSample> medians;
  for (unsigned step = 0; step < options.steps; ++step) {
    std::ranges::sort(ns[step]);
    const CalibrationSample sample{queries_of(step), ns[step][ns[step].size() / 2], ns[step].front(), ns[step].back()};
    line.samples.push_back(sample);
    medians.push_back({static_cast<double>(sample.queries), sample.median_ns});
  }
  line.fit = fit_line(medians);
  return line;
}

}  // namespace

Calibration calibrate(Device& device, const CalibrationOptions& wanted) {
  const CalibrationOptions options = checked(wanted);
  if (options.progress) options.progress("filling the table");
  Rig rig(device, options);
  Calibration c{.cells = options.cells, .keys = rig.keys(), .search = {}, .change = {}};
  c.search = measure(options, options.searches_max, "Search", [&](std::uint32_t n) { return rig.search_ns(n); });
  c.change = measure(options, options.sets_max, "Insert and Delete", [&](std::uint32_t n) { return rig.sets_ns(n); });
  return c;
}

}  // namespace tandem
