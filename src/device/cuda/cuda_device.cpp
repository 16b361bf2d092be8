#include "device/cuda/cuda_device.hpp"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "device/cuda/cuda_core.hpp"
#include "device/cuda/cuda_stream.hpp"
#include "device/nvml.hpp"

namespace tandem {
namespace {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(std::uint32_t number)
      : core_(std::make_shared<cuda::Core>(cuda_device_info(number))), gpu_(nvml_.gpu_at(core_->info.pci_bus_id)) {}

  const DeviceInfo& info() const noexcept override { return core_->info; }
  std::uint64_t memory_free_bytes() noexcept override;
  std::optional<std::uint32_t> power_mw() noexcept override {
    return gpu_ && !core_->lost() ? nvml_.power_mw(*gpu_) : std::nullopt;
  }
  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<cuda::CudaStream>(core_, cuda::StreamPriority::greatest);
  }
  std::unique_ptr<Stream> make_background_stream() override {
    return std::make_unique<cuda::CudaStream>(core_, cuda::StreamPriority::least);
  }
  DevicePtr<std::byte> allocate(std::uint64_t bytes) override;
  void release(DevicePtr<std::byte> at) noexcept override;
  PinnedBlock allocate_pinned(std::uint64_t bytes) override;
  void release_pinned(PinnedBlock block) noexcept override;
  bool lost() const noexcept override { return core_->lost(); }
  std::string lost_reason() const override;
  std::string last_error() const override;
  void abandon() noexcept override { core_->abandon(); }

 private:
  const std::shared_ptr<cuda::Core> core_;
  const Nvml nvml_;
  const std::optional<std::size_t> gpu_;  // in NVML's order
  std::mutex pinned_mutex_;
  std::unordered_map<void*, void*> pinned_base_;  // the runtime's block, by the page-aligned address in it that is used
};

std::uint64_t CudaDevice::memory_free_bytes() noexcept {
  std::size_t free = 0;
  std::size_t total = 0;
  if (core_->bind() != DeviceStatus::ok || core_->check(cudaMemGetInfo(&free, &total)) != DeviceStatus::ok) return 0;
  return free;
}

DevicePtr<std::byte> CudaDevice::allocate(std::uint64_t bytes) {
  if (bytes == 0) return {};
  core_->require_bound();
  void* at = nullptr;
  core_->require(cudaMalloc(&at, bytes), "no memory");
  return DevicePtr<std::byte>(reinterpret_cast<std::uintptr_t>(at));
}

// Both releases wait for the device's work. On a lost device they would wait for ever, so its memory stays allocated
// until the process ends. That includes host memory, since a hung kernel may still write to it.

void CudaDevice::release(DevicePtr<std::byte> at) noexcept {
  if (!at || core_->bind() != DeviceStatus::ok) return;
  (void)core_->check(cudaFree(reinterpret_cast<void*>(at.address())));
}

PinnedBlock CudaDevice::allocate_pinned(std::uint64_t bytes) {
  if (bytes == 0) return {};
  core_->require_bound();
  // The runtime aligns small blocks to less than a page.
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes > UINT64_MAX - page) cuda::throw_error(info().number, "no pinned memory", cudaErrorMemoryAllocation);
  void* base = nullptr;
  core_->require(cudaHostAlloc(&base, bytes + page, cudaHostAllocPortable | cudaHostAllocMapped), "no pinned memory");
  void* device = nullptr;
  core_->require(cudaHostGetDevicePointer(&device, base, 0), "pinned memory without an address");
  const std::uint64_t skipped = (page - reinterpret_cast<std::uintptr_t>(base) % page) % page;
  void* const host = static_cast<std::byte*>(base) + skipped;
  const std::lock_guard lock(pinned_mutex_);
  pinned_base_.emplace(host, base);
  return {host, DevicePtr<std::byte>(reinterpret_cast<std::uintptr_t>(device) + skipped)};
}

void CudaDevice::release_pinned(PinnedBlock block) noexcept {
  if (block.host == nullptr || core_->bind() != DeviceStatus::ok) return;
  void* base = nullptr;
  {
    const std::lock_guard lock(pinned_mutex_);
    const auto found = pinned_base_.find(block.host);
    if (found == pinned_base_.end()) return;
    base = found->second;
    pinned_base_.erase(found);
  }
  (void)core_->check(cudaFreeHost(base));
}

std::string CudaDevice::lost_reason() const {
  if (!lost()) return {};
  const cudaError_t error = core_->last_error();
  return cuda::status_of(error) == DeviceStatus::lost ? cudaGetErrorString(error) : "it was given up";
}

std::string CudaDevice::last_error() const {
  const cudaError_t error = core_->last_error();
  return error == cudaSuccess ? std::string() : cudaGetErrorString(error);
}

}  // namespace

DeviceCount cuda_device_count() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return {static_cast<std::uint32_t>(count), {}};
  (void)cudaGetLastError();
  if (error == cudaSuccess || error == cudaErrorNoDevice) return {0, "no NVIDIA GPU"};
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) return {0, "no NVIDIA driver"};
  if (error == cudaErrorInsufficientDriver) {
    const auto version = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
    return {0, "the NVIDIA driver is for CUDA " + version(driver) + ", older than " + version(CUDART_VERSION)};
  }
  return {0, std::string("CUDA does not start: ") + cudaGetErrorString(error)};
}

DeviceInfo cuda_device_info(std::uint32_t number) {
  const DeviceCount found = cuda_device_count();
  if (number >= found.count) {
    const std::string why = found.count == 0 ? found.reason : "there are " + std::to_string(found.count);
    throw DeviceError(DeviceStatus::failed, "no GPU " + std::to_string(number) + ": " + why);
  }
  cudaDeviceProp properties{};
  const cudaError_t error = cudaGetDeviceProperties(&properties, static_cast<int>(number));
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    cuda::throw_error(number, "no properties", error);
  }
  std::array<char, 32> pci_bus_id{};
  if (cudaDeviceGetPCIBusId(pci_bus_id.data(), pci_bus_id.size(), static_cast<int>(number)) != cudaSuccess) {
    (void)cudaGetLastError();
    pci_bus_id[0] = '\0';
  }
  return {.name = properties.name,
          .backend = "cuda",
          .number = number,
          .memory_bytes = properties.totalGlobalMem,
          .multiprocessors = static_cast<std::uint32_t>(properties.multiProcessorCount),
          .pci_bus_id = pci_bus_id.data()};
}

std::unique_ptr<Device> make_cuda_device(std::uint32_t number) { return std::make_unique<CudaDevice>(number); }

}  // namespace tandem
