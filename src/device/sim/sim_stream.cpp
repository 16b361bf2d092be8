#include "device/sim/sim_stream.hpp"

#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace tandem::sim {

SimStream::SimStream(std::shared_ptr<Core> core) : queue_(std::make_shared<Queue>(std::move(core))) {
  thread_ = std::thread([queue = queue_] { queue->run(); });
}

SimStream::~SimStream() {
  queue_->close();
  thread_.join();
  queue_->drop();  // work submitted while the device was lost
}

DeviceStatus SimStream::submit(Work work) noexcept {
  Core& core = queue_->core();
  if (core.lost()) return DeviceStatus::lost;
  if (core.refuse.hit()) return DeviceStatus::failed;
  for (const MemoryRange& range : work.ranges) {
    if (core.memory.find(range.address, range.bytes, range.alignment).at == nullptr) return DeviceStatus::failed;
  }
  return queue_->push(std::move(work));
}

DeviceStatus SimStream::copy(Engine engine, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) noexcept {
  try {
    Work work;
    work.engine = engine;
    work.duration = queue_->core().copy_time(bytes);
    work.ranges = {{to, bytes, 1, true}, {from, bytes, 1, false}};
    work.run = [to = DevicePtr<std::byte>(to), from = DevicePtr<const std::byte>(from),
                bytes](const HostMemory& memory) {
      std::memcpy(memory.at(to), memory.at(from), bytes);
      return true;
    };
    return submit(std::move(work));
  } catch (const std::bad_alloc&) {
    return DeviceStatus::out_of_memory;
  }
}

DeviceStatus SimStream::copy_to_device(DevicePtr<std::byte> to, const void* from, std::uint64_t bytes) noexcept {
  if (bytes == 0) return queue_->poll(0);
  return copy(Engine::copy_in, to.address(), queue_->core().memory.address_of(from, bytes), bytes);
}

DeviceStatus SimStream::copy_to_host(void* to, DevicePtr<const std::byte> from, std::uint64_t bytes) noexcept {
  if (bytes == 0) return queue_->poll(0);
  return copy(Engine::copy_out, queue_->core().memory.address_of(to, bytes), from.address(), bytes);
}

DeviceStatus SimStream::zero(DevicePtr<std::byte> at, std::uint64_t bytes) noexcept {
  if (bytes == 0) return queue_->poll(0);
  try {
    Work work;
    work.ranges = {{at.address(), bytes, 1, true}};
    work.run = [at, bytes](const HostMemory& memory) {
      set_to_zero(memory.at(at), bytes);
      return true;
    };
    return submit(std::move(work));
  } catch (const std::bad_alloc&) {
    return DeviceStatus::out_of_memory;
  }
}

DeviceStatus SimStream::launch(const KernelLaunch& launch) noexcept {
  if (queue_->core().lost()) return DeviceStatus::lost;
  if (launch.queries() == 0) return DeviceStatus::ok;
  try {
    Work work;
    work.duration = queue_->core().kernel_time(launch.queries());
    MemoryUse use(work.ranges);
    launch.memory(use);
    if (use.refused()) return DeviceStatus::failed;
    // A vector's memory is aligned for any type that KernelArguments allows.
    work.run = [host = launch.host(),
                arguments = std::vector<std::byte>(launch.arguments().begin(), launch.arguments().end())](
                   const HostMemory& memory) { return host(arguments, memory); };
    return submit(std::move(work));
  } catch (const std::bad_alloc&) {
    return DeviceStatus::out_of_memory;
  }
}

DeviceStatus SimStream::after(Stream& other, DeviceMark mark) noexcept {
  if (queue_->core().lost()) return DeviceStatus::lost;
  const auto* const stream = dynamic_cast<const SimStream*>(&other);
  if (stream == nullptr || &stream->queue_->core() != &queue_->core()) return DeviceStatus::failed;
  if (stream == this) return DeviceStatus::ok;
  Work work;
  work.mark = mark;
  work.other = stream->queue_;
  return queue_->push(std::move(work));
}

}  // namespace tandem::sim
