#include "plan/placement.hpp"

#include <stdexcept>

namespace tandem {
namespace {

constexpr std::array plans_host = {plan_cpu};
constexpr std::array plans_mirrored = {plan_located, plan_search, plan_cpu};
constexpr std::array plans_mirrored_values = {plan_frames, plan_located, plan_search, plan_cpu};
constexpr std::array plans_on_device = {plan_located_index, plan_index};

// Why no device can run the task with any placement; empty: one of the placements allows it.
std::string_view never_on_device(Task task) noexcept {
  switch (task) {
    case Task::receive:
      return "RV on a GPU: the host has the sockets";
    case Task::parse:
      return "PP on a GPU: only with S, IN, or all of S KC RD WR, in one stage of all queries";
    case Task::memory:
      return "MM on a GPU: the host's heap gives out the slots of items";
    case Task::key_compare:
      return "KC on a GPU: only with all of PP S RD WR, in one stage of all queries";
    case Task::write_response:
      return "WR on a GPU: only with all of PP S KC RD, in one stage of all queries";
    case Task::send:
      return "SD on a GPU: the host has the sockets";
    case Task::read_value:
      return "RD on a GPU: only with all of PP S KC WR, in one stage of all queries";
    case Task::search:
    case Task::insert:
    case Task::remove:
      break;
  }
  return {};
}

constexpr std::string_view index_changes_on_host =
    "I and D on a GPU: the host's index is the one that changes, a GPU's replica follows it";

std::string_view why_not_mirrored(const Plan& plan) noexcept {
  if (plan.runs(Task::insert, Processor::device) || plan.runs(Task::remove, Processor::device))
    return index_changes_on_host;
  return {};
}

std::string_view why_not_on_device(const Plan& plan) noexcept {
  for (const Task t : {Task::search, Task::insert, Task::remove}) {
    if (plan.runs(t, Processor::cpu)) return "S, I or D on the CPU: the index is in the GPU's memory alone";
  }
  return {};
}

// The same for plans of which devices begin with the input.
std::string_view why_not_from_input(Placement placement, const Plan& plan) noexcept {
  if (placement == Placement::host) return "a task on a GPU: none has the index";
  if (plan == plan_located && placement == Placement::on_device)
    return "I or D on the CPU: the index is in the GPU's memory alone";
  if (plan == plan_frames && placement != Placement::mirrored_values)
    return "RD on a GPU: it has no copies of the items (--gpu-values)";
  if (plan == plan_located_index && placement != Placement::on_device) return index_changes_on_host;
  return {};
}

}  // namespace

std::span<const Plan> feasible_plans(Placement placement) noexcept {
  switch (placement) {
    case Placement::host:
      return plans_host;
    case Placement::mirrored:
      return plans_mirrored;
    case Placement::mirrored_values:
      return plans_mirrored_values;
    case Placement::on_device:
      return plans_on_device;
  }
  return {};
}

std::string why_not(Placement placement, const Plan& plan) {
  if (plan == plan_frames || plan == plan_located || plan == plan_located_index)
    return std::string(why_not_from_input(placement, plan));
  for (std::size_t t = 0; t < task_count; ++t) {
    const auto task = static_cast<Task>(t);
    if (!plan.runs(task, Processor::device)) continue;
    if (const std::string_view why = never_on_device(task); !why.empty()) return std::string(why);
  }
  switch (placement) {
    case Placement::host:
      return plan.uses(Processor::device) ? "a task on a GPU: none has the index" : std::string();
    case Placement::mirrored:
    case Placement::mirrored_values:
      return std::string(why_not_mirrored(plan));
    case Placement::on_device:
      return std::string(why_not_on_device(plan));
  }
  return {};
}

void require_feasible(Placement placement, const Plan& plan) {
  const std::string why = why_not(placement, plan);
  if (why.empty()) return;
  throw std::invalid_argument("plan " + plan.text() + " is not feasible with placement " +
                              std::string(placement_names[static_cast<std::size_t>(placement)]) + ": " + why);
}

}  // namespace tandem
