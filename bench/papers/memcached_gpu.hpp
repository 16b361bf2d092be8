// The parts of MemcachedGPU's experiments: requests that a GPU answers whole, as many as possible
// (memcached_gpu_frames.cpp) and at given rates (memcached_gpu_load.cpp), other work beside them
// (memcached_gpu_background.cpp), and the set-associative table (memcached_gpu_sets.cpp).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/papers/paper.hpp"

namespace tandem::bench::memcached_gpu_paper {

inline constexpr std::uint32_t paper_batch = 512;  // of requests; section 5.3
inline constexpr double paper_rate = 4e6;          // requests a second; figure 5, and section 5.4
inline constexpr std::string_view missing_fill =
    "the time in which the requests of a batch arrive: a batch is received whole, when its last request is due";

std::string gpu_plan_name(const PaperRun& run);
// Raw frames in batches of 512: of the CPU plan, and of the preset, where a GPU answers requests whole from its
// set-associative table. The CPU plan beside it has the host's fastest index.
EngineSettings cpu_settings(const PaperRun& run, std::vector<std::string> workloads);
EngineSettings gpu_settings(const PaperRun& run, std::vector<std::string> workloads);
// Whether the GPU's side of the figure can be measured; if not, the figure says so.
bool has_gpu(PaperRun& run);

void figure_2(PaperRun& run);

void table_3(PaperRun& run);
void figure_3(PaperRun& run);
void figure_4(PaperRun& run);
std::string no_meter(const PaperOptions& options);  // Experiment::why_not
void figure_5(PaperRun& run);
void table_4(PaperRun& run);
void figure_6(PaperRun& run);
void figure_7(PaperRun& run);
void table_5(PaperRun& run);
void table_6(PaperRun& run);

}  // namespace tandem::bench::memcached_gpu_paper
