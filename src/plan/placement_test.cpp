#include "plan/placement.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace tandem {
namespace {

constexpr std::array placements = {Placement::host, Placement::mirrored, Placement::mirrored_values,
                                   Placement::on_device};

TEST(Placement, ItsPlansAreFeasible) {
  for (const Placement placement : placements) {
    for (const Plan& plan : feasible_plans(placement)) {
      EXPECT_EQ(why_not(placement, plan), "") << plan.text();
      EXPECT_NO_THROW(require_feasible(placement, plan));
    }
  }
}

// Every plan without ranges: 2^10 ways to assign ten tasks to two processors.
TEST(Placement, ListsAllOfItsPlans) {
  for (const Placement placement : placements) {
    std::size_t feasible = 0;
    for (unsigned bits = 0; bits < 1u << task_count; ++bits) {
      std::vector<Stage> stages;
      for (std::size_t t = 0; t < task_count; ++t) {
        const auto task = static_cast<Task>(t);
        stages.push_back({task, task, static_cast<Processor>(bits >> t & 1), {}});
      }
      const Plan plan(stages);
      if (!why_not(placement, plan).empty()) continue;
      ++feasible;
      EXPECT_NE(std::ranges::find(feasible_plans(placement), plan), feasible_plans(placement).end()) << plan.text();
    }
    EXPECT_EQ(feasible, feasible_plans(placement).size());
  }
}

TEST(Placement, AFrontOfABatchIsADevicesWhereTheHostHasTheIndexToo) {
  EXPECT_EQ(why_not(Placement::mirrored, plan_search.split(2)), "");
  EXPECT_EQ(why_not(Placement::mirrored_values, plan_search.split(2)), "");
  EXPECT_NE(why_not(Placement::on_device, plan_index.split(2)), "");
}

TEST(Placement, SaysWhyAPlanIsNotFeasible) {
  struct Case {
    Placement placement;
    std::string_view plan, why;
  };
  for (const Case& c : {
           Case{Placement::host, "CPU[RV PP MM] GPU[S] CPU[I D KC RD WR SD]", "none has the index"},
           Case{Placement::host, "CPU[RV] GPU[PP S] CPU[I D KC RD WR SD]", "none has the index"},
           Case{Placement::on_device, "CPU[RV] GPU[PP S] CPU[I D KC RD WR SD]", "GPU's memory alone"},
           Case{Placement::host, "CPU[RV] GPU[PP IN] CPU[KC RD WR SD]", "none has the index"},
           Case{Placement::mirrored_values, "CPU[RV] GPU[PP IN] CPU[KC RD WR SD]", "replica follows"},
           Case{Placement::mirrored, "CPU[RV] GPU[PP S]{0:2} CPU[PP MM S]{2:} CPU[I D KC RD WR SD]", "all queries"},
           Case{Placement::mirrored, "CPU[RV] GPU[PP] CPU[MM IN KC RD WR SD]", "only with S"},
           Case{Placement::mirrored_values, "CPU[RV PP MM] GPU[S] CPU[I D KC] GPU[RD] CPU[WR SD]", "RD on a GPU: only"},
           Case{Placement::mirrored, "CPU[RV PP MM] GPU[IN] CPU[KC RD WR SD]", "replica follows"},
           Case{Placement::mirrored_values, "CPU[RV PP MM] GPU[S] CPU[I] GPU[D] CPU[KC RD WR SD]", "replica follows"},
           Case{Placement::on_device, "CPU[RV PP MM IN KC RD WR SD]", "GPU's memory alone"},
           Case{Placement::on_device, "CPU[RV PP MM] GPU[IN] CPU[KC] GPU[RD] CPU[WR SD]", "RD on a GPU: only"},
           Case{Placement::on_device, "CPU[RV PP MM] GPU[IN KC RD] CPU[WR SD]", "KC on a GPU"},
           Case{Placement::on_device, "GPU[RV PP MM IN KC RD WR SD]", "RV on a GPU"},
       }) {
    const Plan plan = Plan::parse(c.plan);
    EXPECT_NE(why_not(c.placement, plan).find(c.why), std::string::npos)
        << c.plan << ": " << why_not(c.placement, plan);
    EXPECT_THROW(require_feasible(c.placement, plan), std::invalid_argument);
  }
}

}  // namespace
}  // namespace tandem
