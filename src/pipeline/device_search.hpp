// A worker's blocking search on the devices, for a batch that was not handed over, or with an epoch that had to end
// before its answer. Used while only the devices have an index.
//
// Thread safety: the context's thread.
#pragma once
#include "pipeline/flight.hpp"
#include "pipeline/schedulers.hpp"
#include "task/context.hpp"

namespace tandem {

class DeviceSearch final : public RemoteSearch {
 public:
  static constexpr std::uint32_t queries_max = 1024;  // of one search

  // Throws DeviceError, std::runtime_error, std::bad_alloc. The schedulers outlive it.
  DeviceSearch(Context& context, const Schedulers& schedulers);
  ~DeviceSearch() override;

  void search(Batch& batch, std::uint32_t begin) noexcept override;
  void end() noexcept override;
  void let_go() noexcept override;

 private:
  bool search_once(Batch& batch, std::uint32_t begin, std::uint32_t count) noexcept;
  void wait() noexcept;

  Context& context_;
  const Schedulers schedulers_;
  Flight flight_;              // the queries being searched
  Batch* searched_ = nullptr;  // the batch that uses its results
};

}  // namespace tandem
