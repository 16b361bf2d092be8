// NVIDIA's management library, found at run time: names, energy and power of its GPUs.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tandem {

// Thread safety: all calls may run at once (NVML's own promise).
class Nvml {
 public:
  // A function of the library by its name; null: it has none.
  using Lookup = std::function<void*(const char*)>;

  // libnvidia-ml.so.1.
  Nvml();
  // For tests.
  explicit Nvml(const Lookup& lookup) { start(lookup); }
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::size_t gpu_count() const noexcept { return gpus_.size(); }
  // Why there are none.
  const std::string& reason() const noexcept { return reason_; }
  std::string name(std::size_t gpu) const;
  // The one at this address, as CUDA writes it ("0000:3b:00.0").
  std::optional<std::size_t> gpu_at(const std::string& pci_bus_id) const;
  // Since the driver was loaded (Volta and later).
  std::optional<std::uint64_t> energy_mj(std::size_t gpu) const;
  // The board's draw now, or its average over the last second, by model.
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
