// What share of its batches a worker leaves to the devices, if they may not be able to keep up: coarse stealing (DIDO
// III-B3), with ranges that are fixed at the launch, the front of a batch for the device, the back for the host, in
// sets of 64 (write protocol 9). Departure: the host's part is searched when the batch is answered, between its other
// tasks, where its cache misses cost least; while the device searches, the worker has other batches.
//
// The device cannot keep up when a worker that has no place left for another batch has to wait for the oldest one.
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
  static constexpr unsigned quiet_answers = 4;  // without a wait, until the device gets a part more
  static constexpr unsigned host_batches = 64;  // without a device, until it is tried again

  // Of a batch that begins now: sets, or all of it. 0: it is the host's.
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
  // A batch of which a device had a share is answered. pressed: it had to be, for the next one. waited: it was not
  // done.
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
