// The parts of MemcachedGPU's experiments: requests that a GPU answers whole (memcached_gpu_frames.cpp) and the
// set-associative table (memcached_gpu_sets.cpp).
#pragma once
#include "bench/papers/paper.hpp"

namespace tandem::bench::memcached_gpu_paper {

void figure_2(PaperRun& run);

void table_3(PaperRun& run);
void figure_3(PaperRun& run);
void table_4(PaperRun& run);
void table_5(PaperRun& run);
void table_6(PaperRun& run);

}  // namespace tandem::bench::memcached_gpu_paper
