// A batch: queries as arrays. Tasks run over it in strips; columns that a device will read or write (fingerprint,
// location) are arrays of their own so that they can lie in pinned memory.
//
// Thread safety: one thread at a time.
#pragma once
#include <cstdint>
#include <memory>

#include "base/fingerprint.hpp"
#include "base/platform.hpp"
#include "query/plan.hpp"
#include "query/query.hpp"

namespace tandem {

// Measured on the design host: 1 query at a time 210 ns a GET, strips of 64-512 46 ns, a whole batch of 65,536 94 ns
// (columns leave L1).
inline constexpr std::uint32_t strip_queries_max = 128;

class Batch {
 public:
  explicit Batch(std::uint32_t capacity)
      : capacity_(capacity),
        queries_(new Query[capacity]),
        fingerprints_(new Fingerprint[capacity]),
        locations_(new Location[capacity]),
        results_(new Result[capacity]) {}

  std::uint32_t size() const noexcept { return size_; }
  std::uint32_t capacity() const noexcept { return capacity_; }
  bool full() const noexcept { return size_ == capacity_; }
  void clear() noexcept { size_ = 0; }

  // The next query's place, to fill in and then keep with commit(). Contents are what the last user left. REQUIRES:
  // !full().
  TD_INLINE Query& next() noexcept { return queries_[size_]; }
  TD_INLINE void commit() noexcept { ++size_; }

  TD_INLINE Query& query(std::uint32_t i) noexcept { return queries_[i]; }
  TD_INLINE const Query& query(std::uint32_t i) const noexcept { return queries_[i]; }
  // The queries up to `size` were filled in. REQUIRES: size <= capacity().
  void resize(std::uint32_t size) noexcept { size_ = size; }
  // The columns.
  TD_INLINE Query* queries() noexcept { return queries_.get(); }
  TD_INLINE Result* results() noexcept { return results_.get(); }
  TD_INLINE Fingerprint* fingerprints() noexcept { return fingerprints_.get(); }
  TD_INLINE Location* locations() noexcept { return locations_.get(); }
  TD_INLINE Result& result(std::uint32_t i) noexcept { return results_[i]; }
  TD_INLINE const Result& result(std::uint32_t i) const noexcept { return results_[i]; }

  Plan plan = plan_cpu;

 private:
  std::uint32_t size_ = 0;
  std::uint32_t capacity_;
  std::unique_ptr<Query[]> queries_;
  std::unique_ptr<Fingerprint[]> fingerprints_;
  std::unique_ptr<Location[]> locations_;
  std::unique_ptr<Result[]> results_;
};

// Queries [begin, end) of a batch.
struct Strip {
  std::uint32_t begin, end;
  std::uint32_t size() const noexcept { return end - begin; }
};

}  // namespace tandem
