// A stream of a simulated device: what is asked is checked here, and done by the queue's thread.
#pragma once
#include <initializer_list>
#include <memory>
#include <span>
#include <thread>

#include "device/device.hpp"
#include "device/sim/sim_queue.hpp"

namespace tandem::sim {

class SimStream final : public Stream {
 public:
  explicit SimStream(std::shared_ptr<Core> core);
  ~SimStream() override;

  DeviceStatus copy_to_device(DevicePtr<std::byte> to, const void* from, std::uint64_t bytes) noexcept override;
  DeviceStatus copy_to_host(void* to, DevicePtr<const std::byte> from, std::uint64_t bytes) noexcept override;
  DeviceStatus zero(DevicePtr<std::byte> at, std::uint64_t bytes) noexcept override;
  DeviceStatus search_parts(DeviceIndex index, const DeviceImages& images, const SearchPart* part,
                            std::uint32_t parts) noexcept override;
  DeviceStatus insert(DeviceIndex index, DevicePtr<const Fingerprint> f, DevicePtr<const Location> location,
                      DevicePtr<std::uint8_t> done, std::uint32_t count) noexcept override;
  DeviceStatus erase(DeviceIndex index, DevicePtr<const Fingerprint> f, DevicePtr<const Location> location,
                     DevicePtr<std::uint8_t> done, std::uint32_t count) noexcept override;
  DeviceStatus change(DeviceIndex index, DevicePtr<const CellChange> changes, DevicePtr<std::uint8_t> done,
                      std::uint32_t count) noexcept override;
  DeviceStatus apply(DeviceIndex index, DevicePtr<std::uint32_t> winners, DevicePtr<const DirtyCell> cells,
                     std::uint32_t count) noexcept override;
  DeviceStatus apply_images(const DeviceImages& images, DevicePtr<const Location> location,
                            DevicePtr<const Granule> granules, std::uint32_t count) noexcept override;
  DeviceMark mark() noexcept override { return queue_->mark(); }
  DeviceStatus poll(DeviceMark mark) noexcept override { return queue_->poll(mark); }
  DeviceStatus wait(DeviceMark mark, std::chrono::nanoseconds limit) noexcept override {
    return queue_->wait(mark, limit);
  }
  DeviceStatus after(Stream& other, DeviceMark mark) noexcept override;
  std::uint64_t elapsed_ns(DeviceMark from, DeviceMark to) noexcept override { return queue_->elapsed_ns(from, to); }

 private:
  using Run = std::function<bool(const Places&)>;
  DeviceStatus push(Engine engine, Nanoseconds duration, std::span<const Range> ranges, Run run) noexcept;
  DeviceStatus submit(Engine engine, Nanoseconds duration, std::initializer_list<Range> ranges, Run run) noexcept;
  using Update = bool (*)(IndexView, Fingerprint, Location) noexcept;
  DeviceStatus update(Update one, DeviceIndex index, DevicePtr<const Fingerprint> f, DevicePtr<const Location> location,
                      DevicePtr<std::uint8_t> done, std::uint32_t count) noexcept;
  DeviceStatus copy(Engine engine, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) noexcept;

  const std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace tandem::sim
