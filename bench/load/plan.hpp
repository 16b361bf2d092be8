// State shared by all threads of a run, and the construction of a connection's next requests.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bench/load/codec.hpp"
#include "bench/load/options.hpp"
#include "bench/load/request.hpp"
#include "bench/workload/keys.hpp"
#include "bench/workload/stream.hpp"

namespace tandem::load {

// Maximum number of operations sent before a get of several keys, for each of its keys.
inline constexpr std::uint32_t others_per_key_max = 4;

// One of the alternating workloads, or the replayed trace (without key space and streams).
struct Phase {
  workload::Spec spec;
  std::unique_ptr<const workload::KeySpace> keys;
  std::unique_ptr<const Codec> codec;
};

// Thread safety: immutable once the run has started.
struct Plan {
  explicit Plan(const Options& options);

  Options options;
  std::optional<workload::Trace> trace;
  std::optional<workload::TracePartition> partition;  // by connection
  std::vector<Phase> phases;
  std::size_t frame_bytes;     // room to leave before each request
  std::uint64_t start_ns = 0;  // set before the threads start

  const Codec& codec_of(const Request& request) const noexcept { return *phases[request.phase].codec; }
  // Number of operations of connection `index`, if the options limit them; UINT64_MAX: no limit.
  std::uint64_t quota_of(std::uint32_t index) const noexcept;
  // Approximate mean number of operations of a batch.
  double ops_per_batch() const noexcept;
};

// The second half of a read-modify-write: the write.
struct FollowUp {
  std::uint64_t key, start_ns;
  std::uint32_t value_bytes, ttl_s;
  std::uint8_t phase;
};

// Makes the batches of one connection: the same options and index make the same requests, byte for byte (unless
// workloads alternate by time). Thread safety: none.
class RequestMaker {
 public:
  RequestMaker(const Plan& plan, std::uint32_t connection);

  // Fills `batch` with the next requests; it stays empty when the connection has done its share.
  void make(Batch& batch, std::uint64_t now_ns);
  // Fills it with the writes that the preceding reads require; the requests have their start times.
  void make_follow_ups(Batch& batch, const std::vector<FollowUp>& follow_ups);
  // For a trace that is replayed by its own times: when the next batch is due after the start. UINT64_MAX: never.
  std::uint64_t next_due_ns() const noexcept;

 private:
  std::uint8_t phase_at(std::uint64_t now_ns) const noexcept;
  struct Drawn {
    workload::OpKind kind;
    std::uint64_t key;
    std::uint32_t value_bytes, ttl_s;  // of what is written
    std::uint32_t scan_items;
  };
  bool has_more() const noexcept { return ops_made_ < quota_; }
  Drawn draw(std::uint8_t phase) noexcept;
  void make_multiget_slot(Batch& batch, std::uint8_t phase);
  void add_op(Batch& batch, const Drawn& drawn, std::uint8_t phase);
  void add(Batch& batch, Request request, const std::uint64_t* keys);

  const Plan& plan_;
  std::vector<workload::Stream> streams_;   // one of each phase
  std::span<const std::uint32_t> records_;  // of a trace: this connection's; ops_made_ of them are done
  std::vector<std::uint64_t> get_keys_;
  std::uint64_t ops_made_ = 0, quota_;
  std::uint32_t opaque_ = 0;
};

}  // namespace tandem::load
