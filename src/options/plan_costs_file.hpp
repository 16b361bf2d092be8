// What `tandem calibrate --plans` has measured, as a file.
#pragma once
#include <string>
#include <string_view>

#include "options/calibration_file.hpp"
#include "planner/coefficients.hpp"

namespace tandem::cli {

inline constexpr std::string_view plan_costs_format = "tandem-plans/1";

nlohmann::ordered_json plan_costs_json(const Coefficients& coefficients);
// Throws CalibrationError that begins with `path`: no such file's text, or one that cannot have been measured.
Coefficients parse_plan_costs(std::string_view text, std::string_view path);
// Throws CalibrationError: it was measured on another machine, by another version, or with more processors than there
// are. gpu: of this machine.
void check_machine(const Coefficients& coefficients, std::string_view processor, std::string_view gpu,
                   unsigned processors, std::string_view path);
// Beside calibration_path(); empty: no home is known.
std::string plan_costs_path();

}  // namespace tandem::cli
