// Plans that take turns on the same workload, each with its own threads, batches and upkeep.
//
// What a SET pays so that a device can answer depends on what the device has: nothing, a replica of the index, or also
// copies of the items. Plans with the same needs share a store; each of these stores has the same keys, and those that
// have no turn are idle. So every plan is measured at its own upkeep level, and none waits for another one's replica.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/engine/engine.hpp"
#include "bench/engine/store.hpp"

namespace tandem::bench {

class PlanStores {
 public:
  // All of them outlive it. loaders: threads that store the keys.
  PlanStores(const EngineSettings& settings, unsigned loaders, Json& document, const EngineHooks& hooks)
      : settings_(settings), loaders_(loaders), document_(document), hooks_(hooks) {}

  // A cell: the settings' plans in turns, with these keys and operations. Returns its summary. The ratios are to the
  // constant plan with the largest median, within a round.
  Json run(const workload::Spec& spec);

 private:
  LoadedStore& store_for(const EnginePlan& plan, const workload::Spec& spec);

  const EngineSettings& settings_;
  const unsigned loaders_;
  Json& document_;
  const EngineHooks& hooks_;
  std::map<std::string, std::unique_ptr<LoadedStore>> stores_;  // by what the plan needs
};

// Throws std::invalid_argument with a message for users: these plans cannot take turns. Each one by itself is the
// caller's to check.
void validate_plans(const EngineSettings& settings);
// Of one of the settings' plans alone. Of the automatic one, its batches are those for the host and for a device.
EngineSettings settings_of(const EngineSettings& settings, const PlanChoice& choice);

}  // namespace tandem::bench
