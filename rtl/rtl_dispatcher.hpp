// HeteroKV's dispatcher as hardware: rtl/dispatcher.sv in simulation (rtl/README.md).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tandem::rtl {

struct Separator {
  uint32_t key;  // the leaf has keys from here on
  uint16_t leaf;
};

// Drives the model cycle by cycle. What it tells of time are cycles of the design's clock, never time of the
// simulation.
//
// Thread safety: none; one thread uses it.
class RtlDispatcher {
 public:
  static constexpr uint32_t batch_max = 8192;

  // An entry of the head table: so many requests of a leaf, from place `first` of the queue on.
  struct Head {
    uint16_t leaf;
    uint16_t count;
    uint16_t first;
    bool operator==(const Head&) const = default;
  };

  struct Dispatched {
    std::vector<uint16_t> queue;   // requests by number: in order of key, among equal keys of number
    std::vector<uint16_t> leaves;  // of each request, by its number
    std::vector<Head> heads;
    uint64_t ended = 0;  // the cycle after its last block
  };

  enum class Update : uint8_t {
    done,
    refused,    // insert: a level of the tree has no node left
    not_found,  // remove: there is no such separator, or it is the first leaf's
  };

  // In so many of 100 cycles requests are withheld, or the queue is not taken.
  struct Stalls {
    uint32_t in_percent = 0;
    uint32_t out_percent = 0;
    uint32_t seed = 1;
  };

  RtlDispatcher();
  ~RtlDispatcher();
  RtlDispatcher(const RtlDispatcher&) = delete;
  RtlDispatcher& operator=(const RtlDispatcher&) = delete;

  // Resets the design and inserts ascending separators, the first of which has key 0. False if they do not fit.
  bool load(std::span<const Separator> separators);

  // Each takes the cycles until all copies of the tree have accepted it; a remove, until it is done.
  Update insert(Separator separator);
  Update remove(uint32_t key);

  // REQUIRES: at most batch_max keys a batch. Batches follow each other without a gap.
  Dispatched dispatch(std::span<const uint32_t> keys);
  std::vector<Dispatched> dispatch_all(const std::vector<std::vector<uint32_t>>& batches);

  // The inserts are offered one by one while the batches are dispatched, up to twice `gap_cycles` after each other. An
  // insert that comes within a batch waits for its end.
  std::vector<Dispatched> dispatch_all(const std::vector<std::vector<uint32_t>>& batches,
                                       std::span<const Separator> inserts, uint32_t gap_cycles);

  void stall(Stalls stalls);
  uint64_t cycles() const;     // since the last load()
  bool copies_differ() const;  // the copies have answered an update differently

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::rtl
