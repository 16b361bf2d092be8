// HeteroKV's dispatch (III-B, III-C2) between the threads of a cell: the requests of a leaf are executed by one thread,
// the thread that has received them, so that neither a leaf's lines nor a popular item's wander between processors'
// caches.
//
// A member of the group divides each batch that it receives into parcels, one for each member, by the leaves of the
// keys; each member executes the parcels that it is given; and the receiver puts the replies in the order of its
// requests. Batches that were received by one member are executed in their order, as far as they have keys in common.
//
// Departures from the paper. The dispatcher is the receiving processor, not an FPGA. It looks a key up among 256 ranges
// of leaves, not among all leaves: what matters is which thread, and a batch meets most leaves once or twice. Ranges
// are given to threads by how often they are asked for, not queue entries as threads become free. A parcel that its
// member does not begin for a while is taken back and executed by the receiver.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/platform.hpp"
#include "codec/output.hpp"
#include "index/hash_tree/key_tree.hpp"

namespace tandem::bench {

// A tree's leaves, cut into neighbouring ranges of as many leaves each. Between two ranges is a leaf's first key, of
// which four bytes behind what all such keys begin with are compared.
class LeafRanges {
 public:
  static constexpr std::uint32_t block = 16, count = block * block;

  // REQUIRES: inside an epoch of the tree's.
  explicit LeafRanges(const HashTree& tree);
  // Grows with the key, among keys that begin as those first keys do; other keys are in any range.
  TD_INLINE std::uint32_t range_of(std::string_view key) const noexcept {
    const std::int32_t head = InnerNode::head_of(key, common_bytes_);
    const std::uint32_t at = std::min(not_above(last_heads_.data(), head), block - 1) * block;
    return std::min(at + not_above(heads_.data() + at, head), count - 1);
  }

 private:
  TD_INLINE static std::uint32_t not_above(const std::int32_t* heads, std::int32_t head) noexcept {
    std::int32_t found = 0;
    for (std::uint32_t i = 0; i < block; ++i) found += heads[i] <= head ? 1 : 0;
    return static_cast<std::uint32_t>(found);
  }

  std::size_t common_bytes_ = 0;
  alignas(cache_line_bytes) std::array<std::int32_t, block> last_heads_{};  // of each block
  std::array<std::int32_t, count> heads_{};                                 // of the first key above each range
};

// Requests of one batch for one member.
struct Parcel {
  enum class State : std::uint8_t { empty, posted, done };
  alignas(cache_line_bytes) std::atomic<State> state{State::empty};
  std::unique_ptr<char[]> requests;
  std::size_t request_bytes = 0;
  std::string replies;   // of the member that has executed it
  bool follows = false;  // it was taken together with the parcel before it on its way
};

// Thread safety: any thread; parcels as DispatchMember has them.
class DispatchGroup {
 public:
  static constexpr unsigned members_max = 64;

  // Throws std::invalid_argument: more than members_max. REQUIRES: inside an epoch of the tree's.
  DispatchGroup(const HashTree& tree, unsigned members, std::size_t batch_bytes);

 private:
  friend class DispatchMember;
  static constexpr std::uint32_t flights_max = 3;
  using Owners = std::array<std::uint8_t, LeafRanges::count>;

  // From one member to another one. Its parcels are executed in the order in which they were posted, by one thread at a
  // time, which holds it.
  struct Way {
    alignas(cache_line_bytes) std::atomic<bool> is_held{false};
    std::uint32_t next = 0;  // parcel to execute; the holder's
    std::array<Parcel, flights_max> parcels;
  };
  struct alignas(cache_line_bytes) Member {
    std::atomic<std::uint64_t> posted{0};  // bit i: member i has posted parcels
    // Requests of a sample, by range.
    alignas(cache_line_bytes) std::array<std::atomic<std::uint32_t>, LeafRanges::count> asked_for{};
  };

  Way& way(unsigned from, unsigned to) noexcept { return ways_[from * members_.size() + to]; }
  // Gives the ranges to members, so that each is asked for about as often. One thread at a time.
  void balance() noexcept;

  const LeafRanges ranges_;
  std::vector<Member> members_;
  std::vector<Way> ways_;
  std::array<std::atomic<std::uint8_t>, LeafRanges::count> owner_{};
  std::atomic<std::uint32_t> version_{0};  // of owner_
  std::atomic<bool> has_failed_{false};
};

// Thread safety: one thread at a time.
class DispatchMember {
 public:
  static constexpr std::uint32_t in_flight_max = DispatchGroup::flights_max - 1;

  // REQUIRES: the group outlives the member; members have different numbers, below the group's.
  DispatchMember(DispatchGroup& group, unsigned number) noexcept : group_(group), number_(number) {}

  // Whether the ranges have other owners since: the member should finish what is in flight, and then post() takes the
  // new ones. Until then it goes on with the old ones, so that requests of one key are executed in order.
  bool must_finish() const noexcept {
    return version_ != group_.version_.load(std::memory_order_relaxed) && in_flight_ != 0;
  }
  std::uint32_t in_flight() const noexcept { return in_flight_; }
  // Divides the batch, plain `get` of one key and `set`, all complete, and posts its parcels. received_ticks: for
  // take_replies(). REQUIRES: 64 readable bytes behind each input; in_flight() <= in_flight_max; no more bytes than the
  // group's batches have. Throws std::invalid_argument for any other request.
  void post(std::span<const std::string_view> inputs, std::uint64_t received_ticks);

  // Parcels that this member is to execute, those of one way in their order; nothing: there are none. finish_parcels()
  // must follow, or fail(), behind which other threads' replies may never come.
  std::span<Parcel* const> take_parcels();
  // Those of its own oldest batch that no other member has begun, and the ones behind them.
  std::span<Parcel* const> take_back();
  void finish_parcels() noexcept;
  void fail() noexcept { group_.has_failed_.store(true, std::memory_order_relaxed); }
  bool has_failed() const noexcept { return group_.has_failed_.load(std::memory_order_relaxed); }

  // REQUIRES of both: in_flight() != 0, and of the second: oldest_is_done().
  bool oldest_is_done() noexcept;
  struct Answered {
    std::uint64_t queries = 0, received_ticks = 0;
  };
  // Appends the replies to the oldest batch.
  Answered take_replies(Output& out);

  // Parcels with requests, for other members, that it has executed itself.
  std::uint64_t taken_back() const noexcept { return taken_back_; }

 private:
  struct Flight {
    std::vector<std::uint8_t> owners;  // of its requests, in order
    std::uint64_t received_ticks = 0;
  };
  void hold_and_take(DispatchGroup::Way& way);
  void refresh() noexcept;

  DispatchGroup& group_;
  const unsigned number_;
  std::uint32_t version_ = ~std::uint32_t{0};
  DispatchGroup::Owners owner_{};
  std::array<Flight, DispatchGroup::flights_max> flights_;
  std::uint32_t oldest_ = 0, in_flight_ = 0;
  std::uint64_t unbalanced_ = 0, taken_back_ = 0;
  std::vector<Parcel*> taken_;
  std::vector<DispatchGroup::Way*> held_;
};

}  // namespace tandem::bench
