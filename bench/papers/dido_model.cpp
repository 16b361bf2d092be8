#include "bench/papers/dido_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "bench/engine/plan_costs.hpp"
#include "bench/engine/threads.hpp"
#include "planner/mix.hpp"
#include "planner/model.hpp"

namespace tandem::bench::dido_paper {
namespace {

// A plan with a workload.
struct Outcome {
  std::string plan;
  Spread measured;                 // Mops/s
  std::optional<double> modelled;  // likewise; nothing: the model does not know
  std::vector<std::size_t> runs;

  double error() const { return 100 * std::abs(measured.median - *modelled) / measured.median; }
};

struct Cell {
  std::string workload;
  std::vector<Outcome> plans;
  Mix mix;                        // of what the model knows
  std::vector<std::size_t> runs;  // of all plans
};

EngineSettings settings_with(const PaperRun& run, std::vector<std::string> workloads, std::vector<PlanChoice> plans) {
  EngineSettings settings = run.engine_settings(std::move(workloads));
  settings.threads.clear();
  settings.in_flight = 16;  // requests of a connection
  settings.tape.ops = std::min<std::uint64_t>(settings.tape.ops, 1 << 18);
  settings.plans = std::move(plans);
  settings.simulate = run.options().gpu == "sim";
  return settings;
}

Coefficients coefficients_for(PaperRun& run) {
  const PaperOptions& options = run.options();
  if (options.plan_costs) return *options.plan_costs;
  const auto processors = static_cast<unsigned>(allowed_processors().size());
  const unsigned threads = options.threads.empty() ? processors : options.threads.front();
  EngineHooks hooks;
  hooks.progress = options.progress;
  return measure_plan_costs(settings_with(run, {}, default_plans(threads)), options.quick, run.document(), hooks);
}

Cell cell_of(const Coefficients& c, const Json& summary, const Profile& profile) {
  Cell cell{.workload = summary["workload"], .plans = {}, .mix = {}, .runs = {}};
  std::vector<Demand> known;
  for (std::size_t i = 0; i < c.plans.size(); ++i) {
    const Json& subject = summary["subjects"][i];
    const Candidate& candidate = c.plans[i].candidate;
    const PaperRun::Point point = PaperRun::throughput(summary, "", subject["subject"].get<std::string>());
    Outcome& outcome = cell.plans.emplace_back();
    outcome.plan = subject["subject"];
    outcome.measured = point.y;
    outcome.runs = point.runs;
    cell.runs.insert(cell.runs.end(), point.runs.begin(), point.runs.end());
    if (const auto d = demand(c, profile, candidate)) {
      outcome.modelled = rate(*d, machine_of(c, candidate.threads)) * 1e3;
      known.push_back(*d);
    }
  }
  if (!known.empty()) cell.mix = best_mix(known, machine_of(c, c.threads));
  return cell;
}

// The workloads with each plan, measured behind the coefficients and modelled by the profile of these turns.
std::vector<Cell> compare(PaperRun& run) {
  const Coefficients c = coefficients_for(run);
  std::vector<PlanChoice> plans;
  for (const Coefficients::PlanCosts& p : c.plans)
    plans.push_back({p.candidate.plan, p.candidate.threads, p.candidate.batch});
  std::vector<Cell> cells;
  EngineHooks hooks;
  hooks.measured = [&](const Json& summary, const PlanMeasurement& m) {
    cells.push_back(cell_of(c, summary, m.profile));
  };
  run.engine(
      settings_with(run, run.options().quick ? std::vector<std::string>{"K8-G100-U", "K8-G50-U"} : dido_workloads(),
                    plans),
      hooks);
  for (const Cell& cell : cells) {
    for (const Outcome& o : cell.plans) {
      if (!o.modelled) run.missing(fmt::format("{} with {}: beyond what was measured", cell.workload, o.plan));
    }
  }
  return cells;
}

std::vector<std::size_t> runs_of(const std::vector<Cell>& cells) {
  std::vector<std::size_t> runs;
  for (const Cell& cell : cells) runs.insert(runs.end(), cell.runs.begin(), cell.runs.end());
  return runs;
}

constexpr Spread alone(double y) noexcept { return {y, y, y}; }

}  // namespace

void figure_9(PaperRun& run) {
  constexpr PaperRun::Axis error_axis = {"error of the model", "%"};
  run.axes("workload", "throughput", "Mops/s");
  const std::vector<Cell> cells = compare(run);
  for (std::size_t p = 0; p < cells.front().plans.size(); ++p) {
    std::vector<PaperRun::Point> measured, modelled;
    for (const Cell& cell : cells) {
      const Outcome& o = cell.plans[p];
      measured.push_back({cell.workload, o.measured, o.runs});
      if (o.modelled) modelled.push_back({cell.workload, alone(*o.modelled), o.runs});
    }
    run.measured(cells.front().plans[p].plan, std::move(measured));
    if (!modelled.empty())
      run.measured(fmt::format("{} by the model", cells.front().plans[p].plan), std::move(modelled));
  }
  std::vector<PaperRun::Point> errors;
  std::vector<double> all;
  for (const Cell& cell : cells) {
    std::vector<double> of_cell;
    for (const Outcome& o : cell.plans) {
      if (o.modelled) of_cell.push_back(o.error());
    }
    if (of_cell.empty()) continue;
    all.insert(all.end(), of_cell.begin(), of_cell.end());
    errors.push_back({cell.workload, spread_of(of_cell), cell.runs});
  }
  if (!all.empty()) {
    const double mean = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
    errors.push_back({"mean", alone(mean), runs_of(cells)});
    errors.push_back({"max", alone(std::ranges::max(all)), runs_of(cells)});
    run.measured("error", std::move(errors), "median, least and most of the plans", error_axis);
  }
  run.given("paper: error", "section V-B, text", {{"mean", 7.7}, {"max", 14.2}}, error_axis);
}

void figure_10(PaperRun& run) {
  run.axes("workload", "throughput", "Mops/s");
  const std::vector<Cell> cells = compare(run);
  std::vector<PaperRun::Point> chosen, best, worst, mixed;
  double hits = 0;
  for (const Cell& cell : cells) {
    const auto by_measure = [](const Outcome& a, const Outcome& b) { return a.measured.median < b.measured.median; };
    const auto by_model = [](const Outcome& a, const Outcome& b) { return a.modelled < b.modelled; };
    const auto most = std::ranges::max_element(cell.plans, by_measure);
    const auto pick = std::ranges::max_element(cell.plans, by_model);  // a plan that it does not know comes last
    best.push_back({cell.workload, most->measured, most->runs});
    const auto least = std::ranges::min_element(cell.plans, by_measure);
    worst.push_back({cell.workload, least->measured, least->runs});
    if (!pick->modelled) continue;
    chosen.push_back({cell.workload, pick->measured, pick->runs});
    mixed.push_back({cell.workload, alone(cell.mix.rate * 1e3), cell.runs});
    hits += pick == most ? 1 : 0;
  }
  run.measured("best plan", std::move(best));
  run.measured("worst plan", std::move(worst));
  constexpr PaperRun::Axis count_axis = {"workloads of which the best plan was chosen", "workloads"};
  if (!chosen.empty()) {
    run.measured("chosen by the model", std::move(chosen));
    run.measured("best mix of two plans by the model", std::move(mixed), "on all processors; none was run");
    run.measured("chosen best", {{"all", alone(hits), runs_of(cells)}}, {}, count_axis);
  }
  run.given("paper: chosen best of 24", "section V-B, text", {{"all", 17}}, count_axis);
}

}  // namespace tandem::bench::dido_paper
