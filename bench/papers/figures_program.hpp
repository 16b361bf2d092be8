// Programs beside this one that measure a GPU's kernels: a JSON object a line, of which the last confirms that the
// answers were checked.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/papers/paper.hpp"

namespace tandem::bench {

// Experiment::why_not: there is no GPU, or no such program beside this one.
std::string no_gpu(const PaperOptions& options);
std::string no_figures_program(const PaperOptions& options, std::string_view program);

// The lines of a program's output that are of one figure and have a time. Throws std::runtime_error: the output is
// invalid, or does not confirm that the answers were checked.
std::vector<Json> figure_lines(std::string_view text, std::string_view figure, std::string_view program);
// Runs the program. REQUIRES: no_figures_program() is empty.
std::vector<Json> measured_lines(PaperRun& run, std::string_view figure, std::string_view program);

// A line as a run of the document, and as a point: of its times in us, or as_rate in Mops/s.
PaperRun::Point point_of(PaperRun& run, const Json& line, std::uint64_t ops, std::string x, bool as_rate);

// Series by name, in the order of their first points.
class FigureSeries {
 public:
  void add(const std::string& name, PaperRun::Point point);
  void write(PaperRun& run);

 private:
  std::vector<std::string> order_;
  std::map<std::string, std::vector<PaperRun::Point>> points_;
};

}  // namespace tandem::bench
