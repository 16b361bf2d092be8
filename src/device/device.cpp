#include "device/device.hpp"

namespace tandem {

std::string_view name_of(DeviceStatus status) noexcept {
  switch (status) {
    case DeviceStatus::ok:
      return "ok";
    case DeviceStatus::pending:
      return "pending";
    case DeviceStatus::out_of_memory:
      return "out of memory";
    case DeviceStatus::failed:
      return "failed";
    case DeviceStatus::lost:
      return "lost";
  }
  return "unknown";
}

std::byte* HostMemory::place_of(std::uint64_t address, bool to_write) const noexcept {
  for (std::size_t looked = 0; looked < ranges_.size(); ++looked) {
    const std::size_t i = (next_ + looked) % ranges_.size();
    const MemoryRange& range = ranges_[i];
    if (address < range.address || address - range.address >= range.bytes || (to_write && !range.written)) continue;
    next_ = i;
    return places_[i] + (address - range.address);
  }
  return nullptr;
}

}  // namespace tandem
