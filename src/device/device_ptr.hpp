// An address as a device sees it.
#pragma once
#include <cstdint>
#include <type_traits>

namespace tandem {

// Address of the device's own memory, or of pinned host memory. The host must not dereference it.
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
static_assert(std::is_trivially_copyable_v<DevicePtr<int>>);

}  // namespace tandem
