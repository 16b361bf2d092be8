// The embedded store's batch calls over devices (in software): every feasible plan answers as a map does.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "plan/placement.hpp"
#include "tandem/store.hpp"

namespace tandem {
namespace {

struct Case {
  std::string name;
  unsigned gpus;
  std::string preset, plan;
  bool has_values, searches;
};

class StoreDevices : public testing::TestWithParam<Case> {
 protected:
  static Options options(const Case& c) {
    Options o;
    o.memory_bytes = std::uint64_t{64} << 20;
    o.huge_pages = false;
    o.gpus = c.gpus;
    o.gpu = "sim";
    o.preset = c.preset;
    o.plan = c.plan;
    o.gpu_value_bytes = c.has_values ? std::uint64_t{16} << 20 : 0;
    return o;
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, const std::string& preset, Placement placement, bool has_values) {
    unsigned number = 0;
    for (const Plan& plan : feasible_plans(placement)) {
      for (const unsigned gpus : {1u, 2u}) {
        if (has_values && gpus != 1) continue;  // several have no copies of items
        all.push_back({name + std::to_string(number) + "x" + std::to_string(gpus), gpus, preset, plan.text(),
                       has_values, plan.uses(Processor::device)});
      }
      ++number;
    }
    all.push_back({name + "Preset", 1, preset, "", has_values, true});
  };
  add("Mirrored", "mirrored", Placement::mirrored, false);
  add("Values", "mirrored", Placement::mirrored_values, true);
  add("OnDevice", "mega-kv", Placement::on_device, false);
  all.push_back({"Front", 1, "mirrored", plan_search.split(3).text(), true, true});
  all.push_back({"Host", 0, "auto", plan_cpu.text(), false, false});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Simulated, StoreDevices, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

// Calls of more keys than three batches have, and of one; each reply is the one that its place in the call asks for.
TEST_P(StoreDevices, AnswersAsAMapDoes) {
  Store store(options(GetParam()));
  Session session = store.session();
  std::map<std::string, std::string> model;
  std::mt19937_64 random(3);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  bool searched = false;
  for (int round = 0; round < 30 || (GetParam().searches && !searched); ++round) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "no device searched";
    const std::size_t count = round % 5 == 0 ? 1 : 1 + random() % 4000;
    std::vector<std::string> keys, values;
    std::vector<Request> requests;
    keys.reserve(count);
    values.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      keys.push_back("key" + std::to_string(random() % 3000));
      values.push_back(std::string(random() % 60, 'v') + std::to_string(random()));
      const std::uint64_t dice = random() % 10;
      constexpr Action actions[] = {Action::remove, Action::set, Action::set, Action::append};
      const Action action = dice < std::size(actions) ? actions[dice] : Action::get;
      requests.push_back({.action = action, .key = keys[i], .value = values[i]});
    }
    std::size_t next = 0;
    session.execute(requests, [&](std::size_t i, const Reply& reply) {
      ASSERT_EQ(i, next++);
      const auto at = model.find(keys[i]);
      if (requests[i].action == Action::set) {
        EXPECT_EQ(reply.code, Code::stored);
        model[keys[i]] = values[i];
      } else if (requests[i].action == Action::append) {
        EXPECT_EQ(reply.code, at != model.end() ? Code::stored : Code::not_stored);
        if (at != model.end()) at->second += values[i];
      } else if (requests[i].action == Action::remove) {
        EXPECT_EQ(reply.code, at != model.end() ? Code::removed : Code::miss);
        if (at != model.end()) model.erase(at);
      } else if (at == model.end()) {
        EXPECT_EQ(reply.code, Code::miss);
      } else {
        ASSERT_EQ(reply.code, Code::hit) << keys[i];
        EXPECT_EQ(reply.value, at->second);
        EXPECT_EQ(reply.key(), keys[i]);
      }
    });
    EXPECT_EQ(next, count);
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    next = 0;
    session.get_batch(views, [&](std::size_t i, const Reply& reply) {
      ASSERT_EQ(i, next++);
      EXPECT_EQ(reply.code == Code::hit, model.contains(keys[i]));
    });
    EXPECT_EQ(next, count);
    searched = store.stats().gpu_searches != 0;
  }
  EXPECT_EQ(searched, GetParam().searches);
}

TEST(StoreDevicesOptions, AreRefusedInWords) {
  const auto refusal = [](const Options& o) -> std::string {
    try {
      const Store store(o);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return {};
  };
  Options o;
  o.memory_bytes = std::uint64_t{16} << 20;
  o.plan = plan_search.text();
  EXPECT_NE(refusal(o).find("not feasible with placement host: a task on a GPU"), std::string::npos);
  o.gpus = 1;
  o.gpu = "sim";
  EXPECT_EQ(refusal(o), "");
  o.plan = plan_frames.text();
  EXPECT_NE(refusal(o).find("no copies of the items"), std::string::npos);
  o.plan = "CPU[RV";
  EXPECT_EQ(refusal(o).rfind("plan", 0), 0u);
  o.plan = plan_cpu.text();
  o.preset = "mega-kv";
  EXPECT_NE(refusal(o).find("GPU's memory alone"), std::string::npos);
  o.plan.clear();
  o.preset = "fast";
  EXPECT_EQ(refusal(o), "unknown preset: fast");
  o.preset = "auto";
  o.gpus = 3;
  EXPECT_EQ(refusal(o), "gpus: 1, 2, 4 or 8 share the keys");
  o.gpus = 1;
  o.gpu = "amd";
  EXPECT_EQ(refusal(o), "gpu: cuda or sim");
}

}  // namespace
}  // namespace tandem
