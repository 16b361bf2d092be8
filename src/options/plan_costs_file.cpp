#include "options/plan_costs_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "options/value.hpp"
#include "options/version.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

Json plan_json(const Coefficients::PlanCosts& plan) {
  const Candidate& c = plan.candidate;
  return {{"plan", c.plan},
          {"threads", c.threads},
          {"batch", c.batch},
          {"level", upkeep_level_names[static_cast<std::size_t>(c.level)]},
          {"demands", plan.points}};
}

// The library would leave further numbers out.
Demand demand_in(const Json& numbers) {
  if (numbers.size() != resource_count) throw CalibrationError("a demand is not a number of each resource");
  return numbers.get<Demand>();
}

// Every error of the library's names what was expected and found.
Coefficients costs_in(const Json& document) {
  Coefficients c;
  const Json& machine = document.at("machine");
  machine.at("processor").get_to(c.processor);
  machine.at("gpu").get_to(c.gpu);
  machine.at("threads").get_to(c.threads);
  machine.at("cache_bytes").get_to(c.cache_bytes);
  document.at("version").get_to(c.version);
  document.at("date").get_to(c.date);
  document.at("zipf_theta").get_to(c.zipf_theta);
  document.at("set_shares").get_to(c.set_shares);
  c.capacity = demand_in(document.at("capacity"));
  for (const Json& one : document.at("sizes")) {
    Coefficients::Size& size = c.sizes.emplace_back();
    one.at("keys").get_to(size.keys);
    one.at("store_bytes").get_to(size.store_bytes);
    one.at("query_bytes").get_to(size.query_bytes);
  }
  for (const Json& one : document.at("plans")) {
    Coefficients::PlanCosts& plan = c.plans.emplace_back();
    one.at("plan").get_to(plan.candidate.plan);
    one.at("threads").get_to(plan.candidate.threads);
    one.at("batch").get_to(plan.candidate.batch);
    const auto level = std::ranges::find(upkeep_level_names, one.at("level").get<std::string>());
    if (level == upkeep_level_names.end()) throw CalibrationError("a plan has an unknown level");
    plan.candidate.level = static_cast<UpkeepLevel>(level - upkeep_level_names.begin());
    for (const Json& point : one.at("demands")) plan.points.push_back(demand_in(point));
  }
  return c;
}

}  // namespace

Json plan_costs_json(const Coefficients& c) {
  Json sizes = Json::array(), plans = Json::array();
  for (const Coefficients::Size& size : c.sizes)
    sizes.push_back({{"keys", size.keys}, {"store_bytes", size.store_bytes}, {"query_bytes", size.query_bytes}});
  for (const Coefficients::PlanCosts& plan : c.plans) plans.push_back(plan_json(plan));
  return {
      {"format", plan_costs_format},
      {"version", c.version},
      {"date", c.date},
      {"machine", {{"processor", c.processor}, {"gpu", c.gpu}, {"threads", c.threads}, {"cache_bytes", c.cache_bytes}}},
      {"resources", resource_names},
      {"capacity", c.capacity},
      {"zipf_theta", c.zipf_theta},
      {"set_shares", c.set_shares},
      {"sizes", std::move(sizes)},
      {"plans", std::move(plans)}};
}

Coefficients parse_plan_costs(std::string_view text, std::string_view path) {
  const auto fail = [path](std::string_view why) {
    throw CalibrationError(fmt::format("{}: {}; `tandem calibrate --plans` makes such files", path, why));
  };
  const Json document = Json::parse(text, nullptr, false);
  if (!document.is_object() || document.value("format", Json()) != plan_costs_format) fail("is no file of this format");
  Coefficients c;
  try {
    c = costs_in(document);
  } catch (const nlohmann::json::exception& error) {
    fail(error.what());
  } catch (const CalibrationError& error) {
    fail(error.what());
  }
  if (const std::string why = why_impossible(c); !why.empty()) fail(why);
  return c;
}

void check_machine(const Coefficients& c, std::string_view processor, std::string_view gpu, unsigned processors,
                   std::string_view path) {
  const auto check = [path](bool is_right, std::string_view what, std::string_view of_file, std::string_view of_this) {
    if (is_right) return;
    throw CalibrationError(fmt::format("{}: is of {} {}, here it is {}: run `tandem calibrate --plans` again", path,
                                       what, in_quotes(of_file), in_quotes(of_this)));
  };
  check(c.processor == processor, "the processor", c.processor, processor);
  check(c.gpu == gpu, "the GPU", c.gpu, gpu);
  check(c.version == version, "version", c.version, version);
  check(c.threads <= processors, "a machine with so many processors:", std::to_string(c.threads),
        std::to_string(processors));
}

std::string plan_costs_path() {
  const std::string path = calibration_path();
  return path.empty() ? path : (std::filesystem::path(path).parent_path() / "plans.json").string();
}

}  // namespace tandem::cli
