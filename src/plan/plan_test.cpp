#include "plan/plan.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <vector>

namespace tandem {
namespace {

std::string refusal_of(std::string_view text) {
  try {
    static_cast<void>(Plan::parse(text));
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return {};
}

TEST(Plan, IsWrittenAsThePapersWriteIt) {
  EXPECT_EQ(Plan().text(), "CPU[RV PP MM IN KC RD WR SD]");
  EXPECT_EQ(plan_search.text(), "CPU[RV PP MM] GPU[S] CPU[I D KC RD WR SD]");
  EXPECT_EQ(plan_index.text(), "CPU[RV PP MM] GPU[IN] CPU[KC RD WR SD]");
  EXPECT_EQ(plan_search.split(4).text(), "CPU[RV PP MM] GPU[S]{0:4} CPU[S]{4:} CPU[I D KC RD WR SD]");
  // DIDO's plan, which no placement supports yet.
  constexpr std::string_view text = "CPU[RV PP MM] GPU[IN KC RD] CPU[WR SD]";
  EXPECT_EQ(Plan::parse(text).text(), text);
}

TEST(Plan, ItsConstantsArePlans) {
  for (const Plan& plan : {plan_cpu, plan_search, plan_index}) EXPECT_EQ(Plan(plan.stages()), plan);
}

TEST(Plan, OfAListOfKeysDevicesSearch) {
  for (const Plan& plan : {plan_search, plan_located, plan_frames}) EXPECT_EQ(search_alone(plan), plan_search);
  for (const Plan& plan : {plan_index, plan_located_index}) EXPECT_EQ(search_alone(plan), plan_index);
  EXPECT_EQ(search_alone(plan_search.split(3)), plan_search.split(3));
  EXPECT_EQ(search_alone(plan_cpu), plan_cpu);
}

TEST(Plan, StagesThatCouldBeOneAreOne) {
  EXPECT_EQ(Plan::parse(" CPU[RV]CPU[PP MM S I]  CPU[ D KC RD WR SD ] "), plan_cpu);
  EXPECT_EQ(Plan::parse("CPU[RV PP MM] GPU[S I] GPU[D] CPU[KC RD WR SD]{0:}"), plan_index);
}

TEST(Plan, SaysOfWhatPartAProcessorRunsATask) {
  const Plan plan = Plan::parse("CPU[RV PP MM] GPU[S] CPU[I D KC] GPU[RD] CPU[WR SD]").split(3);
  constexpr Range front{0, 3}, rest{3, Range::to_end};
  EXPECT_EQ(plan.range_of(Task::search, Processor::device), front);
  EXPECT_EQ(plan.range_of(Task::search, Processor::cpu), rest);
  EXPECT_EQ(plan.range_of(Task::read_value, Processor::device), front);
  EXPECT_EQ(plan.range_of(Task::insert, Processor::device), no_range);
  EXPECT_TRUE(plan.range_of(Task::key_compare, Processor::cpu).is_whole());
  EXPECT_TRUE(plan.uses(Processor::device));
  EXPECT_FALSE(plan_cpu.uses(Processor::device));
  EXPECT_EQ(front.end_query(1000), 192u);
  EXPECT_EQ(front.end_query(100), 100u);
  EXPECT_EQ(rest.begin_query(1000), 192u);
  EXPECT_EQ(rest.end_query(1000), 1000u);
}

TEST(Plan, SaysWhatIsWrongWithAText) {
  struct Wrong {
    std::string_view text, why;
  };
  for (const Wrong& w : {
           Wrong{"", "plan: RV is missing"},
           Wrong{"CPU", "plan, at character 4: expected [, not its end"},
           Wrong{"cpu[RV]", "plan, at character 1: expected CPU or GPU, not \"cpu[RV]\""},
           Wrong{"CPU[]", "plan: a stage without tasks"},
           Wrong{"CPU[RV QQ]",
                 "plan, at character 8: expected a task (RV PP MM IN S I D KC RD WR SD) or ], not \"QQ]\""},
           Wrong{"CPU[RV MM]", "plan: after RV comes PP, not MM"},
           Wrong{"CPU[RV PP MM IN KC RD WR SD RV]", "plan: after SD comes nothing, not RV"},
           Wrong{"CPU[RV PP MM IN KC RD WR SD] CPU[SD]", "plan: nothing comes after SD"},
           Wrong{"CPU[RV PP MM IN KC RD WR]", "plan: SD is missing"},
           Wrong{"CPU[RV PP MM] GPU[S] CPU[KC RD WR SD]", "plan: I is missing, or not where KC is"},
           Wrong{"CPU[RV PP MM] GPU[S]{0:4} CPU[I D KC RD WR SD]", "plan: S is missing, or not where I is"},
           Wrong{"CPU[RV PP MM IN KC RD WR SD]{0:4}", "plan: RV is missing"},
           Wrong{"CPU[RV PP MM IN KC RD WR SD]{4:}", "plan: ranges are {0:n} and, in the stage after it, {n:}"},
           Wrong{"CPU[RV]{0:4} CPU[RV]{5:} CPU[PP MM IN KC RD WR SD]",
                 "plan: ranges are {0:n} and, in the stage after it, {n:}"},
           Wrong{"CPU[RV]{0:4} CPU[RV PP]{4:} CPU[MM IN KC RD WR SD]",
                 "plan: the stage of the rest has the tasks of the one before it"},
           Wrong{"CPU[RV]{0:0}", "plan: ranges are {0:n} and, in the stage after it, {n:}"},
           Wrong{"CPU[RV]{0:65535}", "plan, at character 11: expected a number of sets below 65535, not \"65535}\""},
           Wrong{"CPU[RV]{0}", "plan, at character 10: expected :, not \"}\""},
           Wrong{"CPU[RV]{0:1", "plan, at character 12: expected }, not its end"},
       }) {
    EXPECT_EQ(refusal_of(w.text), w.why) << w.text;
  }
  EXPECT_NE(refusal_of("CPU[RV]{0:1} GPU[RV]{1:} CPU[PP]{0:1} GPU[PP]{1:} CPU[MM]{0:1} GPU[MM]{1:} CPU[S]{0:1} "
                       "GPU[S]{1:} CPU[I]{0:1} GPU[I]{1:} CPU[D]{0:1} GPU[D]{1:} CPU[KC RD WR SD]")
                .find("more than 12 stages"),
            std::string::npos);
}

// Any plan: its text is read as the same plan, and every task of every set has one processor.
TEST(Plan, ReadsWhatItWrites) {
  std::mt19937 random(1);
  const auto draw = [&](std::uint32_t below) { return static_cast<std::uint32_t>(random() % below); };
  for (int round = 0; round < 20'000; ++round) {
    std::vector<Stage> stages;
    std::size_t splits = 0;
    for (std::size_t t = 0; t < task_count;) {
      const std::size_t last = t + draw(static_cast<std::uint32_t>(task_count - t));
      Stage stage{static_cast<Task>(t), static_cast<Task>(last), static_cast<Processor>(draw(2)), {}};
      if (splits < 1 && draw(4) == 0) {
        ++splits;
        const auto at = static_cast<std::uint16_t>(1 + draw(Range::to_end - 1));
        stage.range = {0, at};
        stages.push_back(stage);
        stage.processor = stage.processor == Processor::cpu ? Processor::device : Processor::cpu;
        stage.range = {at, Range::to_end};
      }
      stages.push_back(stage);
      t = last + 1;
    }
    const Plan plan(stages);
    ASSERT_EQ(Plan::parse(plan.text()), plan) << plan.text();
    for (std::size_t t = 0; t < task_count; ++t) {
      const Range cpu = plan.range_of(static_cast<Task>(t), Processor::cpu);
      const Range device = plan.range_of(static_cast<Task>(t), Processor::device);
      ASSERT_TRUE((cpu.is_whole() && device.is_empty()) || (device.is_whole() && cpu.is_empty()) ||
                  (cpu.end == device.begin && cpu.begin == 0 && device.end == Range::to_end) ||
                  (device.end == cpu.begin && device.begin == 0 && cpu.end == Range::to_end))
          << plan.text();
    }
  }
}

// Nearly valid texts: each gives a plan that can be written and read again, or an error in words.
TEST(Plan, ReadsOrRefusesAnyText) {
  std::mt19937 random(2);
  const auto draw = [&](std::size_t below) { return random() % below; };
  constexpr std::string_view letters = "CPUG[]{}: 012SIDKRVMWNX6";
  std::size_t read = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string text = (std::vector{plan_cpu, plan_search.split(7), plan_index})[draw(3)].text();
    for (std::size_t changes = draw(4); changes != 0; --changes) {
      const std::size_t at = draw(text.size() + 1);
      if (draw(2) == 0 && at < text.size()) {
        text.erase(at, 1 + draw(3));
      } else {
        text.insert(at, 1, letters[draw(letters.size())]);
      }
    }
    try {
      const Plan plan = Plan::parse(text);
      ASSERT_EQ(Plan::parse(plan.text()), plan) << text;
      ++read;
    } catch (const std::invalid_argument& e) {
      ASSERT_EQ(std::string(e.what()).rfind("plan", 0), 0u) << text;
    }
  }
  EXPECT_GT(read, 5'000u);
}

}  // namespace
}  // namespace tandem
