// The eight tasks (DIDO III-A) and the plan that says which processor runs each. Every batch carries its plan, so plans
// change at run time without stopping anything.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace tandem {

enum class Task : std::uint8_t { receive, parse, memory, index, key_compare, read_value, write_response, send };
inline constexpr std::size_t task_count = 8;
inline constexpr std::array<std::string_view, task_count> task_names = {"RV", "PP", "MM", "IN", "KC", "RD", "WR", "SD"};

enum class Processor : std::uint8_t { cpu, device };

struct Plan {
  std::array<Processor, task_count> processor{};  // all CPU
  Processor of(Task t) const noexcept { return processor[static_cast<std::size_t>(t)]; }
  friend bool operator==(const Plan&, const Plan&) = default;
};
inline constexpr Plan plan_cpu{};
// The device searches its replica of the index; the rest is the host's.
inline constexpr Plan plan_mirrored = [] {
  Plan plan;
  plan.processor[static_cast<std::size_t>(Task::index)] = Processor::device;
  return plan;
}();
// It also returns the items: KC compares, and WR copies, what has come from its memory.
inline constexpr Plan plan_mirrored_values = [] {
  Plan plan = plan_mirrored;
  plan.processor[static_cast<std::size_t>(Task::read_value)] = Processor::device;
  return plan;
}();

}  // namespace tandem
