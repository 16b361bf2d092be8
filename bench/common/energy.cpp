#include "bench/common/energy.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

#include "base/process_meter.hpp"

namespace tandem::bench {
namespace {

namespace fs = std::filesystem;

// Short enough to follow a GPU's power; a counter's wrap-around takes minutes.
constexpr std::chrono::milliseconds power_interval{100}, counter_interval{30'000};

std::string read_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// Sets errno if there is none.
std::optional<std::uint64_t> read_number(const std::string& file) {
  errno = 0;
  const std::string line = read_line(file);
  std::uint64_t n = 0;
  const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), n);
  if (line.empty() || error != std::errc{} || stop != line.data() + line.size()) return std::nullopt;
  return n;
}

}  // namespace

Json to_json(const Energy& energy, std::uint64_t ops) {
  if (energy.source.empty()) return {{"unavailable", energy.missing}};
  Json out = {{"source", energy.source}, {"joules", energy.joules}};
  if (ops != 0) out["uj_per_op"] = energy.joules * 1e6 / static_cast<double>(ops);
  out["parts"] = Json::object();
  for (const auto& [name, joules] : energy.parts) out["parts"][name] = joules;
  if (!energy.missing.empty()) out["missing"] = energy.missing;
  return out;
}

EnergyMeter::EnergyMeter() : EnergyMeter("/", std::make_unique<const Nvml>(), monotonic_ns) { has_thread_ = true; }

EnergyMeter::EnergyMeter(const std::string& root, std::unique_ptr<const Nvml> nvml, Clock clock)
    : nvml_(std::move(nvml)), clock_(std::move(clock)) {
  find_counters(root);
  find_gpus();
}

EnergyMeter::~EnergyMeter() { stop_thread(); }

// Packages and their memory: "core" and "uncore" are parts of a package, "psys" includes more than the processors, and
// the zones of intel-rapl-mmio are duplicates.
void EnergyMeter::find_counters(const std::string& root) {
  const std::string folder = (fs::path(root) / "sys/class/powercap").string();
  std::map<std::string, std::string> zones;  // by folder, in order
  std::error_code error;
  for (fs::directory_iterator zone(folder, error), end; !error && zone != end; zone.increment(error)) {
    const std::string name = zone->path().filename();
    if (name.starts_with("intel-rapl:")) zones[name] = zone->path().string();
  }
  for (const auto& [zone, path] : zones) {
    std::string name = read_line(path + "/name");
    if (name == "dram") {
      name += '-' + zone.substr(std::strlen("intel-rapl:"), zone.rfind(':') - std::strlen("intel-rapl:"));
    } else if (!name.starts_with("package")) {
      continue;
    }
    const std::string file = path + "/energy_uj";
    if (!read_number(file)) {
      const std::string why = std::generic_category().message(errno != 0 ? errno : EIO);
      missing_ =
          "processors: cannot read " + file + " (" + why + (errno == EACCES ? "; only root may by default)" : ")");
      counters_.clear();  // a partial sum would look complete
      return;
    }
    counters_.push_back({name, file, read_number(path + "/max_energy_range_uj").value_or(0)});
  }
  if (counters_.empty()) {
    missing_ = "processors: no RAPL (" + folder + " has no zone of a package; virtual machines rarely have one)";
  }
}

void EnergyMeter::find_gpus() {
  for (std::size_t i = 0; i < nvml_->gpu_count(); ++i) {
    const bool has_counter = nvml_->energy_mj(i).has_value();
    if (has_counter || nvml_->power_mw(i)) {
      gpus_.push_back({i, has_counter});
    } else {
      missing_ +=
          (missing_.empty() ? "" : "; ") + std::string("gpu-") + std::to_string(i) + ": tells neither energy nor power";
    }
  }
}

void EnergyMeter::start() {
  stop_thread();
  {
    const std::lock_guard lock(mutex_);
    begin_locked();
  }
  if (!has_thread_ || !is_available()) return;
  const bool has_power = std::ranges::any_of(gpus_, [](const Gpu& g) { return !g.has_counter; });
  thread_ = std::jthread([this, interval = has_power ? power_interval : counter_interval](const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stopped_.wait_for(lock, stop, interval, [] { return false; }) && !stop.stop_requested()) sample_locked();
  });
}

void EnergyMeter::stop_thread() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

Energy EnergyMeter::stop() {
  stop_thread();
  const std::lock_guard lock(mutex_);
  Energy energy;
  if (!has_begun_) failure_ = "the meter was not started";
  if (has_begun_) sample_locked();
  has_begun_ = false;
  energy.missing = failure_.empty() ? missing_ : failure_;
  if (!failure_.empty()) return energy;
  for (const Counter& c : counters_) energy.parts.emplace_back(c.name, c.joules);
  for (const Gpu& g : gpus_) energy.parts.emplace_back("gpu-" + std::to_string(g.index), g.joules);
  for (const auto& part : energy.parts) energy.joules += part.second;
  if (!counters_.empty()) energy.source = "rapl";
  if (!gpus_.empty()) energy.source += energy.source.empty() ? "nvml" : "+nvml";
  return energy;
}

void EnergyMeter::sample() {
  const std::lock_guard lock(mutex_);
  if (has_begun_) sample_locked();
}

void EnergyMeter::fail(const std::string& why) {
  if (failure_.empty()) failure_ = why;
}

// Takes the sample from which the sums start.
void EnergyMeter::begin_locked() {
  failure_.clear();
  for (Counter& c : counters_) {
    const auto now_uj = read_number(c.file);
    if (!now_uj) fail("cannot read " + c.file + " any more");
    c.last_uj = now_uj.value_or(0);
    c.joules = 0;
  }
  for (Gpu& g : gpus_) {
    if (g.has_counter) {
      g.last_mj = nvml_->energy_mj(g.index).value_or(0);
    } else {
      g.last_watts = nvml_->power_mw(g.index).value_or(0) / 1e3;
    }
    g.joules = 0;
  }
  last_ns_ = clock_();
  has_begun_ = true;
}

void EnergyMeter::sample_locked() {
  const std::uint64_t now_ns = clock_();
  const double seconds = static_cast<double>(now_ns - last_ns_) / 1e9;
  last_ns_ = now_ns;
  for (Counter& c : counters_) {
    const auto now_uj = read_number(c.file);
    if (!now_uj) {
      fail("cannot read " + c.file + " any more");
      continue;
    }
    std::uint64_t used_uj = *now_uj - c.last_uj;
    if (*now_uj < c.last_uj) {
      if (c.range_uj < c.last_uj) fail(c.file + " went back");
      used_uj = c.range_uj - c.last_uj + *now_uj;
    }
    c.joules += static_cast<double>(used_uj) / 1e6;
    c.last_uj = *now_uj;
  }
  for (Gpu& g : gpus_) {
    const std::string name = "gpu-" + std::to_string(g.index);
    if (g.has_counter) {
      const auto now_mj = nvml_->energy_mj(g.index);
      if (!now_mj || *now_mj < g.last_mj) fail(name + " does not tell its energy any more");
      g.joules += static_cast<double>(now_mj.value_or(g.last_mj) - g.last_mj) / 1e3;
      g.last_mj = now_mj.value_or(g.last_mj);
      continue;
    }
    const auto now_mw = nvml_->power_mw(g.index);
    if (!now_mw) fail(name + " does not tell its power any more");
    const double watts = now_mw.value_or(0) / 1e3;
    g.joules += (g.last_watts + watts) / 2 * seconds;
    g.last_watts = watts;
  }
}

}  // namespace tandem::bench
