// `tandem plans`: which processor may run which task, by placement, and why the other one may not.
#include <fmt/format.h>
#include <sysexits.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "options/arguments.hpp"
#include "plan/placement.hpp"
#include "preset/preset.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PlacementText {
  Placement placement;
  std::string_view what, options;  // the options of `tandem serve` that select it
};
constexpr std::array placement_texts = {
    PlacementText{Placement::host, "the host alone has index and items", "--preset cpu, or no GPU"},
    PlacementText{Placement::mirrored, "GPUs have replicas of the host's index", "--preset auto or mirrored"},
    PlacementText{Placement::mirrored_values, "and copies of small items",
                  "--preset auto or mirrored, with --gpu-values"},
    PlacementText{Placement::on_device, "the index is in the GPUs' memory alone, items are the host's",
                  "--preset mega-kv"},
};

std::string_view name_of(Placement placement) { return placement_names[static_cast<std::size_t>(placement)]; }

// Those feasible with some placement, then those of the papers that none supports yet.
std::vector<Plan> known_plans() {
  std::vector<Plan> plans;
  for (const PlacementText& text : placement_texts) {
    for (const Plan& plan : feasible_plans(text.placement)) {
      if (std::ranges::find(plans, plan) == plans.end()) plans.push_back(plan);
    }
  }
  plans.push_back(Plan::parse("CPU[RV PP MM] GPU[IN KC RD] CPU[WR SD]"));  // DIDO, figure 8
  plans.push_back(Plan::parse("CPU[RV] GPU[PP MM IN KC] CPU[RD WR SD]"));  // MemcachedGPU
  return plans;
}

Json plans_json(const std::vector<Plan>& plans) {
  Json json;
  for (const PresetRow& row : presets()) {
    Json placements = Json::array({name_of(row.placement)});
    if (row.placement_with_values != row.placement) placements.push_back(name_of(row.placement_with_values));
    json["presets"].push_back({{"name", row.name}, {"what", row.what}, {"placements", std::move(placements)}});
  }
  for (const PlacementText& text : placement_texts) {
    Json placement{{"name", name_of(text.placement)}, {"what", text.what}, {"options", text.options}};
    placement["feasible"] = placement["not_feasible"] = Json::array();
    for (const Plan& plan : plans) {
      const std::string why = why_not(text.placement, plan);
      if (why.empty()) {
        placement["feasible"].push_back(plan.text());
      } else {
        placement["not_feasible"].push_back({{"plan", plan.text()}, {"why", why}});
      }
    }
    json["placements"].push_back(std::move(placement));
  }
  return json;
}

void print(const Json& json) {
  const auto text = [](const Json& value) { return value.get<std::string>(); };
  fmt::print("presets\n");
  for (const Json& preset : json["presets"]) {
    std::string placements;
    for (const Json& name : preset["placements"]) placements += (placements.empty() ? "" : " or ") + text(name);
    fmt::print("  {:<9} {}: placement {}\n", text(preset["name"]), text(preset["what"]), placements);
  }
  for (const Json& placement : json["placements"]) {
    fmt::print("\nplacement {}: {} ({})\n", text(placement["name"]), text(placement["what"]),
               text(placement["options"]));
    for (const Json& plan : placement["feasible"]) fmt::print("  {}\n", text(plan));
    for (const Json& other : placement["not_feasible"])
      fmt::print("  not {}\n      {}\n", text(other["plan"]), text(other["why"]));
  }
}

}  // namespace

int run_plans(std::span<const std::string> arguments) {
  CLI::App app(
      "Lists presets, placements of the index and the items, and with each the plans (which processor runs which task) "
      "that it can run, and why it cannot run others.",
      "tandem plans");
  std::string given;
  bool as_json = false;
  app.add_option("PLAN", given, "look at this one, such as '" + plan_search.text() + "'");
  app.add_flag("--json", as_json, "for programs");
  if (const auto done = parse_arguments(app, arguments, "plans")) return *done;
  const bool is_one = !given.empty();
  const Json json = plans_json(is_one ? std::vector{Plan::parse(given)} : known_plans());
  if (as_json) {
    fmt::print("{}\n", json.dump(2));
  } else {
    print(json);
  }
  const bool is_feasible =
      std::ranges::any_of(json["placements"], [](const Json& placement) { return !placement["feasible"].empty(); });
  return is_feasible ? EX_OK : EXIT_FAILURE;
}

}  // namespace tandem::cli
