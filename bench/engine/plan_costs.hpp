// What plans demand of the machine, measured in turns on a grid of loads: the coefficients of the planner's model.
#pragma once
#include <vector>

#include "bench/engine/engine.hpp"
#include "bench/engine/subject.hpp"
#include "planner/coefficients.hpp"
#include "planner/profiler.hpp"

namespace tandem::bench {

// Of a turn, a query. Workers: all of their time, waiting included, so where something else was the bottleneck it is
// an upper bound. memory: of the lines that DIDO counts (IV-B: 1.1 of the index, one of the item and more by its size)
// as far as the host reads them, and of the bus. item_bytes: the mean of the store.
Demand demand_of(const Measured& m, unsigned threads, double item_bytes);

// The plan as the settings name it, with its level.
Candidate candidate_of(const PlanChoice& choice, const EnginePlan& plan);

// cpu, located and frames as a machine of so many processors runs them best: the last two leave one to the scheduler.
std::vector<PlanChoice> default_plans(unsigned processors);

// The settings' constant plans on a grid of items' sizes, shares of SETs and popularities: `few` of them (for tests),
// or all, in the time of 30 cells. settings: with plans; the workloads are replaced. Adds the runs to the document.
Coefficients measure_plan_costs(const EngineSettings& settings, bool few, Json& document,
                                const EngineHooks& hooks = {});

}  // namespace tandem::bench
