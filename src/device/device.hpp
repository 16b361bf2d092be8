// An accelerator: memory of its own, queues of work (streams), and the kernels that Tandem runs there. Two kinds:
// `cuda` (device/cuda), and `sim` (device/sim), a device in software with faults on demand, for machines without a GPU.
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

#include "base/fingerprint.hpp"
#include "heap/item.hpp"
#include "index/cell.hpp"
#include "index/item_images.hpp"

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

// An address as a device sees it: of its own memory, or of pinned host memory. The host must not follow it.
template <class T>
class DevicePtr {
 public:
  constexpr DevicePtr() noexcept = default;
  explicit constexpr DevicePtr(std::uint64_t address) noexcept : address_(address) {}
  template <class U>
    requires std::is_convertible_v<U*, T*>
  constexpr DevicePtr(DevicePtr<U> other) noexcept : address_(other.address()) {}

  constexpr std::uint64_t address() const noexcept { return address_; }
  explicit constexpr operator bool() const noexcept { return address_ != 0; }
  friend constexpr DevicePtr operator+(DevicePtr p, std::uint64_t elements) noexcept {
    return DevicePtr(p.address_ + elements * sizeof(T));
  }
  friend constexpr bool operator==(DevicePtr, DevicePtr) = default;

 private:
  std::uint64_t address_ = 0;
};

// A table in a device's memory: what IndexView is to the host.
struct DeviceIndex {
  DevicePtr<Bucket> buckets;
  std::uint32_t mask = 0;  // buckets - 1
};

// Images of items in a device's memory: what ItemImages is to its kernels.
struct DeviceImages {
  DevicePtr<Granule> granules;
  DevicePtr<std::uint32_t> marks;
  std::uint32_t count = 0;  // granules; 0: there are none
  std::uint32_t item_granules = 0;
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

  // --- kernels. Arrays may lie in the device's memory or in pinned memory.

  // Of several batches in one launch: location[i]: of the first cell with f[i]'s signature in its two buckets, or
  // no_location; and the images of the items there, for parts that ask for them. The bit `accessed` of an image says
  // whether a search has copied it since its mark was cleared, by apply_images() or by zero(). REQUIRES: parts <=
  // search_parts_max.
  [[nodiscard]] virtual DeviceStatus search_parts(DeviceIndex index, const DeviceImages& images, const SearchPart* part,
                                                  std::uint32_t parts) noexcept = 0;
  // One batch, without images.
  [[nodiscard]] DeviceStatus search(DeviceIndex index, DevicePtr<const Fingerprint> f, DevicePtr<Location> location,
                                    std::uint32_t count) noexcept {
    const SearchPart part{f.address(), location.address(), count};
    return search_parts(index, {}, &part, 1);
  }
  // done[i]: 1 if the key was added, 0 if the table is full for it. REQUIRES: no key of the batch is in the table or in
  // the batch twice.
  [[nodiscard]] virtual DeviceStatus insert(DeviceIndex index, DevicePtr<const Fingerprint> f,
                                            DevicePtr<const Location> location, DevicePtr<std::uint8_t> done,
                                            std::uint32_t count) noexcept = 0;
  // done[i]: 1 if the cell of this fingerprint and location was removed.
  [[nodiscard]] virtual DeviceStatus erase(DeviceIndex index, DevicePtr<const Fingerprint> f,
                                           DevicePtr<const Location> location, DevicePtr<std::uint8_t> done,
                                           std::uint32_t count) noexcept = 0;
  // In two passes: every change whose cell (f's signature, from) is in one of f's buckets makes it (signature, to), or
  // empty if to is 0; then those with a `to` that found no such cell are inserted. done[i]: 1, also when there was
  // nothing to remove, or 0: the table is full for it, and has no cell of it. REQUIRES: no two changes name the same
  // `from`, or the same `to`, other than 0; no change's `from` is another's `to`; no key that is inserted is in the
  // table already. A search that runs meanwhile, on another stream, may miss a key that is moved to make room.
  [[nodiscard]] virtual DeviceStatus change(DeviceIndex index, DevicePtr<const CellChange> changes,
                                            DevicePtr<std::uint8_t> done, std::uint32_t count) noexcept = 0;
  // Stores each cell; of several for one cell the last one in `cells` counts. `winners`: 4 bytes for each cell of the
  // table, all zero before and after. Cells beyond the table are left out.
  [[nodiscard]] virtual DeviceStatus apply(DeviceIndex index, DevicePtr<std::uint32_t> winners,
                                           DevicePtr<const DirtyCell> cells, std::uint32_t count) noexcept = 0;
  // Stores granules[i] at location[i] and clears its mark; of several for one location any counts. Locations beyond the
  // images are left out.
  [[nodiscard]] virtual DeviceStatus apply_images(const DeviceImages& images, DevicePtr<const Location> location,
                                                  DevicePtr<const Granule> granules, std::uint32_t count) noexcept = 0;

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
