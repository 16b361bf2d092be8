// NVIDIA's management library, loaded at run time: names, energy and power of its GPUs.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tandem {

// Thread safety: all calls may run concurrently (NVML guarantees it).
class Nvml {
 public:
  // Looks up a function of the library by name; null: absent.
  using Lookup = std::function<void*(const char*)>;

  // Loads libnvidia-ml.so.1.
  Nvml();
  // For tests.
  explicit Nvml(const Lookup& lookup) { start(lookup); }
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::size_t gpu_count() const noexcept { return gpus_.size(); }
  // Why no GPU was found.
  const std::string& reason() const noexcept { return reason_; }
  std::string name(std::size_t gpu) const;
  // The GPU at this address, in CUDA's notation ("0000:3b:00.0").
  std::optional<std::size_t> gpu_at(const std::string& pci_bus_id) const;
  // Energy since the driver was loaded (Volta and later).
  std::optional<std::uint64_t> energy_mj(std::size_t gpu) const;
  // The board's present draw, or its average over the last second, by model.
  std::optional<std::uint32_t> power_mw(std::size_t gpu) const;

 private:
  using Gpu = void*;  // nvmlDevice_t
  void start(const Lookup& lookup);

  void* library_ = nullptr;
  std::vector<Gpu> gpus_;
  std::string reason_;
  int (*shutdown_)() = nullptr;
  int (*name_)(Gpu, char*, unsigned) = nullptr;
  int (*by_pci_bus_id_)(const char*, Gpu*) = nullptr;
  int (*energy_mj_)(Gpu, unsigned long long*) = nullptr;
  int (*power_mw_)(Gpu, unsigned*) = nullptr;
};

}  // namespace tandem
