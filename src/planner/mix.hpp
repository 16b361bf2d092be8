// The best division of a load among two plans: the share at which two resources are equally full.
//
// Source: DIDO IV-A, Equation 3, which is this for two plans, of which one leaves a task to the GPU, and two resources,
// a worker and the GPU.
//
// Thread safety: pure functions; any thread.
#pragma once
#include <cstddef>
#include <span>

#include "planner/model.hpp"

namespace tandem {

struct Mix {
  std::size_t first = 0, second = 0;  // numbers of the plans; equal: one plan alone
  double second_share = 0;            // of the queries
  double rate = 0;                    // queries a ns
};

// The fastest one, or pair. REQUIRES: there is a demand, and each is of some time of a worker.
Mix best_mix(std::span<const Demand> demands, const Machine& machine) noexcept;

}  // namespace tandem
