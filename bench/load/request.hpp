// Requests in flight, and the results of checking their replies.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/workload/spec.hpp"

namespace tandem::load {

enum class RequestKind : std::uint8_t { get, multiget, set, remove, touch, scan };
inline constexpr std::size_t request_kind_count = 6;

// One request for `key_count` keys; only a multiget has more than one.
struct Request {
  std::uint64_t start_ns;  // when it was sent; in an open loop, when it should have been
  std::uint64_t key;       // the first
  std::uint32_t key_count;
  std::uint32_t bytes;        // without a UDP frame
  std::uint32_t value_bytes;  // of a set
  union {
    std::uint32_t ttl_s;       // of a set or touch; 0: never expires
    std::uint32_t scan_items;  // of a scan: how many at most, from `key` on
  };
  std::uint32_t opaque;  // binary: of the first key; those of the other keys follow, then that of the noop after them
  std::uint8_t phase;    // index of the alternating workload
  RequestKind kind;
  workload::OpKind op;  // the kind that it counts as
};
static_assert(sizeof(Request) == 40);

// The content of one send: requests, each behind room for a UDP frame if there is one. `keys` are those of its
// multigets, in order. Prepared before it is due. Thread safety: none.
struct Batch {
  std::vector<char> buffer;
  std::size_t size = 0;
  std::vector<Request> requests;
  std::vector<std::uint64_t> keys;
  std::uint64_t ops = 0;

  void clear() noexcept {
    size = 0;
    requests.clear();
    keys.clear();
    ops = 0;
  }
  std::string_view bytes() const noexcept { return {buffer.data(), size}; }
};

// wrong_value: a value that was not set, between valid headers: the reply's length is known and the run can continue.
// After a reply that is wrong in any other way nothing more can be parsed.
enum class ReplyStatus : std::uint8_t { complete, partial, wrong_value, wrong };

struct ReplyCheck {
  ReplyStatus status;
  std::uint32_t hits = 0;        // keys that were found; of a scan: items
  std::size_t bytes = 0;         // of the reply
  std::string_view what = {};    // the complaint, if wrong
  std::uint32_t other_keys = 0;  // getk: answers for a key other than the requested one
  // Of a scan: how many of the keys that belong into it, had each been set, are not in it.
  std::uint32_t missing_keys = 0;
  bool is_cut = false;       // a scan that ended early, though its range goes on
  std::size_t fault_at = 0;  // of a scan's reply: where what is wrong begins
};

// Requests that have been sent, in order, with their keys. Thread safety: none.
class PendingRequests {
 public:
  bool empty() const noexcept { return head_ == requests_.size(); }
  std::size_t size() const noexcept { return requests_.size() - head_; }
  const Request& front() const noexcept { return requests_[head_]; }
  const std::uint64_t* front_keys() const noexcept {
    return front().key_count == 1 ? &front().key : keys_.data() + key_head_;
  }

  void push(const Request& request) { requests_.push_back(request); }
  // All of a batch, which start at `start_ns`.
  void push(const Batch& batch, std::uint64_t start_ns) {
    const std::size_t first = requests_.size();
    requests_.insert(requests_.end(), batch.requests.begin(), batch.requests.end());
    for (std::size_t i = first; i < requests_.size(); ++i) requests_[i].start_ns = start_ns;
    if (!batch.keys.empty()) keys_.insert(keys_.end(), batch.keys.begin(), batch.keys.end());
  }
  void pop() noexcept {
    const std::uint32_t key_count = requests_[head_++].key_count;
    if (key_count > 1) key_head_ += key_count;
    if (empty()) {
      requests_.clear();
      keys_.clear();
      head_ = key_head_ = 0;
    } else if (head_ >= compact_at && head_ * 2 >= requests_.size()) {
      requests_.erase(requests_.begin(), requests_.begin() + static_cast<std::ptrdiff_t>(head_));
      keys_.erase(keys_.begin(), keys_.begin() + static_cast<std::ptrdiff_t>(key_head_));
      head_ = key_head_ = 0;
    }
  }

 private:
  static constexpr std::size_t compact_at = 1024;  // rarely enough to be free
  std::vector<Request> requests_;
  std::vector<std::uint64_t> keys_;
  std::size_t head_ = 0, key_head_ = 0;
};

}  // namespace tandem::load
