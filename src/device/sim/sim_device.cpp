#include "device/sim/sim_device.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <system_error>

#include "device/sim/sim_core.hpp"
#include "device/sim/sim_stream.hpp"

namespace tandem {
namespace {

void refuse_when_lost(const sim::Core& core) {
  if (core.lost()) throw DeviceError(DeviceStatus::lost, "sim: the device is lost");
}

std::uint64_t allocate_in(sim::Core& core, sim::Space space, std::uint64_t bytes) {
  core.wait_for_calls();
  refuse_when_lost(core);
  std::uint64_t address = 0;
  try {
    address = core.memory.allocate(space, bytes);
  } catch (const std::bad_alloc&) {
    address = 0;
  }
  if (address == 0) throw DeviceError(DeviceStatus::out_of_memory, "sim: no " + std::to_string(bytes) + " bytes left");
  return address;
}

}  // namespace

std::unique_ptr<SimDevice> make_sim_device(const SimOptions& options) { return std::make_unique<SimDevice>(options); }

SimDevice::SimDevice(const SimOptions& options) : core_(std::make_shared<sim::Core>(options)) {}
SimDevice::~SimDevice() = default;

const DeviceInfo& SimDevice::info() const noexcept { return core_->info; }
std::uint64_t SimDevice::memory_free_bytes() noexcept { return core_->lost() ? 0 : core_->memory.free_bytes(); }

std::unique_ptr<Stream> SimDevice::make_stream() {
  refuse_when_lost(*core_);
  try {
    return std::make_unique<sim::SimStream>(core_);
  } catch (const std::system_error& error) {
    throw DeviceError(DeviceStatus::failed, std::string("sim: no thread for a stream: ") + error.what());
  }
}

DevicePtr<std::byte> SimDevice::allocate(std::uint64_t bytes) {
  if (bytes == 0) return {};
  return DevicePtr<std::byte>(allocate_in(*core_, sim::Space::device, bytes));
}
void SimDevice::release(DevicePtr<std::byte> at) noexcept {
  core_->wait_for_calls();
  core_->memory.release(at.address(), false);
}

PinnedBlock SimDevice::allocate_pinned(std::uint64_t bytes) {
  if (bytes == 0) return {};
  const DevicePtr<std::byte> at(allocate_in(*core_, sim::Space::pinned, bytes));
  return {core_->memory.find(at.address(), bytes, 1).at, at};
}
void SimDevice::release_pinned(PinnedBlock block) noexcept {
  core_->wait_for_calls();
  core_->memory.release(block.device.address(), core_->lost());
}

bool SimDevice::lost() const noexcept { return core_->lost(); }
std::string SimDevice::lost_reason() const { return core_->lost() ? "it was given up, or told to be lost" : ""; }
void SimDevice::abandon() noexcept { core_->set_lost(); }

void SimDevice::slow(double factor) noexcept { core_->slow.store(factor); }
void SimDevice::refuse(std::uint64_t nth) noexcept { core_->refuse.set(nth); }
void SimDevice::fail(std::uint64_t nth) noexcept { core_->fail.set(nth); }
void SimDevice::hang() noexcept { core_->set_hung(true); }
void SimDevice::resume() noexcept {
  core_->set_hung(false);
  core_->set_calls_blocked(false);
}
void SimDevice::block_calls() noexcept { core_->set_calls_blocked(true); }
void SimDevice::lose() noexcept { core_->set_lost(); }

}  // namespace tandem
