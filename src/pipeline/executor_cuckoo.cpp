#include "index/cuckoo/cuckoo_index.hpp"
#include "pipeline/executor-inl.hpp"

namespace tandem {

const KindCode cuckoo_code = code_of<CuckooIndex>();

}  // namespace tandem
