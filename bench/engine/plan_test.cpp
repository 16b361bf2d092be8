#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "bench/engine/engine.hpp"
#include "bench/engine/test_support.hpp"

namespace tandem::bench {
namespace {

class BenchEnginePlan : public testing::TestWithParam<const char*> {};
std::string plan_name(const testing::TestParamInfo<const char*>& test) {
  constexpr std::array names = {"search", "values", "index", "located"};
  return names[test.index];
}
INSTANTIATE_TEST_SUITE_P(Simulated, BenchEnginePlan,
                         testing::Values("mirrored-sim", "mirrored-values-sim", "mega-kv-sim", "located-sim"),
                         plan_name);

TEST_P(BenchEnginePlan, WithADeviceAnswersTheSame) {
  EngineSettings settings = quick({"K8-G95-U", "K16-G50-S", "K128-G100-U"});
  settings.plan = GetParam();
  settings.ops = 5000;
  Json document = new_document();
  run_engine(settings, document);
  EXPECT_EQ(errors_of(document), "");
  for (const Json& run : runs_of(document, "tandem")) {
    EXPECT_EQ(run["result"]["ops"], run["settings"]["threads"].get<int>() * 5000);
    EXPECT_EQ(run["result"]["hits"], run["result"]["gets"]);
    // Of located keys those of the reads alone.
    const int asked = settings.plan == "located-sim" ? run["result"]["gets"].get<int>() : 5000;
    EXPECT_GT(run["result"]["device"]["searched"], asked / 2);
  }
}

TEST(BenchEngine, BatchesByTheCycle) {
  EngineSettings settings = quick({"K8-G95-U"});
  settings.plan = "mega-kv-sim";
  settings.threads = {1};
  settings.ops = 2000;
  settings.cycles_us = {50, 100};
  settings.batches_per_us = {1, 4};
  Json document = new_document();
  const Json cells = run_engine(settings, document);
  EXPECT_EQ(errors_of(document), "");
  std::vector<std::string> names;
  for (const Json& cell : cells) names.push_back(cell["cell"]);
  EXPECT_EQ(names, (std::vector<std::string>{"K8-G95-U b50 t1 c50", "K8-G95-U b200 t1 c50", "K8-G95-U b100 t1 c100",
                                             "K8-G95-U b400 t1 c100"}));
  EXPECT_NE(command_line(settings).find("--batch-per-us 1,4"), std::string::npos);
}

}  // namespace
}  // namespace tandem::bench
