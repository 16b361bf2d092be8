// Calls of an embedded store beside devices: these search for the keys of batches, several in flight, and the lane
// answers with what they have found.
//
// Thread safety: one thread at a time, that of the context.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "lane/calls.hpp"
#include "pipeline/runner.hpp"
#include "planner/planner.hpp"

namespace tandem {

class DeviceCalls {
 public:
  static constexpr std::uint32_t batch_queries = 64 * strip_queries_max;

  // All outlive it. batch: the queries of one. Throws DeviceError: there is no memory that a device can read.
  DeviceCalls(Context& context, const Schedulers& schedulers, Planner& planner, CallLane& lane,
              std::uint32_t batch = batch_queries)
      : context_(context), planner_(planner), lane_(lane), runner_(context, &schedulers, batch), batch_(batch) {}

  // As CallLane::run(), but throws std::bad_alloc where a device was lost. Each batch has the plan that the planner
  // gives it then.
  void run(std::span<const Request> requests, ReplyVisitor visit, void* visitor);
  void run(std::span<const std::string_view> keys, KeyCheck check, ReplyVisitor visit, void* visitor);

 private:
  template <class Calls>
  void run(const Calls& calls);
  template <class Calls>
  void submit(const Calls& calls, std::size_t count, const Plan& plan);
  template <class Calls>
  void answer_oldest(const Calls& calls);
  void drop_flights();

  Context& context_;
  Planner& planner_;
  CallLane& lane_;
  Runner runner_;
  const std::uint32_t batch_;
  std::size_t answered_ = 0, submitted_ = 0;  // of a call's requests
};

}  // namespace tandem
