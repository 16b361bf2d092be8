// The parts of KVCG's experiments that tests call.
#pragma once
#include <vector>

#include "bench/papers/paper.hpp"

namespace tandem::bench::kvcg_paper {

// The series of Table 1 from the lines of slab_figures_bench, and their runs.
void draw_table_1(PaperRun& run, const std::vector<Json>& lines);

}  // namespace tandem::bench::kvcg_paper
