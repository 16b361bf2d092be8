// An accelerator: memory of its own, and queues of work (streams): copies, and kernels (kernel.hpp) that others define.
// Two kinds: `cuda` (device/cuda), and `sim` (device/sim), a device in software with faults on demand, for machines
// without a GPU.
//
// Errors are values, since whoever meets one goes on without the device: `lost` is for ever, and everything that is
// asked of a lost device answers it at once. Nothing here throws but the makers of devices, memory and streams
// (DeviceError).
//
// Thread safety: a Device from any thread; a Stream from one thread at a time.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "device/device_ptr.hpp"
#include "device/kernel.hpp"

namespace tandem {

enum class DeviceStatus : std::uint8_t {
  ok,
  pending,        // of poll() and wait(): not done yet
  out_of_memory,  // nothing was done
  failed,         // this launch or copy was refused or did not work; the device goes on
  lost,           // the device is gone for good, or was abandoned
};
std::string_view name_of(DeviceStatus status) noexcept;

class DeviceError : public std::runtime_error {
 public:
  DeviceError(DeviceStatus status, const std::string& what) : std::runtime_error(what), status_(status) {}
  DeviceStatus status() const noexcept { return status_; }

 private:
  DeviceStatus status_;
};

struct DeviceInfo {
  std::string name;     // "NVIDIA H100 80GB HBM3", "sim"
  std::string backend;  // "cuda", "sim"
  std::uint32_t number = 0;
  std::uint64_t memory_bytes = 0;
  std::uint32_t multiprocessors = 0;
  std::string pci_bus_id = {};  // "0000:3b:00.0"
};

// Stands for what was queued on a stream up to a moment.
using DeviceMark = std::uint64_t;

// A queue of work: in order, and asynchronous but for what the calls say. Counts of 0 do nothing. Host memory that a
// call names must be pinned memory of this device, and stays as it is (copies to the device) or untouched (copies from
// it) until the work is done. Arrays are aligned as their types are.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;  // what is queued is finished first, unless the device is lost

  [[nodiscard]] virtual DeviceStatus copy_to_device(DevicePtr<std::byte> to, const void* from,
                                                    std::uint64_t bytes) noexcept = 0;
  [[nodiscard]] virtual DeviceStatus copy_to_host(void* to, DevicePtr<const std::byte> from,
                                                  std::uint64_t bytes) noexcept = 0;
  [[nodiscard]] virtual DeviceStatus zero(DevicePtr<std::byte> at, std::uint64_t bytes) noexcept = 0;

  // Queues the kernel with these arguments, which are copied. The memory that they name may be the device's or pinned.
  // ok and nothing queued if there is no work in them.
  template <KernelArguments A>
  [[nodiscard]] DeviceStatus launch(const Kernel<A>& kernel, const std::type_identity_t<A>& arguments) noexcept {
    return launch(KernelLaunch(kernel, arguments));
  }

  // --- order and completion

  // Stands for everything queued so far. Never fails: on a lost device its poll() says so.
  [[nodiscard]] virtual DeviceMark mark() noexcept = 0;
  // ok: done, and what it wrote to pinned memory can be read. failed, lost: it will never be; what it was to write is
  // undefined. `failed` is the first mark behind work that failed, not those behind it. Does not block. REQUIRES: a
  // mark of this stream, or 0, which stands for nothing.
  [[nodiscard]] virtual DeviceStatus poll(DeviceMark mark) noexcept = 0;
  // poll() until it is not pending or `limit` has passed.
  [[nodiscard]] virtual DeviceStatus wait(DeviceMark mark, std::chrono::nanoseconds limit) noexcept = 0;
  // What is queued here from now on begins after `mark` of `other`, a stream of the same device that another thread may
  // be using; it may be destroyed before that.
  [[nodiscard]] virtual DeviceStatus after(Stream& other, DeviceMark mark) noexcept = 0;
  // Device time between two marks of this stream that are done, in ns; 0 when it cannot be known.
  [[nodiscard]] virtual std::uint64_t elapsed_ns(DeviceMark from, DeviceMark to) noexcept = 0;

