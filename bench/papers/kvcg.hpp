// The parts of KVCG's experiments: the GPU's tables (kvcg.cpp), and the store under load (kvcg_load.cpp).
#pragma once
#include <string>
#include <vector>

#include "bench/papers/paper.hpp"

namespace tandem::bench::kvcg_paper {

// The series of Table 1 from the lines of slab_figures_bench, and their runs.
void draw_table_1(PaperRun& run, const std::vector<Json>& lines);

// Experiment::why_not: hot keys need a device. Without a GPU there is one in software, unless --gpu is off.
std::string no_device(const PaperOptions& options);

void figure_3a(PaperRun& run);
void figure_3b(PaperRun& run);
void figure_3c(PaperRun& run);
void figure_4(PaperRun& run);
void figure_5(PaperRun& run);
void figure_6(PaperRun& run);
void figure_7(PaperRun& run);

}  // namespace tandem::bench::kvcg_paper
