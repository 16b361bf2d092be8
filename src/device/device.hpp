// An accelerator: its own memory, and queues of work (streams) for copies and for kernels (kernel.hpp), which other
// layers define. Two kinds: `cuda` (device/cuda), and `sim` (device/sim), a software device with injectable faults, for
// machines without a GPU.
//
// Errors are values, since a caller that meets one continues without the device. `lost` is permanent: a lost device
// answers every call with it at once. Only the makers of devices, memory and streams throw (DeviceError).
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
  failed,         // this launch or copy was refused or failed; the device stays usable
  lost,           // the device is lost for ever, or was abandoned
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

// A point in a stream's queue: all that was queued before it.
using DeviceMark = std::uint64_t;

// A queue of work: in order, and asynchronous except as the calls say. Counts of 0 do nothing. Host memory named by a
// call must be pinned memory of this device. Until the work is done the caller must not change it (copies to the
// device) or access it (copies from it). Arrays have their types' alignment.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;  // queued work finishes first, unless the device is lost

  [[nodiscard]] virtual DeviceStatus copy_to_device(DevicePtr<std::byte> to, const void* from,
                                                    std::uint64_t bytes) noexcept = 0;
  [[nodiscard]] virtual DeviceStatus copy_to_host(void* to, DevicePtr<const std::byte> from,
                                                  std::uint64_t bytes) noexcept = 0;
  [[nodiscard]] virtual DeviceStatus zero(DevicePtr<std::byte> at, std::uint64_t bytes) noexcept = 0;

  // Queues the kernel with a copy of these arguments. The memory that they name may be the device's or pinned. Returns
  // ok and queues nothing if they contain no work.
  template <KernelArguments A>
  [[nodiscard]] DeviceStatus launch(const Kernel<A>& kernel, const std::type_identity_t<A>& arguments) noexcept {
    return launch(KernelLaunch(kernel, arguments));
  }

  // --- order and completion

  // A mark for everything queued so far. Never fails: on a lost device its poll() reports that.
  [[nodiscard]] virtual DeviceMark mark() noexcept = 0;
  // ok: done, and the pinned memory that it wrote can be read. failed, lost: it will never be done; the content of its
  // output is undefined. `failed` is reported by the first mark behind failed work, not by later ones. Does not block.
  // REQUIRES: a mark of this stream, or 0, which stands for nothing.
  [[nodiscard]] virtual DeviceStatus poll(DeviceMark mark) noexcept = 0;
  // poll() until it is not pending or `limit` has passed.
  [[nodiscard]] virtual DeviceStatus wait(DeviceMark mark, std::chrono::nanoseconds limit) noexcept = 0;
  // Work queued here from now on begins after `mark` of `other`, a stream of the same device that another thread may be
  // using. `other` may be destroyed before that.
  [[nodiscard]] virtual DeviceStatus after(Stream& other, DeviceMark mark) noexcept = 0;
  // Device time between two marks of this stream that are done, in ns; 0 if unknown.
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
  virtual ~Device() = default;  // REQUIRES: its memory and streams have been released

  virtual const DeviceInfo& info() const noexcept = 0;
  virtual std::uint64_t memory_free_bytes() noexcept = 0;
  // The board's present power draw; none: unknown.
  virtual std::optional<std::uint32_t> power_mw() noexcept { return std::nullopt; }
  // Kernels of this stream begin before those of background streams, and of other streams of the process, which have
  // CUDA's default priority unless they ask for another. Throws DeviceError.
  virtual std::unique_ptr<Stream> make_stream() = 0;
  // A stream for work that may wait: its thread blocks begin where no other blocks are to. Blocks that run are not
  // stopped, so a kernel delays other work by the time that its blocks take, not by its own (MemcachedGPU 5.4 cuts it
  // into kernels of few blocks, since its GPU had no priorities). A device in software has no blocks: there a kernel
  // runs to its end. Throws DeviceError.
  virtual std::unique_ptr<Stream> make_background_stream() = 0;

  // Memory of the device, aligned to 256 bytes, contents undefined. Throws DeviceError.
  virtual DevicePtr<std::byte> allocate(std::uint64_t bytes) = 0;
  // REQUIRES, as does release_pinned(): no queued work uses it, unless the device is lost.
  virtual void release(DevicePtr<std::byte> at) noexcept = 0;
  // Host memory that the device reads and writes, aligned to a page. Throws DeviceError.
  virtual PinnedBlock allocate_pinned(std::uint64_t bytes) = 0;
  // On a lost device the memory is leaked, since a hung kernel may still write to it.
  virtual void release_pinned(PinnedBlock block) noexcept = 0;

  virtual bool lost() const noexcept = 0;
  virtual std::string lost_reason() const = 0;  // in words; empty: not lost
  // The driver's message for the last failed call, even if the device stayed usable; empty: none.
  virtual std::string last_error() const { return {}; }
  // Marks the device as lost, so that nothing waits for it any more. For a device that does not answer in time.
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

// Contents undefined, as with malloc.
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
