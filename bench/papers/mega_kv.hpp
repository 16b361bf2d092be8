// The parts of Mega-KV's experiments: the store (mega_kv_store.cpp) and its GPU (mega_kv_gpu.cpp).
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "bench/papers/figures_program.hpp"
#include "bench/papers/paper.hpp"

namespace tandem::bench::mega_kv_paper {

// Section 8.1: data sets a to d.
struct DataSet {
  std::string_view label, workload;
};
inline constexpr std::array<DataSet, 4> data_sets = {{{"8 B key, 8 B value", "K8"},
                                                      {"16 B key, 64 B value", "K16"},
                                                      {"32 B key, 512 B value", "K32-V512"},
                                                      {"128 B key, 1024 B value", "K128"}}};

// Experiment::why_not: as no_figures_program(), of the cuckoo table's kernels.
std::string no_cuckoo_program(const PaperOptions& options);

// Whether the GPU's side of the figure can be measured; if not, the figure says so. side: what is missing then.
bool has_gpu(PaperRun& run, std::string_view side);
// Has a device run the plan, or one in software. Its scheduler's thread has its own processor, if there are two.
void use_device(const PaperRun& run, std::string_view plan, EngineSettings& settings);

// The series of figures 6, 7 and 8 from that program's lines, and their runs.
void draw_figure_6(PaperRun& run, const std::vector<Json>& lines);
void draw_figure_7(PaperRun& run, const std::vector<Json>& lines);
void draw_figure_8(PaperRun& run, const std::vector<Json>& lines);

void figure_6(PaperRun& run);
void figure_7(PaperRun& run);
void figure_8(PaperRun& run);
void figure_10(PaperRun& run);
void figure_12(PaperRun& run);

void figure_13(PaperRun& run);
void table_3(PaperRun& run);
void figure_16(PaperRun& run);
void figure_17(PaperRun& run);

}  // namespace tandem::bench::mega_kv_paper