 private:
  virtual DeviceStatus launch(const KernelLaunch& launch) noexcept = 0;
};

struct PinnedBlock {
  void* host = nullptr;
  DevicePtr<std::byte> device;
};

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;  // REQUIRES: its memory and streams are gone

  virtual const DeviceInfo& info() const noexcept = 0;
  virtual std::uint64_t memory_free_bytes() noexcept = 0;
  // What its board draws now; none: not known.
  virtual std::optional<std::uint32_t> power_mw() noexcept { return std::nullopt; }
  virtual std::unique_ptr<Stream> make_stream() = 0;  // throws DeviceError

  // Memory of the device, aligned to 256 bytes, contents undefined. Throws DeviceError.
  virtual DevicePtr<std::byte> allocate(std::uint64_t bytes) = 0;
  // REQUIRES, as release_pinned(): nothing that is queued names it, unless the device is lost.
  virtual void release(DevicePtr<std::byte> at) noexcept = 0;
  // Host memory that the device reads and writes, aligned to a page. Throws DeviceError.
  virtual PinnedBlock allocate_pinned(std::uint64_t bytes) = 0;
  // Of a lost device it is not given back, since a kernel that hangs may yet write to it.
  virtual void release_pinned(PinnedBlock block) noexcept = 0;

  virtual bool lost() const noexcept = 0;
  virtual std::string lost_reason() const = 0;  // in words; empty: it is not lost
  // What the driver said of the last call that did not work, also of one that left the device in use; empty: nothing.
  virtual std::string last_error() const { return {}; }
  // Makes it lost: nobody waits for it any more. For a device that does not answer in time.
  virtual void abandon() noexcept = 0;
};

// --- owners

template <class T>
class DeviceArray {
 public:
  DeviceArray() noexcept = default;
  DeviceArray(Device& device, std::uint64_t count)
      : device_(&device), at_(device.allocate(count * sizeof(T)).address()), count_(count) {}
  DeviceArray(DeviceArray&& other) noexcept { swap(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    DeviceArray(std::move(other)).swap(*this);
    return *this;
  }
  ~DeviceArray() {
    if (device_ != nullptr) device_->release(DevicePtr<std::byte>(at_.address()));
  }

  DevicePtr<T> at(std::uint64_t i = 0) const noexcept { return at_ + i; }
  DevicePtr<std::byte> bytes_at(std::uint64_t i = 0) const noexcept {
    return DevicePtr<std::byte>((at_ + i).address());
  }
  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t bytes() const noexcept { return count_ * sizeof(T); }

 private:
  void swap(DeviceArray& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(at_, other.at_);
    std::swap(count_, other.count_);
  }
  Device* device_ = nullptr;
  DevicePtr<T> at_;
  std::uint64_t count_ = 0;
};

// Contents undefined, as of malloc.
template <class T>
class PinnedArray {
 public:
  PinnedArray() noexcept = default;
  PinnedArray(Device& device, std::uint64_t count)
      : device_(&device), block_(device.allocate_pinned(count * sizeof(T))), count_(count) {}
  PinnedArray(PinnedArray&& other) noexcept { swap(other); }
  PinnedArray& operator=(PinnedArray&& other) noexcept {
    PinnedArray(std::move(other)).swap(*this);
    return *this;
  }
  ~PinnedArray() {
    if (device_ != nullptr) device_->release_pinned(block_);
  }

  T* data() const noexcept { return static_cast<T*>(block_.host); }
  T& operator[](std::uint64_t i) const noexcept { return data()[i]; }
  DevicePtr<T> at(std::uint64_t i = 0) const noexcept { return DevicePtr<T>(block_.device.address()) + i; }
  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t bytes() const noexcept { return count_ * sizeof(T); }

 private:
  void swap(PinnedArray& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(block_, other.block_);
    std::swap(count_, other.count_);
  }
  Device* device_ = nullptr;
  PinnedBlock block_;
  std::uint64_t count_ = 0;
};

}  // namespace tandem
