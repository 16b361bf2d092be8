#include "device/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace tandem {
namespace {

template <class Function>
void find(const Nvml::Lookup& lookup, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(lookup(name));
}

}  // namespace

Nvml::Nvml() {
#if defined(TANDEM_STATIC)
  // Loading a shared library into a static program needs the same glibc that it was linked with; another version
  // crashes it.
  reason_ = "a statically linked program cannot load libnvidia-ml.so.1";
#else
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    reason_ = "no NVIDIA driver (libnvidia-ml.so.1 is not there)";
    return;
  }
  start([this](const char* name) { return dlsym(library_, name); });
#endif
}

void Nvml::start(const Lookup& lookup) {
  int (*initialise)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Gpu*) = nullptr;
  find(lookup, "nvmlInit_v2", initialise);
  find(lookup, "nvmlDeviceGetCount_v2", count);
  find(lookup, "nvmlDeviceGetHandleByIndex_v2", by_index);
  if (initialise == nullptr || count == nullptr || by_index == nullptr) {
    reason_ = "the NVIDIA driver is too old (no nvmlInit_v2)";
    return;
  }
  if (const int error = initialise(); error != 0) {
    reason_ = "NVML does not start (error " + std::to_string(error) + ")";
    return;
  }
  find(lookup, "nvmlShutdown", shutdown_);
  find(lookup, "nvmlDeviceGetName", name_);
  find(lookup, "nvmlDeviceGetHandleByPciBusId_v2", by_pci_bus_id_);
  find(lookup, "nvmlDeviceGetTotalEnergyConsumption", energy_mj_);
  find(lookup, "nvmlDeviceGetPowerUsage", power_mw_);
  unsigned n = 0;
  if (count(&n) != 0) n = 0;
  for (unsigned i = 0; i < n; ++i) {
    if (Gpu gpu = nullptr; by_index(i, &gpu) == 0) gpus_.push_back(gpu);
  }
  if (gpus_.empty()) reason_ = "no NVIDIA GPU";
}

Nvml::~Nvml() {
  if (shutdown_ != nullptr) shutdown_();
  if (library_ != nullptr) dlclose(library_);
}

std::string Nvml::name(std::size_t gpu) const {
  std::array<char, 97> text{};  // NVML_DEVICE_NAME_V2_BUFFER_SIZE and a terminator
  if (name_ == nullptr || name_(gpus_[gpu], text.data(), text.size() - 1) != 0) return "unknown";
  return text.data();
}

std::optional<std::size_t> Nvml::gpu_at(const std::string& pci_bus_id) const {
  Gpu gpu = nullptr;
  if (by_pci_bus_id_ == nullptr || by_pci_bus_id_(pci_bus_id.c_str(), &gpu) != 0) return std::nullopt;
  const auto at = std::ranges::find(gpus_, gpu);
  if (at == gpus_.end()) return std::nullopt;
  return static_cast<std::size_t>(at - gpus_.begin());
}

std::optional<std::uint64_t> Nvml::energy_mj(std::size_t gpu) const {
  unsigned long long mj = 0;
  if (energy_mj_ == nullptr || energy_mj_(gpus_[gpu], &mj) != 0) return std::nullopt;
  return mj;
}

std::optional<std::uint32_t> Nvml::power_mw(std::size_t gpu) const {
  unsigned mw = 0;
  if (power_mw_ == nullptr || power_mw_(gpus_[gpu], &mw) != 0) return std::nullopt;
  return mw;
}

}  // namespace tandem
