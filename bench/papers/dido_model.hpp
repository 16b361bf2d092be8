// DIDO's figures of the cost model.
#pragma once
#include "bench/papers/paper.hpp"

namespace tandem::bench::dido_paper {

void figure_9(PaperRun& run);
void figure_10(PaperRun& run);

}  // namespace tandem::bench::dido_paper
