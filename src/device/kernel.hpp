// A kernel: a function that a Stream launches with arguments. The layer that owns the data defines the kernel; the
// device layer only launches it.
//
// Its arguments are a trivially copyable struct that states how much work a launch is (`queries()`) and what memory it
// reads and writes (`memory()`). A simulated device checks that memory before the launch and runs the kernel's host
// entry on it; a GPU gets the same struct through the CUDA entry. So both entries get the same information.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "device/device_ptr.hpp"

struct CUstream_st;  // CUDA's: cudaStream_t points to one

namespace tandem {

struct MemoryRange {
  std::uint64_t address, bytes, alignment;  // in bytes; address: as the device sees it
  bool written;
};

// Collects the memory that a launch reads and writes.
class MemoryUse {
 public:
  explicit MemoryUse(std::vector<MemoryRange>& ranges) noexcept : ranges_(ranges) {}
  // `count` elements from `at` on: read, and also written unless T is const. A count of 0 is no memory. Throws
  // std::bad_alloc.
  template <class T>
  void add(DevicePtr<T> at, std::uint64_t count) {
    if (count != 0) ranges_.push_back({at.address(), count * sizeof(T), alignof(T), !std::is_const_v<T>});
  }
  // The arguments are invalid for any memory: the launch fails.
  void refuse() noexcept { refused_ = true; }
  bool refused() const noexcept { return refused_; }

 private:
  std::vector<MemoryRange>& ranges_;
  bool refused_ = false;
};

// Maps the memory named by a launch's arguments to host addresses, for the host entry. Thread safety: none.
class HostMemory {
 public:
  // REQUIRES: one place per range, in the same order.
  HostMemory(std::span<const MemoryRange> ranges, std::span<std::byte* const> places) noexcept
      : ranges_(ranges), places_(places) {}
  // Null if the arguments did not name this memory, or named it read-only and T is not const.
  template <class T>
  T* at(DevicePtr<T> p) const noexcept {
    return reinterpret_cast<T*>(place_of(p.address(), !std::is_const_v<T>));
  }

 private:
  std::byte* place_of(std::uint64_t address, bool to_write) const noexcept;

  std::span<const MemoryRange> ranges_;
  std::span<std::byte* const> places_;
  mutable std::size_t next_ = 0;  // index of the last hit: entries ask in the order of `memory()`
};

template <class A>
concept KernelArguments =
    std::is_trivially_copyable_v<A> && alignof(A) <= alignof(std::max_align_t) && requires(const A a, MemoryUse& use) {
      { a.queries() } noexcept -> std::same_as<std::uint64_t>;  // determines the time it takes; 0: no work
      a.memory(use);
    };

// Returns CUDA's error number (cudaError_t) of the launch; 0: it is queued. Reads the arguments before it returns.
template <class A>
using CudaEntry = int (*)(const A& arguments, CUstream_st* stream) noexcept;

// Kernels have static lifetime.
template <KernelArguments A>
struct Kernel {
  const char* name;
  // The kernel's work, on one host thread. False: it failed.
  bool (*host)(const A& arguments, const HostMemory& memory) noexcept;
  CudaEntry<A> cuda;  // nullptr in a program built without CUDA
};

#if defined(TANDEM_CUDA)
inline constexpr bool built_with_cuda = true;
#else
inline constexpr bool built_with_cuda = false;
#endif

// The CUDA entry `entry`, which need not be defined in a program built without CUDA.
template <class A, CudaEntry<A> entry>
constexpr CudaEntry<A> cuda_entry() noexcept {
  if constexpr (built_with_cuda) {
    return entry;
  } else {
    return nullptr;
  }
}

// One launch, whatever its kernel: passed by Stream::launch() to a kind of device. Valid during the call; later use
// needs a copy of the arguments.
class KernelLaunch {
 public:
  template <KernelArguments A>
  KernelLaunch(const Kernel<A>& kernel, const A& arguments) noexcept
      : kernel_(&kernel),
        arguments_(reinterpret_cast<const std::byte*>(&arguments)),
        bytes_(sizeof(A)),
        queries_(arguments.queries()),
        memory_([](const std::byte* a, MemoryUse& use) { reinterpret_cast<const A*>(a)->memory(use); }),
        host_([](const void* k, const std::byte* a, const HostMemory& memory) noexcept {
          return static_cast<const Kernel<A>*>(k)->host(*reinterpret_cast<const A*>(a), memory);
        }),
        cuda_([](const void* k, const std::byte* a, CUstream_st* stream) noexcept {
          return static_cast<const Kernel<A>*>(k)->cuda(*reinterpret_cast<const A*>(a), stream);
        }) {}

  std::uint64_t queries() const noexcept { return queries_; }
  std::span<const std::byte> arguments() const noexcept { return {arguments_, bytes_}; }
  void memory(MemoryUse& use) const { memory_(arguments_, use); }
  // REQUIRES: a kernel with a CUDA entry.
  int cuda(CUstream_st* stream) const noexcept { return cuda_(kernel_, arguments_, stream); }

  // Runs a copy of the arguments later.
  class Host {
   public:
    bool operator()(std::span<const std::byte> arguments, const HostMemory& memory) const noexcept {
      return host_(kernel_, arguments.data(), memory);
    }

   private:
    friend class KernelLaunch;
    using Entry = bool (*)(const void*, const std::byte*, const HostMemory&) noexcept;
    Host(const void* kernel, Entry host) noexcept : kernel_(kernel), host_(host) {}
    const void* kernel_;
    Entry host_;
  };
  Host host() const noexcept { return {kernel_, host_}; }

 private:
  const void* kernel_;
  const std::byte* arguments_;
  std::size_t bytes_;
  std::uint64_t queries_;
  void (*memory_)(const std::byte*, MemoryUse&);
  Host::Entry host_;
  int (*cuda_)(const void*, const std::byte*, CUstream_st*) noexcept;
};

}  // namespace tandem
