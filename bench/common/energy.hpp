// Energy that the machine used during a run: processors and memory by RAPL, GPUs by NVML.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/common/document.hpp"
#include "device/nvml.hpp"

namespace tandem::bench {

// Of the whole machine, including other processes.
struct Energy {
  std::string source;  // "rapl", "nvml", "rapl+nvml"; empty: not measurable
  double joules = 0;
  std::vector<std::pair<std::string, double>> parts;  // "package-0", "dram-0", "gpu-0": joules
  std::string missing;                                // what is not included, and why
};

// {"source": .., "joules": .., "uj_per_op": .., "parts": {..}[, "missing": ..]} or {"unavailable": why}. `ops` 0: no
// uj_per_op.
Json to_json(const Energy& energy, std::uint64_t ops);

// Thread safety: start() and stop() from one thread; sample() from any.
class EnergyMeter {
 public:
  using Clock = std::function<std::uint64_t()>;  // nanoseconds

  EnergyMeter();
  // For tests: where /sys is, the GPUs, and the time. Starts no thread.
  EnergyMeter(const std::string& root, std::unique_ptr<const Nvml> nvml, Clock clock);
  ~EnergyMeter();

  bool is_available() const noexcept { return !counters_.empty() || !gpus_.empty(); }
  // Starts the measurement, and a thread that samples periodically: counters wrap around (after some 20 minutes at 200
  // W), and the power of GPUs without a counter is summed.
  void start();
  Energy stop();
  // One step of that thread.
  void sample();

 private:
  // An energy_uj file of powercap.
  struct Counter {
    std::string name, file;
    std::uint64_t range_uj;  // value at which it wraps around
    std::uint64_t last_uj = 0;
    double joules = 0;
  };
  struct Gpu {
    std::size_t index;
    bool has_counter;
    std::uint64_t last_mj = 0;
    double last_watts = 0;
    double joules = 0;
  };

  void find_counters(const std::string& root);
  void find_gpus();
  void begin_locked();
  void sample_locked();
  void fail(const std::string& why);
  void stop_thread();

  std::unique_ptr<const Nvml> nvml_;
  Clock clock_;
  std::string missing_, failure_;
  std::vector<Counter> counters_;
  std::vector<Gpu> gpus_;
  std::uint64_t last_ns_ = 0;
  bool has_begun_ = false, has_thread_ = false;

  std::mutex mutex_;  // guards the members above
  std::condition_variable_any stopped_;
  std::jthread thread_;
};

}  // namespace tandem::bench
