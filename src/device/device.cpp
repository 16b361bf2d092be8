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

}  // namespace tandem
