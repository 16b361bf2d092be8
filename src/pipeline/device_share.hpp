// The share of its batches that a worker offloads when the devices may not keep up. Coarse stealing (DIDO III-B3) with
// ranges that are fixed at the launch: the front of a batch for the device, the back for the host, in sets of 64 (write
// protocol 9). Departure: the host's part is searched when the batch is answered, between its other tasks, where its
// cache misses cost least; while the device searches, the worker has other batches.
//
// The device is too slow when a worker without a free place for another batch has to wait for the oldest one.
//
// Thread safety: one thread.
#pragma once
#include <algorithm>
#include <cstdint>

namespace tandem {

class DeviceShare {
 public:
  static constexpr std::uint32_t set = 64;      // queries of a set
  static constexpr unsigned whole = 16;         // parts of a batch
  static constexpr unsigned quiet_answers = 4;  // without a wait, before the device gets one part more
  static constexpr unsigned host_batches = 64;  // without a device, before it is tried again

  // Queries of a new batch for the device: a multiple of a set, or all. 0: the host gets it.
  std::uint32_t queries(std::uint32_t batch) noexcept {
    if (parts_ == whole) return batch;
    if (parts_ == 0) {
      if (++host_batches_ <= host_batches) return 0;
      host_batches_ = 0;
      return std::min(batch, set);
    }
    const auto share = static_cast<std::uint32_t>(std::uint64_t{batch} * parts_ / whole);
    return std::min(batch, std::max(share / set, 1u) * set);
  }
  // Reports that a batch with a device's share is answered. pressed: the next batch needed its place. waited: the
  // device was not done.
  void answered(bool pressed, bool waited) noexcept {
    if (pressed && waited) {
      quiet_answers_ = 0;
      parts_ -= parts_ != 0 ? 1 : 0;
    } else if (++quiet_answers_ == quiet_answers) {
      quiet_answers_ = 0;
      parts_ += parts_ != whole ? 1 : 0;
    }
  }
  unsigned parts() const noexcept { return parts_; }

 private:
  unsigned parts_ = whole, quiet_answers_ = 0, host_batches_ = 0;
};

}  // namespace tandem
