// One cell of the in-process mode, from its tapes to its runs in the document.
#pragma once
#include <vector>

#include "bench/engine/engine.hpp"
#include "bench/engine/store.hpp"
#include "bench/engine/subject.hpp"

namespace tandem::bench {

// The operations of its threads; a tape for each workload and batch size. `settings` are for one number of threads.
CellTapes make_tapes(const EngineSettings& settings, const std::vector<workload::Spec>& specs, const LoadedStore& store,
                     bool getk);

// The run of loading keys.
Json load_run(const EngineSettings& settings, const workload::Spec& spec, const LoadedStore::Load& load,
              unsigned threads);

// `settings` are for this cell alone: one number of threads, one batch size. Returns its summary.
Json run_cell(const EngineSettings& settings, const std::vector<workload::Spec>& specs, LoadedStore& store,
              Json& document, const EngineHooks& hooks);

}  // namespace tandem::bench
