// A batch: queries as arrays, and the input that they point into. Tasks run over it in strips. Columns that a device
// reads or writes (input, fingerprints, locations) are in pinned memory if there is a device.
//
// Thread safety: one thread at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>

#include "base/fingerprint.hpp"
#include "base/platform.hpp"
#include "plan/plan.hpp"
#include "query/input_arena.hpp"
#include "query/query.hpp"

namespace tandem {

// Queries that a task runs over at a time. Small enough that the lines which a strip's prefetches request, and those of
// the strips ahead of it, fit what a core can have in flight (docs/decisions/0006-strips.md).
inline constexpr std::uint32_t strip_queries_max = 8;

// A device's results in the columns of a batch's front. A location is a candidate as after a search of the host's,
// readable in the batch's epoch; a missing one is final only if `whole` and the stripe say so (write protocol 6;
// final_miss()).
struct DeviceResults {
  std::uint32_t end = 0;     // of the queries [0, end); 0: there are no results
  std::uint32_t launch = 0;  // number of the launch, of the replica that searched
  bool whole = false;
};

// Columns in memory that devices can access, which outlives the batch. nullptr: the batch has its own.
struct ColumnMemory {
  Fingerprint* fingerprints = nullptr;
  Location* locations = nullptr;
};

class Batch {
 public:
  explicit Batch(std::uint32_t capacity, InputArena input = {}, const ColumnMemory& columns = {})
      : fingerprints_(columns.fingerprints),
        locations_(columns.locations),
        capacity_(capacity),
        queries_(new Query[capacity]),
        filled_(new Location[capacity]),
        results_(new Result[capacity]),
        input_(std::move(input)) {
    if (fingerprints_ == nullptr) use_own_columns();
  }

  std::uint32_t size() const noexcept { return size_; }
  std::uint32_t capacity() const noexcept { return capacity_; }
  bool full() const noexcept { return size_ == capacity_; }
  // Removes the queries; input stays (InputArena::reuse()).
  void clear() noexcept {
    size_ = 0;
    found = {};
    input_.clear();
  }
  // Discards the devices' results: the host runs the rest of their stages.
  void leave_found() noexcept {
    found = {};
    plan = plan_cpu;
  }
  // Moves fingerprints and locations to the batch's own memory, since an abandoned device may still write to the other.
  // Their contents are lost.
  void use_own_columns() {
    own_fingerprints_.reset(new Fingerprint[capacity_]);
    own_locations_.reset(new Location[capacity_]);
    fingerprints_ = own_fingerprints_.get();
    locations_ = own_locations_.get();
    found = {};
  }

  // The next query's place, to fill in and then keep with commit(). Its contents are undefined. REQUIRES: !full().
  TD_INLINE Query& next() noexcept { return queries_[size_]; }
  TD_INLINE void commit() noexcept { ++size_; }

  TD_INLINE Query& query(std::uint32_t i) noexcept { return queries_[i]; }
  TD_INLINE const Query& query(std::uint32_t i) const noexcept { return queries_[i]; }
  // The queries up to `size` were filled in. REQUIRES: size <= capacity().
  void resize(std::uint32_t size) noexcept { size_ = size; }
  // The next queries are those of the places [begin, end), and it is full behind them. REQUIRES: end is at most the
  // capacity that it was made with.
  void confine(std::uint32_t begin, std::uint32_t end) noexcept {
    size_ = begin;
    capacity_ = end;
  }
  InputArena& input() noexcept { return input_; }
  const InputArena& input() const noexcept { return input_; }
  // The columns.
  TD_INLINE Query* queries() noexcept { return queries_.get(); }
  TD_INLINE Result* results() noexcept { return results_.get(); }
  TD_INLINE Fingerprint* fingerprints() noexcept { return fingerprints_; }
  TD_INLINE const Fingerprint* fingerprints() const noexcept { return fingerprints_; }
  TD_INLINE Location* locations() noexcept { return locations_; }
  TD_INLINE const Location* locations() const noexcept { return locations_; }
  // For queries with option prefilled: the slot that holds the item, or the piece of one.
  TD_INLINE Location* filled() noexcept { return filled_.get(); }
  TD_INLINE Result& result(std::uint32_t i) noexcept { return results_[i]; }
  TD_INLINE const Result& result(std::uint32_t i) const noexcept { return results_[i]; }

  // Which processor runs which task. When the batch is answered, the tasks of a device's stages have run, or are
  // left to the host: `found` tells.
  Plan plan = plan_cpu;
  DeviceResults found{};
  // Whether a device has searched for query i.
  TD_INLINE bool searched_at(std::uint32_t i) const noexcept { return i < found.end; }
  // The device's result, if it searched.
  TD_INLINE Location candidate(std::uint32_t i) const noexcept { return searched_at(i) ? locations_[i] : no_location; }

 private:
  std::uint32_t size_ = 0;
  Fingerprint* fingerprints_;
  Location* locations_;
  std::uint32_t capacity_;
  std::unique_ptr<Query[]> queries_;
  std::unique_ptr<Fingerprint[]> own_fingerprints_;
  std::unique_ptr<Location[]> own_locations_, filled_;
  std::unique_ptr<Result[]> results_;
  InputArena input_;
};

}  // namespace tandem
