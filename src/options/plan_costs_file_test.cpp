#include "options/plan_costs_file.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "options/version.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

Coefficients measured_plans() {
  Coefficients c;
  c.processor = "a processor";
  c.gpu = "a GPU";
  c.version = version;
  c.date = "2026-11-30T08:00:00Z";
  c.threads = 4;
  c.cache_bytes = 1e6;
  c.set_shares = {0, 1};
  c.sizes = {{1000, 40'000, {60, 70}}};
  c.plans = {{{"frames", 3, 4096, UpkeepLevel::items}, {{1, 2, 3, 4, 5, 6}, {2, 0, 0, 0, 0, 0}, {3}, {4.5}}}};
  c.capacity = {1, 2, 1, 4, 5, 6};
  return c;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const CalibrationError& error) {
    return error.what();
  }
  return {};
}

std::string error_with(const std::function<void(Json&)>& change) {
  Json document = plan_costs_json(measured_plans());
  change(document);
  return error_of([&] { static_cast<void>(parse_plan_costs(document.dump(), "f")); });
}

TEST(PlanCostsFile, IsReadAsItWasWritten) {
  const Json document = plan_costs_json(measured_plans());
  const Coefficients c = parse_plan_costs(document.dump(2), "f");
  EXPECT_EQ(plan_costs_json(c).dump(), document.dump());
  EXPECT_EQ(c.plans[0].candidate, measured_plans().plans[0].candidate);
  EXPECT_EQ(c.plans[0].points, measured_plans().plans[0].points);
}

TEST(PlanCostsFile, DamagedOrImpossibleOnesAreRefused) {
  EXPECT_EQ(error_with([](Json&) {}), "");
  const Json document = plan_costs_json(measured_plans());
  const std::string whole = document.dump();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_NE(error_of([&] { static_cast<void>(parse_plan_costs(whole.substr(0, bytes), "f")); }), "") << bytes;
  for (const char* const text : {"[]", "null", "1", "{}", R"({"format": 1})", R"({"format": "tandem-calibration/1"})"})
    EXPECT_NE(error_of([&] { static_cast<void>(parse_plan_costs(text, "f")); }), "") << text;
  for (const auto& [key, value] : document.items()) {
    if (key == "resources") continue;  // names for a reader
    EXPECT_NE(error_with([&](Json& d) { d.erase(key); }), "") << key;
    EXPECT_NE(error_with([&](Json& d) { d[key] = Json::object(); }), "") << key;
  }
  EXPECT_NE(error_with([](Json& d) { d["plans"][0]["level"] = "all"; }).find("level"), std::string::npos);
  EXPECT_NE(error_with([](Json& d) { d["plans"][0]["demands"][0][1] = "much"; }), "");
  EXPECT_NE(error_with([](Json& d) { d["plans"][0]["demands"][0][0] = -1; }).find("impossible"), std::string::npos);
  EXPECT_NE(error_with([](Json& d) { d["plans"][0]["demands"].erase(3); }).find("points"), std::string::npos);
  EXPECT_NE(error_with([](Json& d) { d["plans"][0]["demands"][0].push_back(1); }), "");
  EXPECT_NE(error_with([](Json& d) { d["machine"]["threads"] = -1; }), "");
  EXPECT_NE(error_with([](Json& d) { d["zipf_theta"] = 1e300; }), "");
}

TEST(PlanCostsFile, OfAnotherMachineAreRefused) {
  const Coefficients c = measured_plans();
  const auto error = [&](std::string_view processor, std::string_view gpu, unsigned processors) {
    return error_of([&] { check_machine(c, processor, gpu, processors, "f"); });
  };
  EXPECT_EQ(error("a processor", "a GPU", 4), "");
  EXPECT_EQ(error("a processor", "a GPU", 8), "");
  EXPECT_NE(error("another", "a GPU", 4).find("the processor"), std::string::npos);
  EXPECT_NE(error("a processor", "sim", 4).find("the GPU"), std::string::npos);
  EXPECT_NE(error("a processor", "a GPU", 3).find("processors"), std::string::npos);
  Coefficients old = c;
  old.version = "0.0.9";
  EXPECT_NE(error_of([&] { check_machine(old, "a processor", "a GPU", 4, "f"); }).find("version"), std::string::npos);
}

}  // namespace
}  // namespace tandem::cli
