// The cost model: what a load demands of each resource with a plan, and the rate that follows. Linear between measured
// points, never beyond them.
//
// Source: DIDO IV-A, IV-B (Equation 1: demands by share, size and popularity; Equation 2: interference, here the host's
// memory and that every point was measured with all threads running; Equation 4). Departure: demands of resources that
// were measured, in place of instructions and latencies of single tasks: plans fuse their tasks, which then have no
// separate cost.
//
// Thread safety: pure functions; any thread.
#pragma once
#include <optional>

#include "planner/coefficients.hpp"
#include "planner/profile.hpp"

namespace tandem {

// What there is of each resource in a ns.
struct Machine {
  Demand capacity{};
};
// For a plan of the coefficients that has so many threads.
Machine machine_of(const Coefficients& coefficients, unsigned threads) noexcept;

// Of a query of this load. Nothing: the candidate was not measured at its level, or the load is beyond what was
// measured (sizes, or popularity): the model does not know. REQUIRES: why_impossible(coefficients) is empty.
std::optional<Demand> demand(const Coefficients& coefficients, const Profile& profile, const Candidate& candidate);

// Queries a ns, of all workers together. REQUIRES: the demand of workers is not 0.
double rate(const Demand& demand, const Machine& machine) noexcept;

}  // namespace tandem
